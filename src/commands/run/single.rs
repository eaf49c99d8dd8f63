//! `zipwire run` of one scenario: its table, timelines and summary.

use std::io::{Write, stdout};
use std::path::Path;
use std::sync::Arc;

use zipwire::break_even::{break_evens, is_quick};
use zipwire::executors::{SIM, settle};
use zipwire::scenarios::{Experiment, ExperimentWork};
use zipwire::sensitivity::sensitivities;
use zipwire::traces::{Executors, Summary, Verdict};
use zipwire::warnings::warnings;
use zipwire::{
    Cancel, ExecuteError, Executor, Outlook, Output, Prepared, RunResult, Shared, Unfired, add_splits,
    compare, write_record, write_run,
};

use super::watch::{Candidate, Watch};
use super::{tables, verdict};
use crate::cli::RunArgs;
use crate::commands::{folded_note, print, refuse_store, say_warnings, whole_note};
use crate::error::CliError;
use crate::table;

/// Refusal of `--ranks` where requests are served.
const NO_RANKS: &str = "`--ranks` has no effect: what instances did is in the tables of serving, and requests.csv has a row for each request";

pub(super) fn run(
    args: &RunArgs,
    mut experiment: Experiment,
    executors: &[&'static dyn Executor],
    cancel: &Cancel,
) -> Result<(), CliError> {
    let first_variant = experiment.variants[0].name.clone();
    experiment.select(&args.scenario.variant)?;
    let is_serving = matches!(experiment.work, ExperimentWork::Serving(_));
    if args.ranks && is_serving {
        return Err(CliError::Usage(NO_RANKS.to_owned()));
    }
    let lacks_first = experiment.variants.iter().all(|variant| variant.name != first_variant);
    let settled = settle(&mut experiment, executors);
    let folded = say_before(&experiment, executors, args.folds(), cancel);
    let shared = Shared::with_memory(args.memory).verifying(!args.no_verify).folding(args.folds());
    let shared = Arc::new(shared);
    let mut prepared = Prepared::with(&experiment, shared, cancel)?;
    executors.iter().try_for_each(|&executor| prepared.check(executor))?;
    settled.iter().for_each(|line| say!("{line}"));
    if is_serving {
        // Elsewhere they are part of the verdict, which serving has none of.
        say_warnings(&experiment);
    }
    let folder = args.folder(&experiment.name);
    refuse_store(Some(&folder))?;
    let hold = cancel.hold();
    let mut output = Output::create(&folder)?;

    let watch = Watch::new(args.watch, executors.len() * experiment.variants.len(), "runs");
    let begin = |executor: &dyn Executor, variant: &str| watch.begin(&format!("{executor}: {variant}"));
    let keep = |ran: &RunResult<'_>| {
        // Times of different executors are not compared.
        watch.ended(fastest(ran).filter(|_| ran.executor == executors[0]));
        write_run(&mut output, ran).map_err(CliError::from)
    };
    // Speedups compare lengths of iterations, and serving has none.
    let explains = !args.no_verdict && !is_serving;
    let mut compared = compare(&mut prepared, executors, &first_variant, explains, cancel, begin, keep)?;
    watch.begin("verdict");
    if !compared.failed.is_empty() {
        let failed = compared.failed.into_iter().map(|failed| failed.error).collect();
        return Err(CliError::Failed { failed, of: executors.len() * experiment.variants.len() });
    }
    if let Some(said) = unfired_text(&compared.unfired) {
        watch.say(&said);
    }
    let verdict =
        explains.then(|| explain(args, &mut compared.executors, &mut prepared, cancel)).transpose()?;
    drop((prepared, watch));
    let summary = summary_of(&experiment, verdict, compared.executors);
    write_record(&mut output, &experiment)?;
    output.write("summary.json", |out| summary.write(out))?;
    if cancel.is_cancelled() {
        return Err(ExecuteError::Cancelled.into());
    }
    let replaces = output.replaces();
    output.commit()?;
    drop(hold);

    let shown = Shown { args, experiment: &experiment, executors, first_variant: &first_variant, explains };
    shown.print(&summary)?;
    if !args.json {
        let notes = [folded, (lacks_first && !is_serving).then(|| first_text(&first_variant))];
        notes.into_iter().flatten().for_each(|note| say!("{note}"));
        say_where(&folder, replaces);
    }
    Ok(())
}

/// Says where the result is, and whether it is in place of another one.
fn say_where(folder: &Path, replaces: bool) {
    let instead = if replaces { ", in place of the result that was there" } else { "" };
    let folder = folder.display();
    say!("timelines and summary.json are in {folder}{instead}: open a timeline at https://ui.perfetto.dev");
}

