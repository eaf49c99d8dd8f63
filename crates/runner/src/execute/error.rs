//! Errors of preparing and running variants.
#![allow(missing_docs, reason = "fields are named by the messages")]

use zipwire_cluster::NetworkModel;
use zipwire_engine::EngineError;
use zipwire_engine::mpi::WorldError;
use zipwire_engine::serving::ServeError;
use zipwire_scenarios::ScenarioError;
use zipwire_schedule::{Failure, PlanError, RunFailure};
use zipwire_sim::{SimError, SizeError};

use crate::memory;

/// A variant has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    #[error("stopped")]
    Cancelled,
    #[error("executor `{0}` is not available here: {1}")]
    Unavailable(&'static str, String),
    /// The experiment holds no bytes to run with.
    #[error(
        "variant `{0}` cannot run on `{1}`: the scenario states a ratio and no payload\n\
         help: add `payload` to `[workload]`, for instance `payload = {{ gaussian = 0.02 }}`"
    )]
    NoPayload(String, &'static str),
    #[error("variant `{0}` has no executable plan: {1}")]
    Plan(String, PlanError),
    /// A stated ratio that the frames of a variant cannot have.
    #[error(
        "variant `{variant}` cannot have the ratio {ratio} that `[codec]` states: its static sections alone make {limit:.5}\n\
         help: state at most {:.3}, or leave `ratio` out to have the payload encoded",
        (.limit * 1e3).floor() / 1e3
    )]
    Ratio { variant: String, ratio: f64, limit: f64 },
    #[error(
        "variant `{variant}` on `{executor}` needs {} of memory, {limit}\n\
         help: use fewer iterations, fewer ranks or a smaller model",
        memory::gigabytes(*.needed)
    )]
    Memory {
        variant: String,
        executor: &'static str,
        /// Bytes.
        needed: u64,
        /// Available memory, in words.
        limit: String,
    },
    /// More memory than there is, known before anything is planned.
    #[error(
        "{} at least {} of memory, and {} more: {} together; {limit}\n\
         help: use fewer ranks{} fewer iterations{}",
        if *.variants > 1 { "the plans of all variants take" } else { "the plan of the variant takes" },
        memory::gigabytes(*.plans), beside_plans(*.check, *.timeline), memory::gigabytes(*.plans + (*.check).max(*.timeline)),
        if *.variants > 1 { "," } else { " or" },
        if *.variants > 1 { ", or one variant at a time (`--variant`)" } else { "" }
    )]
    TooLarge {
        /// Number of all variants.
        variants: usize,
        /// Bytes.
        plans: u64,
        /// Bytes, beside the plans, before anything is run.
        check: u64,
        /// Bytes; none where nothing is run.
        timeline: u64,
        /// Available memory, in words.
        limit: String,
    },
    #[error(
        "`--real-set`: variant `{variant}` would have another {what} in the real run than in the simulation\n\
         help: let only the cluster's links and latencies, host and codec costs, compute and start times, and faults differ"
    )]
    OtherWork { variant: String, what: &'static str },
    #[error(
        "variant `{0}` calls a library's own collective, and probes measure none\n\
         help: `--variant` chooses others; `zipwire bench collective --on mpi` times collectives of MPI"
    )]
    UnknownCall(String),
    #[error(
        "a dilation of {asked} is too small: this machine would set the pace\n\
         help: {needed} would do; leave it out to have it chosen"
    )]
    Dilation { asked: f64, needed: f64 },
    #[error(
        "links of a real run are shared by all transfers that cross them, and network model `{}` says otherwise\n\
         help: set `cluster.model` to `{}`; `zipwire validate` takes it as \
         `--real-set cluster.model={}`, and then shows how wrong `{}` is",
        .0.name(), NetworkModel::MaxMin.name(), NetworkModel::MaxMin.name(), .0.name()
    )]
    Model(NetworkModel),
    #[error(
        "`cluster.start` is `barrier`, and on `{0}` each transfer starts when its two ranks are there\n\
         help: run it on `sim`; `zipwire validate` takes it as \
         `--real-set cluster.start=rendezvous`, and then shows how wrong it is"
    )]
    Start(&'static str),
    #[error(
        "variant `{0}` takes no time in the simulation: there is nothing to hold a measurement against\n\
         help: give the workload bytes to move or time to compute"
    )]
    NoTime(String),
    /// A run ended well although not all bytes were compared: a defect of the program.
    #[error("variant `{0}`: not every received byte was compared with what was sent")]
    Unverified(String),
    /// The payload could not be encoded.
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error("variant `{0}` on `sim` failed in {1}")]
    Sim(String, SimError),
    #[error("variant `{0}` cannot code caches: {1}")]
    Caches(String, #[source] Box<zipwire_kv::KvError>),
    #[error("variant `{0}` on `{1}` failed: {2}")]
    Serve(String, &'static str, #[source] Box<ServeError>),
    #[error("`{0}` does not serve requests\nhelp: run the scenario on {1}")]
    NoServing(&'static str, String),
    #[error("variant `{0}` cannot run on `{1}`: {2}")]
    Refused(String, &'static str, EngineError),
    #[error("variant `{0}` on `{1}` failed in {2}")]
    Run(String, &'static str, Box<RunFailure>),
    #[error("`{0}` cannot time a collective of its library: {1}")]
    Timing(&'static str, #[source] Box<Failure>),
    #[error("this process is not rank 0 of a job of MPI processes\nhelp: start it by `mpirun`")]
    NoJob,
    #[error(
        "the scenario has {ranks} ranks, and {processes} processes were started\n\
         help: start {ranks} of them, for instance by `mpirun -n {ranks}`"
    )]
    Processes { ranks: u32, processes: u32 },
    /// Files of the scenario cannot be read again, to be sent to other hosts.
    #[error("the scenario cannot be sent to the other ranks: {}", .0.render(false))]
    Parcel(Box<ScenarioError>),
    #[error("variant `{0}` on `{1}` was not run: its ranks had failed before")]
    NotRun(String, &'static str),
    /// The processes of a job cannot run anything together.
    #[error(transparent)]
    World(#[from] WorldError),
    #[error(
        "`{0}` cannot let the cluster or the codec change in the course of a run, as `drift` says\n\
         help: run the scenario on `sim`, or remove `drift`"
    )]
    Drift(&'static str),
    #[error(
        "variant `{0}` is adaptive: it runs on {1}, and not with faults\n\
         help: choose other variants with `--variant`; those that are its arms run everywhere"
    )]
    Adaptive(String, String),
    #[error(
        "`fault.{index}` hits no transfer of any variant\n\
         help: `zipwire plan` lists the transfers; `segment` and `stage` can be left out"
    )]
    Fault {
        /// Its position in the scenario, from 0 as in paths of `--set`.
        index: usize,
    },
}

impl ExecuteError {
    /// Whether a rank failed during the run.
    pub fn is_run_failure(&self) -> bool {
        matches!(self, Self::Sim(_, SimError::Failed(_)) | Self::Run(..) | Self::Serve(..) | Self::NotRun(..))
    }
}

/// The larger of the two things that are held beside the plans, one after the other.
fn beside_plans(check: u64, timeline: u64) -> String {
    let gigabytes = |bytes| memory::gigabytes(bytes);
    if check >= timeline {
        format!("checking the largest {}", gigabytes(check))
    } else {
        format!("the longest timeline {}", gigabytes(timeline))
    }
}
