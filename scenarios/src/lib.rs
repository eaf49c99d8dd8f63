//! The experiment language: a TOML text becomes an [`Experiment`] in which every choice is made.
//!
//! ```
//! use zipwire_scenarios::{Source, load};
//!
//! let text = r#"
//! ## Four GPUs exchange 1 MiB each.
//! name = "first"
//! cluster = { nodes = 1, gpus_per_node = 4, gpu_bandwidth = "25 GB/s", latency_intra = "5 us" }
//! workload = { kind = "collective", collective = "all-to-all", bytes_per_rank = "1 MiB" }
//! "#;
//! let source = Source::from_text("first.toml", text, ".");
//! let experiment = load(&source, &[], None)?;
//! assert_eq!(experiment.traffic()[0].total(), 4 * 3 * (1 << 18));
//!
//! let error = load(&source, &["cluster.nodse=2".into()], None).unwrap_err();
//! assert_eq!(error.to_string(), "`--set cluster.nodse=2`: unknown key `nodse` in `cluster`");
//! # Ok::<(), zipwire_scenarios::ScenarioError>(())
//! ```
//!
//! The way through the crate: [`Source`] is the text; `tree` parses it and keeps where everything was written;
//! `set` applies `--set` and `--real-set` to the tree; `language` reads values, tables and their keys, each by its one declaration; the
//! modules named after tables (`cluster`, `compute`, `model`, `routing`, `workload`, `codec`, `variant`) declare their keys and resolve
//! them, and [`load`] puts the result together. A scenario with a `[sweep]` is many: [`open`] gives its points. A [`ScenarioError`]
//! points at the text that is wrong. [`schema()`] is all keys as a JSON Schema. A [`Parcel`] is what another host needs to resolve the same
//! experiment.
//!
//! It runs nothing and plans nothing: protocols and orders are names here, whose meaning is in
//! `zipwire-schedule`.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "in tests a panic is the report"))]

mod cluster;
mod codec;
mod compute;
mod dispatch;
mod drift;
mod error;
mod excerpt;
mod experiment;
mod fault;
mod files;
mod help;
mod hosts;
mod language;
mod model;
mod noise;
mod origin;
mod parcel;
mod payload;
mod placement;
mod problem;
mod quantity;
mod routing;
mod set;
mod skew;
mod sweep;
mod traffic;
mod tree;
mod variant;
mod warnings;
mod words;
mod workload;

pub use cluster::{DeclaredSpeed, Preset, SpeedBasis, check_hardware, presets};
pub use codec::CodecChoice;
pub use drift::{Conditions, Drift};
pub use error::ScenarioError;
pub use experiment::{Experiment, is_scenario_file, load, load_real, schema, schema_markdown};
pub use help::spec_help;
pub use model::model_presets;
pub use origin::{Origin, ScenarioText, Source};
pub use parcel::Parcel;
pub use problem::{
    FlowProblem, GraphProblem, ParcelProblem, PayloadProblem, Problem, ServingProblem, TableProblem,
};
pub use quantity::Dimension;
pub use sweep::{Scenario, Sweep, open};
pub use traffic::{BetweenNodes, Traffic};
pub use variant::{Algorithms, Variant};
pub use workload::{ExperimentWork, Iterations, Serving};
pub use zipwire_traces::nearest;