/// A run by its time; none of requests.
fn fastest(ran: &RunResult<'_>) -> Option<Candidate> {
    let time_s = Some(ran.iteration_s).filter(|time_s| *time_s > 0.0)?;
    let name = format!("{}, `{}` on {}", table::seconds(time_s), ran.variant, ran.executor);
    Some(Candidate { value: -time_s, name })
}

/// Says how long a simulation takes that is not over soon. Returns the note of the ranks that stand for others, which belongs below the table.
fn say_before(
    experiment: &Experiment,
    executors: &[&'static dyn Executor],
    folds: bool,
    cancel: &Cancel,
) -> Option<String> {
    let outlook = |variant| Outlook::of(experiment, variant, folds, cancel);
    let outlooks: Vec<Outlook> = experiment.variants.iter().map(outlook).collect();
    if executors.iter().any(|executor| executor.name() == SIM.name()) {
        long_notes(experiment, &outlooks).iter().for_each(|note| say!("{note}"));
    }
    folded_note(experiment, &outlooks)
}

/// Seconds of planning and simulating from which on it is said beforehand how long it takes.
const LONG_S: f64 = 10.0;

/// Time and memory of a simulation that is not over soon, and why all ranks of a large job are simulated.
fn long_notes(experiment: &Experiment, outlooks: &[Outlook]) -> Vec<String> {
    let seconds: f64 = outlooks.iter().map(Outlook::run_s).sum();
    if seconds < LONG_S {
        return Vec::new();
    }
    let most = outlooks.iter().map(Outlook::bytes).max().unwrap_or(0);
    let (seconds, most) = (seconds.round(), table::bytes(most as f64));
    let takes =
        format!("note: planning and simulating take about {seconds} s and {most} for the largest variant");
    [Some(takes), whole_note(experiment, outlooks)].into_iter().flatten().collect()
}

/// Splits speedups into their causes, and finds warnings; with `--break-even`, or if simulations are quick, also break-even points and
/// sensitivities.
fn explain(
    args: &RunArgs,
    executors: &mut Executors,
    prepared: &mut Prepared<'_>,
    cancel: &Cancel,
) -> Result<Verdict, ExecuteError> {
    add_splits(executors, prepared, cancel)?;
    let is_searched = args.break_even || is_quick(prepared);
    let warnings = warnings(executors, prepared, is_searched, cancel)?;
    let mut verdict = Verdict { warnings, ..Verdict::on(executors) };
    if is_searched {
        verdict.break_even = break_evens(executors, prepared, cancel)?;
        verdict.sensitivity = sensitivities(executors, prepared, cancel)?;
    }
    Ok(verdict)
}

/// The summary, with the verdict in words.
fn summary_of(experiment: &Experiment, verdict: Option<Verdict>, executors: Executors) -> Summary {
    let mut summary = Summary { verdict, ..Summary::new(&experiment.name, experiment.seed, executors) };
    let text = verdict::comparison(experiment, &summary);
    if let Some(verdict) = &mut summary.verdict {
        verdict.text = text.lines().map(str::to_owned).collect();
    }
    summary
}

/// A run whose summary is printed.
struct Shown<'a> {
    args: &'a RunArgs,
    experiment: &'a Experiment,
    executors: &'a [&'static dyn Executor],
    first_variant: &'a str,
    explains: bool,
}

impl Shown<'_> {
    fn print(&self, summary: &Summary) -> Result<(), CliError> {
        let Self { args, experiment, executors, first_variant, explains } = *self;
        if args.json {
            let mut out = stdout().lock();
            summary.write(&mut out)?;
            out.flush()?;
            return Ok(());
        }
        let times = match &experiment.work {
            ExperimentWork::Serving(serving) => {
                tables::requests_text(experiment, serving, summary, executors)
            }
            ExperimentWork::Iterations(_) => tables::iterations(experiment, summary, executors),
        };
        let mut text = format!("{times}{}", tables::updates(summary, first_variant));
        if explains {
            text += &tables::critical_paths(summary);
            text += &verdict::text(summary);
        }
        if args.ranks {
            text += &format!("\n{}", tables::by_rank(summary));
        }
        print(text)
    }
}

/// Note where the variant that speedups are against did not run.
fn first_text(first_variant: &str) -> String {
    format!("note: speedups are against the first variant: for them add `--variant {first_variant}`")
}

/// Warnings of faults that had no effect: a line for each, with the runs that it did not touch.
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
