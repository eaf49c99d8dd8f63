//! The commands: each reads its arguments, calls the library and prints.

pub(crate) mod bench;
pub(crate) mod bench_collective;
mod bench_gpu;
pub(crate) mod bench_sim;
pub(crate) mod calibrate;
pub(crate) mod diff;
pub(crate) mod inspect;
pub(crate) mod plan;
mod presets;
pub(crate) mod reproduce;
mod routes;
pub(crate) mod run;
pub(crate) mod scenario;
pub(crate) mod validate;

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use zipwire::scenarios::{Experiment, ScenarioError, Source, load, load_real};

use crate::cli::ScenarioArgs;

/// Reads a scenario with all its variants; `--variant` is checked and applied by [`Experiment::select`] later.
fn load_scenario(args: &ScenarioArgs) -> Result<Experiment, ScenarioError> {
    load_file(&args.scenario, &args.set, args.seed)
}

/// Reads a scenario as the real run of a validation takes it.
fn load_real_scenario(args: &ScenarioArgs, real_sets: &[String]) -> Result<Experiment, ScenarioError> {
    load_real(&Source::read(&args.scenario)?, &args.set, real_sets, args.seed)
}

fn load_file(path: &Path, sets: &[String], seed: Option<u64>) -> Result<Experiment, ScenarioError> {
    let _span = tracing::info_span!("load scenario").entered();
    load(&Source::read(path)?, sets, seed)
}

/// Says that a command that takes one scenario leaves the sweep out.
fn say_without_sweep(experiment: &Experiment) {
    if experiment.points_left_out > 0 {
        let (name, points) = (&experiment.name, experiment.points_left_out);
        eprintln!("`{name}` is taken without its `[sweep]` of {points} points: `--set` chooses one");
    }
}

/// Says what results take for granted, each remark once.
fn say_warnings<'a>(experiments: impl IntoIterator<Item = &'a Experiment>) {
    let mut said: Vec<String> = Vec::new();
    for warning in experiments.into_iter().flat_map(Experiment::warnings) {
        if !said.contains(&warning) {
            eprintln!("note: {warning}");
            said.push(warning);
        }
    }
}

/// Writes a value as JSON for people and programs, with a line break at the end.
fn write_json(out: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    writeln!(out)
}
