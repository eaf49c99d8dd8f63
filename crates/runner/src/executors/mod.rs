//! The executors, which carry out plans. Each is a file here that implements [`Executor`] and a line in [`ALL`].
//!
//! Everything else asks the trait: what a run needs and refuses is decided in the executor's file, and the command line, the
//! outputs and the sweeps take whatever [`ALL`] holds, or an executor of a caller's own.

/// Methods of an [`Executor`] that give a constant, a line each.
macro_rules! says {
    ($($method:ident: $type:ty = $value:expr;)+) => {
        $(fn $method(&self) -> $type { $value })+
    };
}

mod cuda;
mod mpi;
mod sim;
mod threads;

use std::fmt;

use zipwire_scenarios::{Experiment, nearest};

pub(crate) use self::sim::check_ratio;
pub(crate) use self::threads::{Real, cores};
use crate::execute::{ExecuteError, Outcome, Prepared};
use crate::{Cancel, memory};

/// The simulator.
pub const SIM: &dyn Executor = &sim::Sim;
/// Ranks as threads of this process.
pub const THREADS: &dyn Executor = &threads::Threads;
/// Ranks on CUDA streams.
pub const CUDA: &dyn Executor = &cuda::Cuda;

/// Ranks as processes over MPI.
pub const MPI: &dyn Executor = &mpi::Mpi;

/// All executors of this version, in the order in which they are listed.
pub const ALL: &[&dyn Executor] = &[SIM, THREADS, MPI, CUDA];

/// Something that carries out plans.
///
/// [`Prepared`] checks what all executors have in common (payload, memory, what changes in the course of a run) by what an
/// executor says of itself, then asks it for its own conditions, and then has it run.
pub trait Executor: Sync {
    /// Name on the command line and in files: lower case, one word.
    fn name(&self) -> &'static str;

    /// Description in a few words, for help texts.
    fn summary(&self) -> &'static str;

    /// Which clock the times of its timelines are read from: `virtual`, `monotonic` or `device`.
    fn clock(&self) -> &'static str;

    /// Meaning of its times for a scenario, in words that follow a list of runs.
    fn times(&self, experiment: &Experiment) -> &'static str;

    /// Whether it moves real bytes, which are compared with what was sent. It then needs a payload, and cannot let the cluster
    /// change in the course of a run, or transfers wait for ranks that they do not concern.
    fn is_real(&self) -> bool {
        true
    }

    /// Whether it runs adaptive variants, in scenarios without faults.
    fn adapts(&self) -> bool {
        false
    }

    /// Whether it serves requests, workload `serving`.
    fn serves(&self) -> bool {
        false
    }

    /// Why it cannot run on this machine; `None` if it can.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Why no prediction is held against its measurements (`zipwire validate`), in words that follow its name; `None` if
    /// one is.
    fn refuses_validation(&self) -> Option<&'static str> {
        Some("its links are not those of the cluster, slowed down")
    }

    /// Bytes of memory of this machine that a run of the variant at `index` takes at the least, beside the plans.
    fn memory_bytes(&self, prepared: &Prepared<'_>, index: usize) -> u64 {
        memory::timeline_bytes(&prepared.planned(index).plan, prepared.experiment.iterations)
    }

    /// Decides what a scenario leaves open and this executor can do in one way only. All executors of a run then have it, so
    /// that they run the same plans. What it has decided for which variants, a line each.
    fn settle(&self, _: &mut Experiment) -> Vec<String> {
        Vec::new()
    }

    /// Whether it can run the variant at `index`, as far as that is not asked of every executor. Runs nothing.
    ///
    /// # Errors
    /// The thing that it refuses, or lacks.
    fn check(&self, _prepared: &Prepared<'_>, _index: usize) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Runs the variant at `index`, which was checked. What it returns is verified, if real bytes move.
    ///
    /// # Errors
    /// If the run fails, or the user stops it.
    fn run(
        &self,
        prepared: &mut Prepared<'_>,
        index: usize,
        cancel: &Cancel,
    ) -> Result<Outcome, ExecuteError>;
}

impl fmt::Display for dyn Executor + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for dyn Executor + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Executors are told apart by their names.
impl PartialEq for dyn Executor + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn Executor + '_ {}

/// The executor of this name.
///
/// # Errors
/// The names that there are.
pub fn named(name: &str) -> Result<&'static dyn Executor, String> {
    ALL.iter().find(|executor| executor.name() == name).copied().ok_or_else(|| {
        let meant = nearest(name, ALL.iter().map(|executor| executor.name()));
        let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
        format!("unknown executor `{name}`: {meant}expected one of {}", names())
    })
}

/// Names of the executors that serve requests, joined by `or`.
pub(crate) fn serving() -> String {
    let names = ALL.iter().filter(|executor| executor.serves()).map(|executor| format!("`{executor}`"));
    names.collect::<Vec<_>>().join(" or ")
}

/// The names of all executors, separated by commas.
pub fn names() -> String {
    ALL.iter().map(|executor| executor.name()).collect::<Vec<_>>().join(", ")
}

/// Lets all executors of a run decide what the scenario leaves open ([`Executor::settle`]); what they have decided, a line
/// each.
pub fn settle(experiment: &mut Experiment, executors: &[&dyn Executor]) -> Vec<String> {
    executors.iter().flat_map(|executor| executor.settle(experiment)).collect()
}
