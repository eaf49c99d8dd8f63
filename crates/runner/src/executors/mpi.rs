//! Ranks as processes over MPI, on one host or on many.

use zipwire_cluster::library::Operation;
use zipwire_engine::host::{RunResult, base_bytes};
use zipwire_engine::mpi::WorldError;
use zipwire_mpi::library;
use zipwire_scenarios::{Experiment, Serving};
use zipwire_schedule::Rank;

use super::{
    Capabilities, Executor, FaultSupport, LibraryTime, PlanReport, PlanRun, Ranks, ServeReport,
    ValidationSupport,
};
use crate::execute::{ExecuteError, Prepared};
use crate::mpi_job::{MpiCollective, Task, job, setup, time_collective};
use crate::{Cancel, memory};

#[derive(Debug)]
pub(super) struct Mpi;

impl Executor for Mpi {
    says! {
        name: &'static str = "mpi";
        summary: &'static str = "ranks as processes over MPI";
        clock: &'static str = "monotonic";
        capabilities: Capabilities = Capabilities {
            ranks: Ranks::Processes,
            faults: FaultSupport::Unpaced,
            adapts: true,
            serves: true,
            validation: ValidationSupport::Probed,
            ..Capabilities::REAL
        };
    }

    fn times(&self, _: &Experiment) -> &'static str {
        "measured over MPI (phases of compute wait for as long as the scenario says; all else is what these hosts take)"
    }

    fn missing(&self) -> Option<String> {
        library().err().map(|error| error.to_string())
    }

    /// The buffers and bases of rank 0; those of others are theirs.
    fn memory_bytes(&self, prepared: &Prepared<'_>, index: usize) -> u64 {
        let plan = &prepared.planned(index).plan;
        let buffers = plan.programs[0].buffers.iter().map(|buffer| buffer.capacity);
        memory::timeline_bytes(plan, prepared.experiment.iterations)
            + buffers.sum::<u64>()
            + base_bytes(plan, Rank(0))
    }

    fn check(&self, prepared: &Prepared<'_>, index: usize) -> Result<(), ExecuteError> {
        let guard = job();
        let job = guard.as_ref().ok_or(ExecuteError::NoJob)?;
        match job.world.check(&prepared.planned(index).plan) {
            Err(WorldError::Ranks { ranks, processes }) => Err(ExecuteError::Processes { ranks, processes }),
            checked => Ok(checked?),
        }
    }

    fn run_plan(
        &self,
        prepared: &mut Prepared<'_>,
        run: &PlanRun<'_>,
        _: &Cancel,
    ) -> Result<PlanReport, ExecuteError> {
        let (experiment, verifies) = (prepared.experiment, prepared.verifies());
        let payload = prepared.payload_of(run, self)?;
        let name = &experiment.variants[run.index].name;
        let mut guard = job();
        let job = guard.as_mut().ok_or(ExecuteError::NoJob)?;
        if job.world.has_failed() {
            return Err(ExecuteError::NotRun(name.clone(), self.name()));
        }
        job.tell(experiment, &Task::of_run(name, run, verifies))?;
        job.align()?;
        let (iterations, patience) = (run.iterations.clone(), job.world.patience());
        let setup = setup(experiment, run.plan, payload, iterations, patience, verifies);
        let ran: RunResult = job.world.run(name, &setup)?;
        let report = ran.map_err(|failure| prepared.failed(run.index, self, failure))?;
        Ok(PlanReport::of_run(report.expect("rank 0 has the report of all"), true))
    }

    fn serve(
        &self,
        prepared: &Prepared<'_>,
        serving: &Serving,
        index: usize,
        _: &Cancel,
    ) -> Result<ServeReport, ExecuteError> {
        let served = prepared.serve_over_mpi(serving, index)?;
        Ok(prepared.served_on(self, serving, served))
    }

    fn time_library(
        &self,
        operation: Operation,
        bytes: u64,
        rounds: u32,
    ) -> Result<Option<LibraryTime>, ExecuteError> {
        let collective = match operation {
            Operation::AllToAll => MpiCollective::AllToAll,
            Operation::AllGather => MpiCollective::AllGather,
            Operation::Broadcast => MpiCollective::Broadcast,
            Operation::AllReduce => MpiCollective::AllReduce,
            Operation::ReduceScatter => MpiCollective::ReduceScatter,
            _ => return Ok(None),
        };
        let seconds = time_collective(collective, bytes, rounds)?;
        Ok(Some(LibraryTime { function: collective.function(), seconds }))
    }
}
