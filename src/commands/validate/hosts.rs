//! `zipwire validate --on mpi`: predictions with constants of the hosts, beside what these do.

use zipwire::scenarios::{Experiment, Source};
use zipwire::{Cancel, ExecuteError, HostValidationSetup, Output, Prepared, probe_for, validate_on_hosts};

use super::{Scope, report, text, write_timelines};
use crate::cli::ValidateArgs;
use crate::commands::mpi::{Job, with_ranks};
use crate::commands::{load_scenario, print, print_json, say_without_sweep};
use crate::error::CliError;
use crate::progress::Progress;

/// On hosts as they are.
const ON_HOSTS: Scope = Scope {
    compared: "a simulation with constants that probes measured on these hosts, and the same plans between them",
    real: &["links", "latency", "codec", "sums", "host", "library", "start", "other"],
    not_tested: "other hosts, and other load on these than there was in the meantime",
};

pub(super) fn run(args: &ValidateArgs, cancel: &Cancel) -> Result<(), CliError> {
    for (flag, is_given, why) in [
        ("--dilation", args.dilation.is_some(), "hosts run as fast as they can"),
        ("--real-set", !args.real_set.is_empty(), "the real run finds hosts as they are"),
    ] {
        if is_given {
            return Err(CliError::Usage(format!("`{flag}` has no effect on `{}`: {why}", args.on)));
        }
    }
    let job = || {
        let experiment = selected(args)?;
        // Found wrong before processes begin.
        predicted_by_file(args, &experiment)?;
        Ok(Job { ranks: experiment.topology.ranks(), folder: args.out.clone() })
    };
    with_ranks(&args.mpi, job, cancel, || run_here(args, cancel))
}

fn selected(args: &ValidateArgs) -> Result<Experiment, CliError> {
    let mut experiment = load_scenario(&args.scenario)?;
    experiment.select(&args.scenario.variant)?;
    Ok(experiment)
}

/// The experiment with the constants of the file, if one is given.
fn predicted_by_file(args: &ValidateArgs, experiment: &Experiment) -> Result<Option<Experiment>, CliError> {
    let Some(path) = &args.cluster else { return Ok(None) };
    Ok(Some(experiment.on_hosts(&Source::read(path)?)?))
}

/// Where the constants come from, in words.
pub(super) fn constants(args: &ValidateArgs) -> String {
    match &args.cluster {
        Some(path) => path.display().to_string(),
        None => "probes, just before".to_owned(),
    }
}

/// Warnings of the scenario are left out: what it declares of hardware is not what is looked at.
fn run_here(args: &ValidateArgs, cancel: &Cancel) -> Result<(), CliError> {
    let experiment = selected(args)?;
    say_without_sweep(&experiment);
    let hold = cancel.hold();
    let mut output = args.out.as_deref().map(Output::create).transpose()?;
    let predicted = match predicted_by_file(args, &experiment)? {
        Some(predicted) => predicted,
        None => measured(args, &experiment, cancel)?,
    };
    let progress = Progress::new(3 * experiment.variants.len());
    let setup = HostValidationSetup { experiment: &experiment, predicted: &predicted, executor: args.on };
    let validation = validate_on_hosts(&setup, cancel, |step| progress.next(step))?;
    drop(progress);
    if let Some(output) = &mut output {
        let prepared = Prepared::new(&predicted, cancel)?;
        write_timelines(output, &predicted, args.on, &prepared, &validation)?;
    }
    if cancel.is_cancelled() {
        return Err(ExecuteError::Cancelled.into());
    }
    output.map_or(Ok(()), Output::commit)?;
    drop(hold);
    if args.json {
        print_json(&report(args, &validation, ON_HOSTS))
    } else {
        let ranks = experiment.topology.ranks();
        let head = format!(
            "{ranks} real ranks, every byte compared in a run before the one that is measured\nconstants of these hosts: {}",
            constants(args)
        );
        print(text(args, &experiment, &head, &validation, ON_HOSTS))
    }
}

/// The experiment with constants that probes measure.
fn measured(args: &ValidateArgs, experiment: &Experiment, cancel: &Cancel) -> Result<Experiment, CliError> {
    // Links, how they are shared, sums, and codecs.
    let progress = Progress::new(3 + experiment.variants.len());
    let constants = probe_for(experiment, args.on, cancel, |step| progress.next(step))?;
    drop(progress);
    constants.notes.iter().for_each(|note| say!("note: {note}"));
    Ok(experiment.on_hosts(&Source::from_text("what probes measured", constants.file(), ""))?)
}
