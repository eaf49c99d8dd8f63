//! Ranks as processes over MPI, on one host or on many.

use zipwire_cluster::library::Operation;
use zipwire_engine::host::{HostSetup, RunResult, base_bytes};
use zipwire_engine::mpi::{World, WorldError};
use zipwire_mpi::{Collective, library};
use zipwire_payload::Payload;
use zipwire_scenarios::Experiment;
use zipwire_schedule::Rank;

use super::{
    Capabilities, Executor, FaultSupport, LibraryTime, PlanReport, PlanRun, Ranks, ServeReport, ServeRun,
    ValidationSupport, fits,
};
use crate::execute::{ExecuteError, Prepared};
use crate::launch::{Follower, JobError, job};
use crate::{Cancel, memory, serving};

#[derive(Debug)]
pub(super) struct Mpi;

impl Executor for Mpi {
    says! {
        name: &'static str = "mpi";
        summary: &'static str = "ranks as processes over MPI";
        clock: &'static str = "monotonic";
        capabilities: Capabilities = Capabilities {
            ranks: Ranks::Processes,
            needs_mpi: true,
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
        fits(job.world.check(&prepared.planned(index).plan))
    }

    fn run_plan(
        &self,
        prepared: &mut Prepared<'_>,
        run: &PlanRun<'_>,
        _: &Cancel,
    ) -> Result<PlanReport, ExecuteError> {
        let payload = prepared.payload_of(run, self)?;
        let mut guard = job();
        let world = guard.as_mut().ok_or(ExecuteError::NoJob)?.begin_plan(self, prepared, run)?;
        let ran = run_rank(world, prepared.experiment, run, payload, prepared.verifies())?;
        let report = ran.map_err(|failure| prepared.failed(run.index, self, failure))?;
        Ok(PlanReport::of_run(report.expect("rank 0 has the report of all"), true))
    }

    fn follow_plan(&self, follower: &mut Follower<'_>, run: &PlanRun<'_>) -> Result<(), JobError> {
        let payload = run.payload.ok_or_else(|| JobError::task("a run without a payload"))?;
        let Follower { world, experiment, verifies } = follower;
        // Rank 0 has the reports of all, and says which failure came first.
        run_rank(world, experiment, run, payload, *verifies)?.map(|_| ()).map_err(|_| JobError::Failed)
    }

    fn serve(
        &self,
        prepared: &Prepared<'_>,
        run: &ServeRun<'_>,
        _: &Cancel,
    ) -> Result<ServeReport, ExecuteError> {
        let (experiment, verifies) = (prepared.experiment, prepared.verifies());
        let payload = prepared.payload(run.index, self)?;
        let mut guard = job();
        let world = guard.as_mut().ok_or(ExecuteError::NoJob)?.begin_serving(self, prepared, run.index)?;
        let setup = serving::setup(experiment, run, payload, world.patience(), verifies);
        let served = world.serve(&experiment.variants[run.index].name, &setup);
        let served = served.map(|served| served.expect("rank 0 has what all came to"));
        prepared.served_on(self, run, &setup, served)
    }

    fn follow_serving(&self, follower: &mut Follower<'_>, run: &ServeRun<'_>) -> Result<(), JobError> {
        let Follower { world, experiment, verifies } = follower;
        let payload = experiment.payload.as_ref();
        let payload = payload.ok_or_else(|| JobError::task("requests without a payload"))?;
        let setup = serving::setup(experiment, run, payload, world.patience(), *verifies);
        // Rank 0 says which failure came first.
        let served = world.serve(&experiment.variants[run.index].name, &setup);
        served.map(|_| ()).map_err(|_| JobError::Failed)
    }

    fn time_library(
        &self,
        operation: Operation,
        _: u32,
        bytes: u64,
        rounds: u32,
        _: &Cancel,
    ) -> Result<Option<LibraryTime>, ExecuteError> {
        let Some(collective) = collective(operation) else { return Ok(None) };
        let mut guard = job();
        let job = guard.as_mut().ok_or(ExecuteError::NoJob)?;
        let world = job.begin_library(self, operation, bytes, rounds)?;
        let seconds = world.time_collective(collective, bytes, rounds + 1)?;
        let seconds = seconds.iter().skip(1).sum::<f64>() / f64::from(rounds.max(1));
        Ok(Some(LibraryTime { function: collective.function(), seconds }))
    }

    fn follow_library(
        &self,
        world: &mut World,
        operation: Operation,
        bytes: u64,
        rounds: u32,
    ) -> Result<(), JobError> {
        let collective = collective(operation).ok_or_else(|| JobError::task(operation.name()))?;
        world.time_collective(collective, bytes, rounds + 1)?;
        Ok(())
    }
}

/// Runs this process's rank of a plan, as all processes run theirs.
fn run_rank(
    world: &mut World,
    experiment: &Experiment,
    run: &PlanRun<'_>,
    payload: &Payload,
    verifies: bool,
) -> Result<RunResult, WorldError> {
    let setup = HostSetup {
        stuck_after: world.patience(),
        cores: 1,
        phases: Some(&experiment.expect_iterations().durations),
        verifies,
        faults: run.conditions.faults,
        ..HostSetup::new(run.plan, payload, run.iterations.clone())
    };
    world.run(&experiment.variants[run.index].name, &setup)
}

/// The collective of MPI that carries out an operation, if it is timed.
fn collective(operation: Operation) -> Option<Collective> {
    match operation {
        Operation::AllToAll => Some(Collective::AllToAll),
        Operation::AllGather => Some(Collective::AllGather),
        Operation::Broadcast => Some(Collective::Broadcast),
        Operation::AllReduce => Some(Collective::AllReduce),
        Operation::ReduceScatter => Some(Collective::ReduceScatter),
        Operation::SendRecv | Operation::Reduce => None,
    }
}
