//! `zipwire plan`: the plans of a scenario as text.

use zipwire::scenarios::ExperimentWork;
use zipwire::schedule::Rank;
use zipwire::{Cancel, Prepared};

use crate::cli::PlanArgs;
use crate::commands::{load_scenario, print, say_without_sweep};
use crate::error::CliError;
use crate::progress::Progress;

pub(crate) fn run(args: &PlanArgs, cancel: &Cancel) -> Result<(), CliError> {
    let mut experiment = load_scenario(&args.scenario)?;
    experiment.select(&args.scenario.variant)?;
    say_without_sweep(&experiment);
    if let ExperimentWork::Serving(_) = experiment.work {
        return Err(CliError::Usage(
            "serving has no plan: where requests go is decided as they come\n\
             help: `zipwire run` writes what happened to each of them to requests.csv"
                .to_owned(),
        ));
    }
    let ranks = experiment.topology.ranks();
    if let Some(rank) = args.rank.filter(|&rank| rank >= ranks) {
        return Err(CliError::Usage(format!("`--rank {rank}`: the scenario has ranks 0 to {}", ranks - 1)));
    }
    let progress = Progress::of_unknown("planning");
    let prepared = Prepared::new(&experiment, cancel)?;
    drop(progress);
    for (index, (variant, planned)) in prepared.variants().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        print(format!("{gap}variant {}\n{}", variant.name, planned.plan.text(args.rank.map(Rank))))?;
    }
    Ok(())
}
