//! Runs experiments: plans the variants of a scenario, runs them on executors, compares, validates, sweeps and adapts them,
//! and writes what came out.
//!
//! [`Prepared`] has a plan for each variant of an [`Experiment`](zipwire_scenarios::Experiment); [`Prepared::run`] runs one of them on an
//! [`Executor`], [`compare`] all of them on several, [`validate`] holds the simulation against real ranks, and
//! [`sweep`] goes through the points of a sweep.

mod adaptive;
pub mod break_even;
mod cancel;
mod choices;
mod compare;
pub mod critical_path;
mod drive;
mod execute;
pub mod executors;
mod folded;
pub mod launch;
mod memory;
mod outlook;
mod output;
mod probe;
mod record;
pub mod sensitivity;
mod serving;
mod simulate;
pub mod split;
mod storage;
pub mod sweep;
mod timelines;
mod validate;
pub mod warnings;

pub use cancel::{Cancel, Hold, STOPPED};
pub use compare::{Comparison, Failed, RunResult, Unfired, compare};
pub use execute::{ExecuteError, Outcome, Planned, Prepared, SIMULATED, Shared};
pub use executors::Executor;
pub use outlook::Outlook;
pub use output::{Output, OutputError};
pub use probe::probe;
pub use record::write_record;
pub use serving::{
    Served, ServingValidation, ServingValidationSetup, ServingVariantValidation, validate_serving,
};
pub use split::add_splits;
pub use timelines::{write_run, write_trace};
pub use validate::{
    HostValidationSetup, Pacing, Validation, ValidationSetup, VariantValidation, probe_for, validate,
    validate_on_hosts,
};
pub use zipwire_engine::mpi::STATUS_VARIABLE;
