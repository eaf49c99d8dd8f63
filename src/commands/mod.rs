//! The commands: each reads its arguments, calls the library and prints.

pub(crate) mod diff;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod scenario;
pub(crate) mod validate;

use std::path::Path;

use zipwire::scenarios::{Experiment, ScenarioError, Source, load};

use crate::cli::ScenarioArgs;

/// Reads a scenario with all its variants; `--variant` is checked and applied by [`Experiment::select`] later.
fn load_scenario(args: &ScenarioArgs) -> Result<Experiment, ScenarioError> {
    load_file(&args.scenario, &args.set, args.seed)
}

fn load_file(path: &Path, sets: &[String], seed: Option<u64>) -> Result<Experiment, ScenarioError> {
    load(&Source::read(path)?, sets, seed)
}
