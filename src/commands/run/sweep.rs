//! `zipwire run` of a scenario with a `[sweep]`: all its points, a table of them, and the rate of requests that is kept.

use std::fs::File;
use std::io::{Write, stdout};
use std::path::Path;
use std::thread::available_parallelism;

use serde_json::Value;
use zipwire::scenarios::{Dimension, Experiment, Sweep};
use zipwire::sweep::{SweepEvent, SweepReport, SweepRow, SweepSetup};
use zipwire::{Cancel, Executor};

use super::watch::{Candidate, Watch};
use crate::cli::RunArgs;
use crate::commands::{distinct, print, say_warnings};
use crate::error::CliError;
use crate::table;

/// Most points in the table.
const SHOWN: usize = 100;
/// Longest text of a swept value in the table, in characters.
const VALUE_LENGTH: usize = 24;

pub(super) fn run(
    args: &RunArgs,
    sweep: &Sweep,
    executors: &[&'static dyn Executor],
    cancel: &Cancel,
) -> Result<(), CliError> {
    let mut base = sweep.base()?;
    base.select(&args.scenario.variant)?;
    if let Some((executor, missing)) =
        executors.iter().find_map(|executor| Some((executor.name(), executor.missing()?)))
    {
        return Err(zipwire::ExecuteError::Unavailable(executor, missing).into());
    }
    let folder = args.folder(&base.name);
    crate::commands::refuse_store(Some(&folder))?;
    let setup = SweepSetup {
        sweep,
        executors,
        variants: &args.scenario.variant,
        jobs: jobs(args.jobs, executors)?,
        folder: &folder,
        timelines: args.timelines,
        explains: !args.no_verdict,
        fresh: args.fresh,
        memory: args.memory,
        verifies: !args.no_verify,
        folds: args.folds(),
        shown: SHOWN,
    };
    let count = sweep.point_count();
    let watch = Watch::new(args.watch, count, "points");
    let report = zipwire::sweep::run(&setup, cancel, &|event| match event {
        SweepEvent::Begun { done, dropped, damaged } => {
            if dropped {
                watch.say("the journal ended in a half-written line, which was dropped");
            }
            if damaged > 0 {
                let lines = if damaged == 1 { "1 line" } else { &*format!("{damaged} lines") };
                watch.say(&format!("{lines} of the journal: damaged, left out; what was lost is run again"));
            }
            if done > 0 {
                watch.say(&format!("{done} of {count} points were there already"));
            }
            watch.skip(done);
        }
        SweepEvent::Found(row) => watch.found(best_of(row, executors[0])),
        SweepEvent::Ended(row) => watch.ended(best_of(row, executors[0])),
    })?;
    drop(watch);

    if args.json {
        let mut out = stdout().lock();
        std::io::copy(&mut File::open(folder.join("summary.json"))?, &mut out)?;
        out.flush()?;
    } else {
        print(text(&base, sweep, &report, executors, &folder))?;
    }
    say_warnings(&base);
    if !args.json {
        say!("all rows are in sweep.csv and summary.json in {}", folder.display());
    }
    if report.failed > 0 {
        let csv = folder.join("sweep.csv");
        return Err(CliError::PointsFailed { failed: report.failed, of: report.points, csv });
    }
    Ok(())
}

/// The variant of a point that gains most over the first one: by its speedup, or where requests are served by the time to their first token.
fn best_of(row: &SweepRow, executor: &dyn Executor) -> Option<Candidate> {
    let results = row.executors.get(executor.name()).and_then(Value::as_object)?;
    let number = |result: &Value, pointer: &str| result.pointer(pointer).and_then(Value::as_f64);
    let ttft_s = |result: &Value| number(result, "/requests/ttft_s/mean");
    let (_, first) = results.iter().next()?;
    let candidates = results.iter().skip(1).filter_map(|(variant, result)| {
        let served =
            ttft_s(first).zip(ttft_s(result)).map(|(first, own)| (first / own, "speedup of the TTFT"));
        let (value, what) = served.or_else(|| Some((number(result, "/speedup")?, "speedup")))?;
        let set = row.set.iter().map(|(path, at)| format!("{path}={}", self::value(at)));
        let set = set.collect::<Vec<_>>().join(", ");
        Some(Candidate { value, name: format!("{what} {value:.3}, `{variant}` at {set}") })
    });
    candidates.max_by(|a, b| a.value.total_cmp(&b.value))
}

/// How many points run at the same time. Real ranks have the machine for themselves.
fn jobs(asked: Option<u16>, executors: &[&'static dyn Executor]) -> Result<usize, CliError> {
    let real = executors.iter().find(|executor| executor.capabilities().is_real);
    match (asked, real) {
        (Some(2..), Some(executor)) => Err(CliError::Usage(format!(
            "`--jobs`: points on `{executor}` run one after the other, so that they do not disturb each other"
        ))),
        (Some(jobs), _) => Ok(jobs.into()),
        (None, Some(_)) => Ok(1),
        (None, None) => Ok(available_parallelism().map_or(1, std::num::NonZero::get)),
    }
}

/// The table: a row per point and variant; ratio and speedup are those of the first executor.
fn text(
    base: &Experiment,
    sweep: &Sweep,
    report: &SweepReport,
    executors: &[&'static dyn Executor],
    folder: &Path,
) -> String {
    let paths: Vec<&str> = sweep.paths().collect();
    let mut header = paths.clone();
    header.push("variant");
    let times: Vec<String> = executors.iter().map(|executor| format!("{executor}: time")).collect();
    let serves = base.as_serving().is_some();
    if serves {
        header.extend(COLUMNS);
    } else {
        header.extend(times.iter().map(String::as_str));
        header.extend(["speedup", "by compression", "by algorithm", "ratio"]);
    }
    let mut rows = table::new(&header, &[paths.len()]);
    for row in &report.rows {
        for (variant, results) in by_variant(row, executors) {
            let mut line: Vec<String> = row.set.values().map(value).collect();
            line.push(variant);
            if serves {
                line.extend(cells(results[0]));
                rows.add_row(line);
                continue;
            }
            let time = |result: &Option<&Value>| {
                let number = |path| result.and_then(|result| result.pointer(path)?.as_f64());
                let margin_s = number("/iteration_margin_s");
                let seconds = number("/iteration_s/mean");
                seconds.map_or_else(|| "failed".to_owned(), |mean_s| table::seconds_within(mean_s, margin_s))
            };
            line.extend(results.iter().map(time));
            let keys = ["/speedup", "/split/compression", "/split/algorithm", "/ratio"];
            line.extend(keys.map(|key| {
                let number = results[0].and_then(|result| result.pointer(key)?.as_f64());
                table::or_dash(number, |number| format!("{number:.3}"))
            }));
            rows.add_row(line);
        }
    }
    let points = report.points;
    let rest = if points > report.rows.len() {
        let csv = folder.join("sweep.csv");
        format!("\nthe first {} of {points} points; all are in {}\n", report.rows.len(), csv.display())
    } else {
        String::new()
    };
    let knee = if serves { knee_text(&report.rows, executors[0].name()) } else { String::new() };
    format!("{}: {points} points\n\n{}\n{rest}{knee}", base.name, table::text(&rows))
}

/// The variants of a row, each with its result on every executor; `None` where it has none.
fn by_variant<'a>(
    row: &'a SweepRow,
    executors: &[&'static dyn Executor],
) -> Vec<(String, Vec<Option<&'a Value>>)> {
    let names = distinct(row.runs().iter().map(|run| run.variant.unwrap_or("-")));
    let result = |name: &str, executor: &&'static dyn Executor| row.executors.get(executor.name())?.get(name);
    let results = |name: &str| executors.iter().map(|executor| result(name, executor)).collect();
    names.into_iter().map(|name| (name.to_owned(), results(name))).collect()
}

/// A swept value, not too long.
pub(super) fn value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= VALUE_LENGTH {
        return text;
    }
    format!("{}...", text.chars().take(VALUE_LENGTH).collect::<String>())
}

/// Share of the requests that must be served as promised for a rate to count as kept.
const KEPT: f64 = 0.9;

/// The columns of a run of serving, behind what the sweep sets and the variant.
const COLUMNS: [&str; 9] =
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
fn knee_text(rows: &[SweepRow], executor: &str) -> String {
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
        let text = crate::style::paint(&knee_text(&rows, "sim"), false);
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
