//! The job at its rank 0, which says to the others what to do together.

use std::sync::{Mutex, MutexGuard, PoisonError};

use zipwire_engine::mpi::{Member, World};
use zipwire_scenarios::Experiment;

use super::tasks::{RunTask, Task, Work};
use crate::executors::PlanRun;
use crate::{ExecuteError, Executor, Prepared};

/// The job of this process, at rank 0 of it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) world: World,
    /// The experiment that all have, as it was sent.
    loaded: Option<Vec<u8>>,
    /// Seconds within which the clocks were aligned when it was worst.
    aligned_s: Option<f64>,
}

static JOB: Mutex<Option<Job>> = Mutex::new(None);

/// The job, if this process is rank 0 of one.
pub(crate) fn job() -> MutexGuard<'static, Option<Job>> {
    JOB.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processes of a job, and how well their clocks agree.
#[derive(Clone, Debug)]
pub struct Attendance {
    /// The processes, by rank.
    pub members: Vec<Member>,
    /// Name and version of the library that connects them.
    pub library: String,
    /// Seconds within which the clocks were aligned with rank 0's when it was worst; `None` if nothing was run.
    pub aligned_s: Option<f64>,
}

/// Processes of the job; `None` if this process is not rank 0 of one.
pub fn attendance() -> Option<Attendance> {
    let guard = job();
    let Job { world, aligned_s, .. } = guard.as_ref()?;
    let (members, library) = (world.members().to_vec(), world.library().to_owned());
    Some(Attendance { members, library, aligned_s: *aligned_s })
}

impl Job {
    /// The job of a process that has just found that it is rank 0.
    pub(super) fn new(world: World) -> Self {
        Self { world, loaded: None, aligned_s: None }
    }

    /// Has all others begin their ranks of a plan on `executor`; this process's own rank is left to the caller.
    pub(crate) fn begin_plan(
        &mut self,
        executor: &dyn Executor,
        prepared: &Prepared<'_>,
        run: &PlanRun<'_>,
    ) -> Result<&mut World, ExecuteError> {
        self.begin(executor, prepared, run.index, Work::of_plan(run))
    }

    /// Has all others begin to serve the requests of the variant at `index` on `executor`, likewise.
    pub(crate) fn begin_serving(
        &mut self,
        executor: &dyn Executor,
        prepared: &Prepared<'_>,
        index: usize,
    ) -> Result<&mut World, ExecuteError> {
        self.begin(executor, prepared, index, Work::Serving)
    }

    fn begin(
        &mut self,
        executor: &dyn Executor,
        prepared: &Prepared<'_>,
        index: usize,
        work: Work,
    ) -> Result<&mut World, ExecuteError> {
        let experiment = prepared.experiment;
        let (executor, variant) = (executor.name(), experiment.variants[index].name.clone());
        if self.world.has_failed() {
            return Err(ExecuteError::NotRun(variant, executor));
        }
        self.load(experiment)?;
        let task = RunTask { executor: executor.to_owned(), variant, verifies: prepared.verifies(), work };
        self.world.tell(&Task::Run(task).to_bytes())?;
        // Where processes are gone, the run says so.
        if let Some(aligned_s) = self.world.align()? {
            self.aligned_s = Some(self.aligned_s.map_or(aligned_s, |worst_s| worst_s.max(aligned_s)));
        }
        Ok(&mut self.world)
    }

    /// Has all others begin to time a collective of `executor`'s own library, which takes no experiment.
    pub(crate) fn begin_library(
        &mut self,
        executor: &dyn Executor,
        operation: zipwire_cluster::library::Operation,
        bytes: u64,
        rounds: u32,
    ) -> Result<&mut World, ExecuteError> {
        let (executor, operation) = (executor.name().to_owned(), operation.name().to_owned());
        self.world.tell(&Task::Library { executor, operation, bytes, rounds }.to_bytes())?;
        Ok(&mut self.world)
    }

    /// Sends the experiment to all others, unless they have it.
    fn load(&mut self, experiment: &Experiment) -> Result<(), ExecuteError> {
        let parcel = experiment.parcel().map_err(|error| ExecuteError::Parcel(Box::new(error)))?;
        let load = Task::Load(parcel).to_bytes();
        if self.loaded.as_ref() != Some(&load) {
            self.world.tell(&load)?;
            self.loaded = Some(load);
        }
        Ok(())
    }
}
