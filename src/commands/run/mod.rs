//! `zipwire run`: a scenario, or all points of its sweep, on one or more executors.

mod single;
mod sweep;
mod tables;
mod verdict;
mod watch;

use zipwire::Cancel;
use zipwire::launch::RanksToStart;
use zipwire::scenarios::Scenario;

use super::ranks::with_ranks;
use super::{distinct, load_scenario, open_scenario, plot, report};
use crate::cli::RunArgs;
use crate::error::CliError;

pub(crate) fn run(args: &RunArgs, cancel: &Cancel) -> Result<(), CliError> {
    let job = || {
        let experiment = load_scenario(&args.scenario)?;
        // Of serving, GPUs that no pool has do nothing.
        let pools =
            experiment.as_serving().map(|serving| serving.shards.ranks(serving.config.decode.instances));
        let ranks = pools.unwrap_or_else(|| experiment.topology.ranks());
        Ok(RanksToStart { ranks, folder: Some(args.folder(&experiment.name)) })
    };
    with_ranks(&args.on, &args.mpi, job, cancel, || run_here(args, cancel))
}

fn run_here(args: &RunArgs, cancel: &Cancel) -> Result<(), CliError> {
    report::refuse(args.report.as_deref())?;
    let scenario = open_scenario(&args.scenario)?;
    let name = match &scenario {
        Scenario::One(experiment) => experiment.name.clone(),
        Scenario::Sweep(sweep) => sweep.base()?.name,
    };
    let ran = run_scenario(args, scenario, cancel);
    // Points that fail are part of the result.
    if matches!(ran, Ok(()) | Err(CliError::PointsFailed { .. })) {
        let folder = args.folder(&name);
        if args.plot
            && let Err(error) = plot::of_folder(&folder)
        {
            // The result is there all the same.
            error.say();
        }
        if let Some(file) = &args.report {
            report::of_folder(&folder, &folder.display().to_string(), file, cancel)?;
        }
    }
    ran
}

fn run_scenario(args: &RunArgs, scenario: Scenario, cancel: &Cancel) -> Result<(), CliError> {
    let executors = distinct(args.on.iter().copied());
    match scenario {
        Scenario::Sweep(_) if args.ranks => {
            let help = "`summary.json` has the waiting of each rank at every point";
            Err(CliError::Usage(format!(
                "`--ranks` has no effect: the scenario has a `[sweep]`\nhelp: {help}"
            )))
        }
        Scenario::Sweep(sweep) => sweep::run(args, &sweep, &executors, cancel),
        Scenario::One(experiment) => {
            refuse_flags_of_sweeps(args)?;
            single::run(args, *experiment, &executors, cancel)
        }
    }
}

/// Flags that mean something for sweeps only.
fn refuse_flags_of_sweeps(args: &RunArgs) -> Result<(), CliError> {
    let flags = [("--jobs", args.jobs.is_some()), ("--fresh", args.fresh), ("--timelines", args.timelines)];
    match flags.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => {
            Err(CliError::Usage(format!("`{flag}` has no effect: the scenario has no `[sweep]`")))
        }
        None => Ok(()),
    }
}
