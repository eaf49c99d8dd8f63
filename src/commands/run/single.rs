//! `zipwire run` of one scenario: its table, timelines and summary.

use std::io::{Write, stdout};
use std::path::Path;
use std::sync::Arc;

use zipwire::executors::settle;
use zipwire::traces::Summary;
use zipwire::{
    Cancel, ExecuteError, Executor, Output, Prepared, RunResult, Shared, Unfired, add_splits, compare,
    write_run,
};

use super::{ranks, table::text, verdict};
use crate::cli::RunArgs;
use crate::commands::{load_scenario, say_warnings};
use crate::error::CliError;
use crate::progress::Progress;

pub(super) fn run(
    args: &RunArgs,
    executors: &[&'static dyn Executor],
    cancel: &Cancel,
) -> Result<(), CliError> {
    let mut experiment = load_scenario(&args.scenario)?;
    let first_variant = experiment.variants[0].name.clone();
    experiment.select(&args.scenario.variant)?;
    let settled = settle(&mut experiment, executors);
    let shared = Arc::new(Shared::with_memory(args.memory));
    let mut prepared = Prepared::with(&experiment, shared, cancel)?;
    executors.iter().try_for_each(|&executor| prepared.check(executor))?;
    settled.iter().for_each(|line| eprintln!("{line}"));
    let folder = args.out.clone().unwrap_or_else(|| Path::new("out").join(&experiment.name));
    let hold = cancel.hold();
    let mut output = Output::create(&folder)?;

    let progress = Progress::new(executors.len() * experiment.variants.len());
    let mut steps = 0;
    let begin = |executor: &dyn Executor, variant: &str| {
        if steps > 0 {
            progress.end();
        }
        steps += 1;
        progress.begin(format!("{executor}: {variant}"));
    };
    let keep = |ran: &RunResult<'_>| write_run(&mut output, ran).map_err(CliError::from);
    let mut compared = compare(&mut prepared, executors, &first_variant, cancel, begin, keep)?;
    drop(progress);
    if !compared.failed.is_empty() {
        let failed = compared.failed.into_iter().map(|failed| failed.error).collect();
        return Err(CliError::Failed { failed, of: executors.len() * experiment.variants.len() });
    }
    if let Some(said) = unfired_text(&compared.unfired) {
        eprintln!("{said}");
    }
    drop(prepared);
    let shared = Arc::new(Shared::with_memory(args.memory));
    add_splits(&mut compared.executors, &experiment, &shared, cancel)?;
    let summary = Summary::new(&experiment.name, experiment.seed, compared.executors);
    output.write("summary.json", |out| summary.write(out))?;
    if cancel.is_cancelled() {
        return Err(ExecuteError::Cancelled.into());
    }
    output.commit()?;
    drop(hold);

    let mut out = stdout().lock();
    if args.json {
        summary.write(&mut out)?;
    } else {
        write!(out, "{}", text(&experiment, &summary, executors))?;
        write!(out, "{}", verdict::text(&experiment, &summary))?;
        if args.ranks {
            write!(out, "\n{}", ranks::text(&summary))?;
        }
    }
    out.flush()?;
    say_warnings([&experiment]);
    if !args.json {
        eprintln!(
            "timelines and summary.json are in {}: open a timeline at https://ui.perfetto.dev",
            folder.display()
        );
    }
    Ok(())
}

/// What is said of faults that had no effect: a line for each, with the runs that it did not touch.
fn unfired_text(unfired: &[Unfired]) -> Option<String> {
    let mut faults: Vec<usize> = unfired.iter().map(|unfired| unfired.fault).collect();
    faults.sort_unstable();
    faults.dedup();
    let line = |&fault: &usize| {
        let runs = unfired.iter().filter(|unfired| unfired.fault == fault);
        let runs: Vec<String> = runs.map(|run| format!("`{}` on `{}`", run.variant, run.executor)).collect();
        format!("`fault.{fault}` did not fire in {}: it found nothing to hit there", runs.join(", "))
    };
    let lines: Vec<String> = faults.iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
