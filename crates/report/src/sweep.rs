//! Report of a sweep: when compression pays, and all points.

use serde::Deserialize;
use serde_json::Value;

use crate::html::{Cell, escape, list, paragraph, table};
use crate::outcome::Named;
use crate::page::Section;
use crate::quantity::{factor, percent, seconds};
use crate::run::{Executors, VariantOutcome};

/// Gains and losses below this are none.
const NOTHING: f64 = 0.005;
/// Rows of the table of all points.
const MOST_ROWS: usize = 400;
/// Columns of a grid.
const MOST_COLUMNS: usize = 16;

/// `summary.json` of a sweep.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SweepOutcome {
    pub(crate) scenario: String,
    pub(crate) seed: u64,
    #[serde(default)]
    pub(crate) version: String,
    pub(crate) rows: Vec<PointOutcome>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PointOutcome {
    pub(crate) set: Named<Value>,
    pub(crate) executors: Executors,
    #[serde(default)]
    pub(crate) failed: Vec<FailedOutcome>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FailedOutcome {
    pub(crate) executor: Option<String>,
    pub(crate) variant: Option<String>,
    pub(crate) error: String,
}

/// Sections of a sweep.
pub(crate) fn sections(sweep: &SweepOutcome) -> Vec<Section> {
    vec![
        Section::verdict(&verdict_lines(sweep), &failures(sweep)),
        Section::new("Where it pays", grids(sweep)),
        Section::new("All points", points(sweep)),
    ]
}

/// Values that a point sets, in words.
fn set_text(point: &PointOutcome) -> String {
    let values = point.set.0.iter().map(|(path, value)| format!("`{path}` = {}", value_text(value)));
    values.collect::<Vec<_>>().join(", ")
}

/// A swept value in words.
pub(crate) fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Speedup of the best variant that codes, at each point that has one.
fn gains(sweep: &SweepOutcome) -> Vec<(f64, &str, &PointOutcome)> {
    sweep
        .rows
        .iter()
        .filter_map(|point| {
            let coded = point.executors.results().filter(|(.., result)| {
                result.split.is_some() || result.ratio.is_some_and(|ratio| (ratio - 1.0).abs() > f64::EPSILON)
            });
            let speedups = coded.filter_map(|(_, variant, result)| Some((result.speedup?, variant)));
            let (speedup, variant) =
                speedups.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
            Some((speedup, variant, point))
        })
        .collect()
}

/// Verdict in sentences, the first one first.
pub(crate) fn verdict_lines(sweep: &SweepOutcome) -> Vec<String> {
    let mut gains = gains(sweep);
    let count = sweep.rows.len();
    let failed = sweep.rows.iter().filter(|point| !point.failed.is_empty()).count();
    let mut lines = Vec::new();
    gains.sort_by(|a, b| b.0.total_cmp(&a.0));
    if let (Some(best), Some(worst)) = (gains.first(), gains.last()) {
        let paying = gains.iter().filter(|(speedup, ..)| *speedup > 1.0 + NOTHING).count();
        lines.push(format!("compression pays at {paying} of {} points", gains.len()));
        for (which, (speedup, variant, point)) in [("most", best), ("least", worst)] {
            let set = set_text(point);
            lines.push(format!(
                "{which}: `{variant}` is {speedup:.2} times as fast as the first variant, at {set}"
            ));
        }
    } else {
        lines.push(format!(
            "{count} points, of which no coded variant has a speedup: the table has their numbers"
        ));
    }
    if failed > 0 {
        lines.push(format!("{failed} of {count} points failed"));
    }
    lines
}

fn failures(sweep: &SweepOutcome) -> String {
    let failed = sweep.rows.iter().flat_map(|point| point.failed.iter().map(move |failed| (point, failed)));
    let failed = failed.take(10).map(|(point, failed)| {
        let run = [&failed.variant, &failed.executor].map(|name| name.as_deref().unwrap_or("-"));
        format!("`{}` on `{}` at {}: {}", run[0], run[1], set_text(point), failed.error)
    });
    list(&failed.collect::<Vec<_>>())
}

/// Cell of a grid, coloured as a gain or a loss: a share of requests where these are served, else a speedup; a dash without one.
fn grid_cell(result: Option<&VariantOutcome>, serves: bool) -> Cell {
    if serves {
        let met = result.and_then(|result| result.requests.as_ref()?.slo_met);
        return Cell::number(met, percent).coloured(met.map(|met| met >= 0.9));
    }
    let speedup = result.and_then(|result| result.speedup);
    let is_good = speedup.and_then(|speedup| match speedup {
        gain if gain > 1.0 + NOTHING => Some(true),
        loss if loss < 1.0 - NOTHING => Some(false),
        _ => None,
    });
    Cell::number(speedup, factor).coloured(is_good)
}

/// Variants of each executor in the order of a point that has most of them: the first is that which speedups are over.
pub(crate) fn variants(sweep: &SweepOutcome) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut runs: Vec<&(String, Named<VariantOutcome>)> =
        sweep.rows.iter().flat_map(|point| &point.executors.0).collect();
    runs.sort_by_key(|(_, variants)| std::cmp::Reverse(variants.0.len()));
    for (executor, variants) in runs {
        let place = found.iter().position(|(known, _)| known == executor).unwrap_or_else(|| {
            found.push((executor, Vec::new()));
            found.len() - 1
        });
        for (variant, _) in &variants.0 {
            if !found[place].1.contains(&variant.as_str()) {
                found[place].1.push(variant);
            }
        }
    }
    found
}

