//! Sweeps of serving: their table, and up to which rate of requests each variant keeps what users are promised.

use serde_json::Value;
use zipwire::scenarios::Dimension;
use zipwire::sweep::SweepRow;

use crate::table;

/// Share of the requests that must be served as promised for a rate to count as kept.
const KEPT: f64 = 0.9;

/// The columns of a run of serving, behind what the sweep sets and the variant.
pub(super) const COLUMNS: [&str; 9] =
    ["TTFT", "p99", "TPOT p99", "e2e", "KV wait", "goodput", "SLO met", "ratio", "overload"];

/// The cells of these columns.
pub(super) fn cells(result: Option<&Value>) -> [String; 9] {
    let number = |pointer: &str| result.and_then(|result| result.pointer(pointer)?.as_f64());
    let seconds = |pointer: &str| number(pointer).map_or_else(|| "-".to_owned(), table::seconds);
    let is_overloaded = result.and_then(|result| result.pointer("/requests/is_overloaded")?.as_bool());
    [
        seconds("/requests/ttft_s/mean"),
        seconds("/requests/ttft_s/p99"),
        seconds("/requests/tpot_s/p99"),
        seconds("/requests/e2e_s/mean"),
        seconds("/requests/kv_wait_s/mean"),
        number("/requests/goodput_per_s").map_or_else(|| "failed".to_owned(), |rate| format!("{rate:.3} /s")),
        table::or_dash(number("/requests/slo_met"), |share| format!("{:.1} %", 100.0 * share)),
        table::or_dash(number("/ratio"), |ratio| format!("{ratio:.3}")),
        is_overloaded.map_or("-", |is_overloaded| if is_overloaded { "yes" } else { "" }).to_owned(),
    ]
}

/// A rate, the value that says it, and whether promises are kept at it.
type Point = (f64, String, bool);

/// A swept rate: how many requests come per second, or how many times as fast as recorded.
fn rate(path: &str, value: &Value) -> Option<f64> {
    match path.rsplit('.').next()? {
        "poisson" => Dimension::Rate.parse(value.as_str()?),
        "every" => Some(1.0 / Dimension::Time.parse(value.as_str()?)?),
        "scale" => value.as_f64(),
        _ => None,
    }
}

/// A table with the largest rate of the sweep up to which [`KEPT`] of the requests, at it and all below it, are served as promised: a row for each
/// variant and whatever else is swept. Nothing where no rate is swept.
pub(super) fn text(rows: &[SweepRow], executor: &str) -> String {
    let Some(axis) =
        rows.first().and_then(|row| row.set.iter().position(|(path, value)| rate(path, value).is_some()))
    else {
        return String::new();
    };
    let mut groups: Vec<(Vec<String>, Vec<Point>)> = Vec::new();
    for row in rows {
        let set: Vec<(&String, &Value)> = row.set.iter().collect();
        let (path, value) = set[axis];
        let Some(at) = rate(path, value) else { continue };
        for (variant, result) in row.executors.get(executor).and_then(Value::as_object).into_iter().flatten()
        {
            let others = set.iter().enumerate().filter(|(index, _)| *index != axis);
            let mut name: Vec<String> = others.map(|(_, (_, value))| super::sweep::value(value)).collect();
            name.push(variant.clone());
            let is_kept =
                result.pointer("/requests/slo_met").and_then(Value::as_f64).is_some_and(|met| met >= KEPT);
            let entry = (at, super::sweep::value(value), is_kept);
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, entries)) => entries.push(entry),
                None => groups.push((name, vec![entry])),
            }
        }
    }
    let paths: Vec<&str> = rows[0].set.keys().map(String::as_str).collect();
    let mut header: Vec<&str> =
        paths.iter().enumerate().filter(|(index, _)| *index != axis).map(|(_, path)| *path).collect();
    header.extend(["variant", "most with SLO met"]);
    let mut found = table::new(&header, &[header.len() - 2]);
    for (name, mut entries) in groups {
        entries.sort_by(|a, b| a.0.total_cmp(&b.0));
        let kept = entries.iter().take_while(|(.., is_kept)| *is_kept).count();
        let text = match kept {
            0 => format!("less than {}", entries[0].1),
            count if count == entries.len() => format!("{} or more", entries[count - 1].1),
            count => entries[count - 1].1.clone(),
        };
        let mut line = name;
        line.push(text);
        found.add_row(line);
    }
    let percent = 100.0 * KEPT;
    format!(
        "\n`{}` up to which {percent} % of the requests are served as promised:\n\n{}\n",
        paths[axis],
        table::text(&found)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(poisson: &str, chunk: u32, met: f64) -> SweepRow {
        let set = json!({ "workload.arrivals.poisson": poisson, "workload.chunk": chunk });
        let executors = json!({ "sim": { "native": { "requests": { "slo_met": met } } } });
        serde_json::from_value(json!({ "set": set, "executors": executors })).expect("it is a row")
    }

    /// A rate that is kept above one that is not kept does not count.
    #[test]
    fn a_knee_is_the_last_rate_before_the_first_that_is_too_high() {
        let rows = [
            row("1 /s", 1, 1.0),
            row("4 /s", 1, 0.95),
            row("2 /s", 1, 0.8),
            row("1 /s", 2, 0.5),
            row("60 /min", 3, 0.99),
        ];
        let text = text(&rows, "sim");
        let lines: Vec<Vec<&str>> = text
            .lines()
            .skip(4)
            .map(|line| line.split("  ").map(str::trim).filter(|s| !s.is_empty()).collect())
            .collect();
        assert_eq!(lines[0], ["1", "native", "1 /s"]);
        assert_eq!(lines[1], ["2", "native", "less than 1 /s"]);
        assert_eq!(lines[2], ["3", "native", "60 /min or more"]);
    }
}
