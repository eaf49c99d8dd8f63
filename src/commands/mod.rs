//! The commands: each reads its arguments, calls the library and prints.

pub(crate) mod bench;
mod bench_gpu;
pub(crate) mod bench_sim;
pub(crate) mod diff;
pub(crate) mod inspect;
pub(crate) mod plan;
mod presets;
mod routes;
pub(crate) mod run;
pub(crate) mod scenario;
pub(crate) mod validate;

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use zipwire::scenarios::{Experiment, ScenarioError, Source, load, load_real};
use zipwire::traces::{Timeline, TraceMeta, write_chrome};
use zipwire::{Executor, Output, OutputError, Planned};

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

/// Writes a value as JSON for people and programs, with a line break at the end.
fn write_json(out: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    writeln!(out)
}

/// Writes the Chrome trace of one variant on one executor, under the name that the contract gives it.
fn write_trace(
    output: &mut Output,
    experiment: &Experiment,
    executor: Executor,
    variant: &str,
    planned: &Planned,
    timeline: &Timeline,
) -> Result<(), OutputError> {
    let _span = tracing::info_span!("write timeline", %variant, %executor).entered();
    let meta = TraceMeta {
        scenario: experiment.name.clone(),
        variant: variant.to_owned(),
        executor: executor.name().to_owned(),
        seed: experiment.seed,
        plan_digest: planned.digest.clone(),
        clock: executor.clock(),
        codec: planned.plan.codec.as_ref().map(ToString::to_string),
    };
    output.write(&format!("{executor}-{variant}.trace.json"), |out| write_chrome(timeline, &meta, out))
}
