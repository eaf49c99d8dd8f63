//! `zipwire run` of a scenario with a `[sweep]`: all its points, and a table of them.

use std::fs::File;
use std::io::{Write, stdout};
use std::path::Path;
use std::thread::available_parallelism;

use serde_json::Value;
use zipwire::scenarios::{Experiment, Sweep};
use zipwire::sweep::{SweepEvent, SweepReport, SweepRow, SweepSetup};
use zipwire::{Cancel, Executor};

use super::knee;
use crate::cli::RunArgs;
use crate::commands::{distinct, say_warnings};
use crate::error::CliError;
use crate::progress::Progress;
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
        shown: SHOWN,
    };
    let count = sweep.point_count();
    let progress = Progress::new(count);
    progress.begin("points".to_owned());
    let report = zipwire::sweep::run(&setup, cancel, &|event| match event {
        SweepEvent::Begun { done, dropped, damaged } => {
            if dropped {
                progress.say("the journal ended in a half-written line, which was dropped");
            }
            if damaged > 0 {
                let lines = if damaged == 1 { "1 line" } else { &*format!("{damaged} lines") };
                progress
                    .say(&format!("{lines} of the journal: damaged, left out; what was lost is run again"));
            }
            if done > 0 {
                progress.say(&format!("{done} of {count} points were there already"));
            }
            progress.skip(done);
        }
        SweepEvent::Ended => progress.end(),
    })?;
    drop(progress);

    let mut out = stdout().lock();
    if args.json {
        std::io::copy(&mut File::open(folder.join("summary.json"))?, &mut out)?;
    } else {
        write!(out, "{}", text(&base, sweep, &report, executors, &folder))?;
    }
    out.flush()?;
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

/// How many points run at the same time. Real ranks have the machine for themselves.
fn jobs(asked: Option<u16>, executors: &[&'static dyn Executor]) -> Result<usize, CliError> {
    let real = executors.iter().find(|executor| executor.is_real());
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
    let serves = base.serving.is_some();
    if serves {
        header.extend(knee::COLUMNS);
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
                line.extend(knee::cells(results[0]));
                rows.add_row(line);
                continue;
            }
            let time = |result: &Option<&Value>| {
                let seconds = result.and_then(|result| result["iteration_s"]["mean"].as_f64());
                seconds.map_or_else(|| "failed".to_owned(), table::seconds)
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
    let knee = if serves { knee::text(&report.rows, executors[0].name()) } else { String::new() };
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
