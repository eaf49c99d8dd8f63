//! `run.json`: scenario and environment of a result, for reports. Results do not follow from it, so it is no part of `summary.json`, which is the
//! same on every machine.

use std::thread::available_parallelism;

use serde::Serialize;
use zipwire_codec::simd_level;
use zipwire_scenarios::{Experiment, ScenarioText};

use crate::{Output, OutputError};

#[derive(Serialize)]
struct Record<'a> {
    scenario: Option<ScenarioText<'a>>,
    cluster: ClusterRecord<'a>,
    environment: Environment,
}

#[derive(Serialize)]
struct ClusterRecord<'a> {
    /// The hardware that the cluster is named after; null if it is after none.
    preset: Option<&'a str>,
    nodes: u32,
    gpus_per_node: u32,
}

#[derive(Serialize)]
struct Environment {
    zipwire: &'static str,
    os: &'static str,
    architecture: &'static str,
    cores: usize,
    simd: &'static str,
}

/// Writes the scenario of an experiment as it was given, and the machine that runs it, to `run.json`.
///
/// # Errors
/// If the file cannot be written.
pub fn write_record(output: &mut Output, experiment: &Experiment) -> Result<(), OutputError> {
    let topology = &experiment.topology;
    let record = Record {
        scenario: experiment.origin.scenario(),
        cluster: ClusterRecord {
            preset: experiment.preset.map(|preset| preset.name),
            nodes: topology.nodes,
            gpus_per_node: topology.gpus_per_node,
        },
        environment: Environment {
            zipwire: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            cores: available_parallelism().map_or(1, std::num::NonZero::get),
            simd: simd_level().name(),
        },
    };
    output.write("run.json", |mut out| {
        serde_json::to_writer_pretty(&mut out, &record)?;
        out.write_all(b"\n")
    })
}