/// For each variant a grid over the last thing that is swept, a row for each combination of the others.
fn grids(sweep: &SweepOutcome) -> String {
    let Some(paths) = sweep.rows.first().map(|point| &point.set.0) else {
        return paragraph("The sweep has no points.");
    };
    let (last, others) = paths.split_last().map_or(("", &[][..]), |(last, others)| (last.0.as_str(), others));
    let mut columns: Vec<String> = Vec::new();
    for point in &sweep.rows {
        let value = point.set.0.last().map_or(String::new(), |(_, value)| value_text(value));
        if !columns.contains(&value) {
            columns.push(value);
        }
    }
    if columns.len() > MOST_COLUMNS {
        return paragraph(&format!(
            "`{last}` has {} values, too many for a grid: see the table below.",
            columns.len()
        ));
    }
    let all = || sweep.rows.iter().flat_map(|point| point.executors.results());
    let serves = all().any(|(.., result)| result.requests.is_some());
    if !serves && all().all(|(.., result)| result.speedup.is_none()) {
        return paragraph("Nothing here has a speedup: the table below has the times.");
    }
    let lead = if serves {
        "Share of the requests that are served as promised, where promises are made; green is 90 % and more."
    } else {
        "Speedup over the first variant, which itself is left out: green is a gain and red a loss of more than 0.5 %."
    };
    let mut html = paragraph(&format!("{lead} Columns are values of `{last}`."));
    for (executor, variants) in variants(sweep) {
        for variant in variants.into_iter().skip(usize::from(!serves)) {
            html += &format!("<h4><code>{}</code>, {}</h4>\n", escape(variant), escape(executor));
            html += &grid(sweep, (executor, variant), (others, &columns), serves);
        }
    }
    html
}

fn grid(
    sweep: &SweepOutcome,
    (executor, variant): (&str, &str),
    (others, columns): (&[(String, Value)], &[String]),
    serves: bool,
) -> String {
    let mut header: Vec<&str> = others.iter().map(|(path, _)| path.as_str()).collect();
    header.extend(columns.iter().map(String::as_str));
    let mut rows: Vec<(Vec<String>, Vec<Cell>)> = Vec::new();
    for point in &sweep.rows {
        let values: Vec<String> = point.set.0.iter().map(|(_, value)| value_text(value)).collect();
        let Some((column, key)) = values.split_last() else { continue };
        let own = point.executors.results().find(|(e, v, _)| (*e, *v) == (executor, variant));
        let cell = grid_cell(own.map(|(.., result)| result), serves);
        let row = match rows.iter().position(|(known, _)| known == key) {
            Some(row) => row,
            None => {
                let empty = vec![Cell::number(None, |_| String::new()); columns.len()];
                rows.push((key.to_vec(), empty));
                rows.len() - 1
            }
        };
        if let Some(place) = columns.iter().position(|known| known == column) {
            rows[row].1[place] = cell;
        }
    }
    let rows = rows.into_iter().map(|(key, cells)| {
        let key = key.iter().map(|value| Cell::text(value));
        key.chain(cells).collect()
    });
    table(&header, &rows.collect::<Vec<Vec<Cell>>>())
}

fn points(sweep: &SweepOutcome) -> String {
    let mut header: Vec<&str> = vec!["point"];
    header.extend(
        sweep.rows.first().iter().flat_map(|point| point.set.0.iter().map(|(path, _)| path.as_str())),
    );
    header.extend([
        "variant",
        "executor",
        "time",
        "speedup",
        "by compression",
        "by algorithm",
        "communication",
        "waiting",
        "codec",
        "ratio",
    ]);
    let all = || {
        let points = sweep.rows.iter().enumerate();
        points.flat_map(|(index, point)| point.executors.results().map(move |result| (index, point, result)))
    };
    let rows: Vec<Vec<Cell>> = all()
        .take(MOST_ROWS)
        .map(|(index, point, (executor, variant, result))| {
            let mut row = vec![Cell::number(Some(index as f64 + 1.0), |number| number.to_string())];
            row.extend(point.set.0.iter().map(|(_, value)| Cell::text(&value_text(value))));
            row.extend([
                Cell::name(variant),
                Cell::text(executor),
                Cell::number(result.iteration_s.mean, seconds),
                Cell::number(result.speedup, factor),
                Cell::number(result.split.map(|split| split.compression), factor),
                Cell::number(result.split.map(|split| split.algorithm), factor),
                Cell::number(result.comm_s, seconds),
                Cell::number(result.wait_s, seconds),
                Cell::number(result.codec_s, seconds),
                Cell::number(result.ratio, factor),
            ]);
            row
        })
        .collect();
    let all = all().count();
    let cut = if all > rows.len() {
        paragraph(&format!("The first {} of {all} rows; all are in `sweep.csv`.", rows.len()))
    } else {
        String::new()
    };
    cut + &table(&header, &rows)
}
