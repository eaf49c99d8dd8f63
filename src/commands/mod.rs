//! The commands: each reads its arguments, calls the library and prints.

pub(crate) mod advise;
pub(crate) mod bench;
pub(crate) mod bench_collective;
pub(crate) mod bench_gpu;
mod bench_held;
pub(crate) mod bench_sim;
pub(crate) mod calibrate;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod files;
pub(crate) mod help;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod kernels;
mod marked;
mod new_scenario;
pub(crate) mod plan;
pub(crate) mod plot;
pub(crate) mod ranks;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod scenario;
mod scenario_check;
pub(crate) mod store;
pub(crate) mod validate;

use std::fmt::Display;
use std::io::{Write, stdout};
use std::path::Path;

use serde::Serialize;
use zipwire::Outlook;
use zipwire::codec::DType;
use zipwire::scenarios::{Experiment, Scenario, Source, load, load_real, open};
use zipwire::traces::escaped;

use crate::cli::ScenarioArgs;
use crate::error::CliError;
use crate::{shipped, style, table};

/// Refuses an output folder of results that is in a store of checkpoints.
fn refuse_store(folder: Option<&Path>) -> Result<(), CliError> {
    Ok(folder.map_or(Ok(()), zipwire::models::file::refuse_store)?)
}

/// Reads a scenario with all its variants; `--variant` is checked and applied by [`Experiment::select`] later.
fn load_scenario(args: &ScenarioArgs) -> Result<Experiment, CliError> {
    load_file(&args.scenario, &args.set, args.seed)
}

/// Reads a scenario with its sweep; `--variant` as above.
fn open_scenario(args: &ScenarioArgs) -> Result<Scenario, CliError> {
    let _span = tracing::info_span!("load scenario").entered();
    Ok(open(&read_source(&args.scenario)?, &args.set, args.seed)?)
}

/// Reads a scenario as the real run of a validation takes it.
fn load_real_scenario(args: &ScenarioArgs, real_sets: &[String]) -> Result<Experiment, CliError> {
    Ok(load_real(&read_source(&args.scenario)?, &args.set, real_sets, args.seed)?)
}

fn load_file(path: &Path, sets: &[String], seed: Option<u64>) -> Result<Experiment, CliError> {
    let _span = tracing::info_span!("load scenario").entered();
    Ok(load(&read_source(path)?, sets, seed)?)
}

/// Reads a scenario file. Where it is not there, but the program carries one of this path, the error says how to get at it.
fn read_source(path: &Path) -> Result<Source, CliError> {
    refuse_shipped(path)?;
    Ok(Source::read(path)?)
}

/// Refuses a file that is not here, but that the program carries.
fn refuse_shipped(path: &Path) -> Result<(), CliError> {
    if path.exists() || !shipped::has(path) {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "there is no file `{0}` here\nhelp: the program carries it: `zipwire scenario unpack DIR` writes it to `DIR/{0}`",
        path.display()
    )))
}

/// Says that a command that takes one scenario leaves the sweep out.
fn say_without_sweep(experiment: &Experiment) {
    if experiment.points_left_out > 0 {
        let (name, points) = (&experiment.name, experiment.points_left_out);
        say!("`{name}` is taken without its `[sweep]` of {points} points: `--set` chooses one");
    }
}

/// Says what the results of an experiment take for granted, each remark once.
fn say_warnings(experiment: &Experiment) {
    distinct(experiment.warnings()).iter().for_each(|warning| say!("warning: {warning}"));
}

/// The same without repetitions, in the order of their first appearance.
fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}

/// A type of values, for the parser of arguments.
pub(crate) fn dtype(text: &str) -> Result<DType, String> {
    let names = DType::ALL.map(DType::name);
    DType::from_name(&text.to_uppercase()).ok_or_else(|| format!("types are {}", names.join(", ")))
}

/// Prints a result for people, with control characters escaped: names come from files, and are shown and not obeyed.
fn print(text: impl Display) -> Result<(), CliError> {
    let mut out = stdout().lock();
    let text = table::fitted(&escaped(&text.to_string()));
    out.write_all(style::paint(&text, style::is_coloured(&out)).as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a file as it is, whatever the terminal: it may be copied from there.
fn print_file(text: &str) -> Result<(), CliError> {
    let mut out = stdout().lock();
    out.write_all(escaped(text).as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a result as JSON for people and programs, with a line break at the end.
fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let mut out = stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Note of the ranks that stand for all, by variant, where some do.
fn folded_note(experiment: &Experiment, outlooks: &[Outlook]) -> Option<String> {
    let ranks = experiment.topology.ranks();
    let each = names_by(experiment, outlooks, Outlook::symmetry).into_iter().map(|(symmetry, names)| {
        let last = symmetry.member_at(symmetry.members() - 1).0;
        let members = match symmetry.members() {
            1 => "rank 0".to_owned(),
            count if count == last + 1 => format!("ranks 0 to {last}"),
            // Stages of a pipeline, for instance.
            count => format!("{count} ranks from 0 to {last}"),
        };
        format!("{members} in {names}")
    });
    let each = each.collect::<Vec<_>>().join("; ");
    let evened = if outlooks.iter().any(|outlook| outlook.is_evened(experiment)) {
        ", with shards that differ by a value as equal"
    } else {
        ""
    };
    let (alike, late) = if outlooks.iter().any(Outlook::estimates_lateness) {
        (
            "alike but for how long some of them compute",
            "; lateness is estimated, with the interval behind ±, and only times, speedups and bandwidths have it",
        )
    } else {
        ("alike", "")
    };
    (!each.is_empty()).then(|| {
        format!("note: ranks are {alike}, so some stand for all {ranks}: {each}{evened}{late}; `run --unfolded` simulates every rank")
    })
}

/// Ranks of a large job that are simulated one by one, and why.
fn whole_note(experiment: &Experiment, outlooks: &[Outlook]) -> Option<String> {
    let ranks = experiment.topology.ranks();
    let by_reason = names_by(experiment, outlooks, Outlook::why_whole).into_iter();
    let each: Vec<_> = by_reason.map(|(reason, names)| format!("in {names} because {reason}")).collect();
    (!each.is_empty()).then(|| format!("note: all {ranks} ranks are simulated, {}", each.join("; ")))
}

/// Names of the variants that have something in common, for each such thing, in the order of variants; without those that have none.
fn names_by<T: PartialEq>(
    experiment: &Experiment,
    outlooks: &[Outlook],
    of: impl Fn(&Outlook) -> Option<T>,
) -> Vec<(T, String)> {
    let mut all: Vec<(T, String)> = Vec::new();
    for (variant, outlook) in experiment.variants.iter().zip(outlooks) {
        let (Some(key), name) = (of(outlook), format!("`{}`", variant.name)) else { continue };
        match all.iter_mut().find(|(other, _)| *other == key) {
            Some((_, names)) => *names += &format!(", {name}"),
            None => all.push((key, name)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use zipwire::executors::{SIM, THREADS};

    use super::*;

    #[test]
    fn types_have_names_in_any_case() {
        assert_eq!((dtype("bf16"), dtype("F8_E4M3")), (Ok(DType::Bf16), Ok(DType::F8E4M3)));
        assert_eq!(dtype("fp16"), Err("types are BF16, F16, F32, F8_E4M3, F8_E5M2".to_owned()));
    }

    #[test]
    fn an_executor_named_twice_runs_once() {
        assert_eq!(distinct([THREADS, SIM, THREADS]), [THREADS, SIM]);
    }
}
