//! Ranks on GPUs over NCCL: threads of this process, or a process each where a launcher has started this one.

use std::time::Duration;

use zipwire_cluster::library::Operation;
use zipwire_engine::cuda::{self, CudaSetup};
use zipwire_engine::host::RunResult;
use zipwire_engine::mpi::{World, WorldError};
use zipwire_engine::nccl::library::{Library, library};
use zipwire_engine::nccl::{self, ProcessSetup, Timed, Timing};
use zipwire_kernels::{Device, GpuError};
use zipwire_payload::Payload;
use zipwire_scenarios::Experiment;
use zipwire_schedule::Failure;

use super::cuda::{check_gpus, gpus, refused, with_written_layouts};
use super::{Capabilities, Executor, LibraryTime, PlanReport, PlanRun, Ranks, ValidationSupport, fits};
use crate::Cancel;
use crate::execute::{ExecuteError, Prepared};
use crate::launch::{Follower, JobError, job, launched};

#[derive(Debug)]
pub(super) struct Nccl;

impl Executor for Nccl {
    says! {
        name: &'static str = "nccl";
        summary: &'static str = "ranks on GPUs over NCCL";
        clock: &'static str = "device";
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ranks: if launched().is_some() { Ranks::Processes } else { Ranks::Inside },
            adapts: true,
            validation: ValidationSupport::Probed,
            ..Capabilities::REAL
        }
    }

    fn times(&self, _: &Experiment) -> &'static str {
        "measured over NCCL (phases of compute take what copies of their results do; all else is what these GPUs and links take)"
    }

    fn missing(&self) -> Option<String> {
        let gpus = Device::count().err().map(|error| error.to_string());
        gpus.or_else(|| library().err().map(|error| error.to_string()))
    }

    fn settle(&self, experiment: &mut Experiment) -> Vec<String> {
        with_written_layouts(experiment)
    }

    fn check(&self, prepared: &Prepared<'_>, index: usize) -> Result<(), ExecuteError> {
        let library = self.library()?;
        let plan = &prepared.planned(index).plan;
        let checked = nccl::check(plan).and_then(|()| match self.capabilities().ranks {
            Ranks::Inside => {
                check_gpus(prepared, plan)?;
                nccl::check_gpus(plan, library, gpus(prepared)?)
            }
            // Each process finds out by itself whether its GPU has room.
            Ranks::Processes => Ok(()),
        });
        checked.map_err(|error| refused(self, prepared, index, error))?;
        if self.capabilities().ranks == Ranks::Processes {
            let guard = job();
            fits(guard.as_ref().ok_or(ExecuteError::NoJob)?.world.check_ranks(plan))?;
        }
        Ok(())
    }

    fn run_plan(
        &self,
        prepared: &mut Prepared<'_>,
        run: &PlanRun<'_>,
        cancel: &Cancel,
    ) -> Result<PlanReport, ExecuteError> {
        let (library, payload) = (self.library()?, prepared.payload_of(run, self)?);
        let gpu = |error: GpuError| refused(self, prepared, run.index, error.into());
        let (ran, is_shared) = match self.capabilities().ranks {
            Ranks::Inside => {
                let devices = gpus(prepared).map_err(gpu)?;
                let setup = CudaSetup {
                    plan: run.plan,
                    payload,
                    iterations: run.iterations.clone(),
                    stuck_after: cuda::STUCK_AFTER,
                    devices,
                };
                let ran = nccl::run(&setup, library, cancel.flag()).map(Some);
                (ran, run.plan.programs.len() > devices.len())
            }
            Ranks::Processes => {
                let mut guard = job();
                let world = guard.as_mut().ok_or(ExecuteError::NoJob)?.begin_plan(self, prepared, run)?;
                let name = &prepared.experiment.variants[run.index].name;
                run_rank(world, name, run, payload, library)?
            }
        };
        let report = ran.map_err(|failure| prepared.failed(run.index, self, failure))?;
        // Ranks that share a GPU share its memory in place of links.
        Ok(PlanReport::of_run(report.expect("rank 0 has the report of all"), !is_shared))
    }

    fn follow_plan(&self, follower: &mut Follower<'_>, run: &PlanRun<'_>) -> Result<(), JobError> {
        let payload = run.payload.ok_or_else(|| JobError::task("a run without a payload"))?;
        let Follower { world, experiment, .. } = follower;
        let name = &experiment.variants[run.index].name;
        let library = library_of(world)?;
        // Rank 0 has the reports of all, and says which failure came first.
        run_rank(world, name, run, payload, library)?.0.map(|_| ()).map_err(|_| JobError::Failed)
    }

    fn time_library(
        &self,
        operation: Operation,
        ranks: u32,
        bytes: u64,
        rounds: u32,
        cancel: &Cancel,
    ) -> Result<Option<LibraryTime>, ExecuteError> {
        let library = self.library()?;
        let Some(timing) = timing(operation, bytes, rounds, cuda::STUCK_AFTER) else { return Ok(None) };
        let failed = |failure: Failure| ExecuteError::Timing(self.name(), Box::new(failure));
        let seconds = match self.capabilities().ranks {
            Ranks::Inside => {
                let gpus = cuda::devices(ranks as usize);
                let gpus = gpus.map_err(|error| ExecuteError::Unavailable(self.name(), error.to_string()))?;
                nccl::time_collective(&timing, library, ranks, &gpus, cancel.flag()).map_err(failed)?
            }
            Ranks::Processes => {
                let mut guard = job();
                let job = guard.as_mut().ok_or(ExecuteError::NoJob)?;
                let world = job.begin_library(self, operation, bytes, rounds)?;
                time_rank(world, &timing, library).map_err(failed)?
            }
        };
        let seconds = seconds.iter().skip(1).sum::<f64>() / f64::from(rounds.max(1));
        Ok(Some(LibraryTime { function: timing.collective.function(), seconds }))
    }

    fn follow_library(
        &self,
        world: &mut World,
        operation: Operation,
        bytes: u64,
        rounds: u32,
    ) -> Result<(), JobError> {
        let timing = timing(operation, bytes, rounds, world.patience());
        let timing = timing.ok_or_else(|| JobError::task(operation.name()))?;
        let library = library_of(world)?;
        time_rank(world, &timing, library).map(|_| ()).map_err(|_| JobError::Failed)
    }
}

/// NCCL for a process that follows rank 0, which is told where there is none.
fn library_of(world: &mut World) -> Result<&'static Library, JobError> {
    library().map_err(|error| {
        world.refuse(&error.to_string());
        JobError::Failed
    })
}

/// The collective of NCCL that carries out an operation, if it is timed.
fn timing(operation: Operation, bytes: u64, rounds: u32, stuck_after: Duration) -> Option<Timing> {
    let collective = match operation {
        Operation::AllToAll => Timed::AllToAll,
        Operation::AllGather => Timed::AllGather,
        Operation::Broadcast => Timed::Broadcast,
        Operation::AllReduce => Timed::AllReduce,
        Operation::ReduceScatter => Timed::ReduceScatter,
        Operation::SendRecv | Operation::Reduce => return None,
    };
    // The first round does not count.
    Some(Timing { collective, bytes, rounds: rounds + 1, stuck_after })
}

/// Times a collective of NCCL as this process's rank, as all processes do theirs.
fn time_rank(world: &mut World, timing: &Timing, library: &'static Library) -> Result<Vec<f64>, Failure> {
    let (ranks, host) = (world.size(), world.own().host.clone());
    let name = timing.collective.function();
    world
        .do_together(name, |meeting| nccl::time_collective_of_process(timing, library, ranks, &host, meeting))
}

impl Nccl {
    fn library(&self) -> Result<&'static Library, ExecuteError> {
        library().map_err(|error| ExecuteError::Unavailable(self.name(), error.to_string()))
    }
}

/// Runs this process's rank of a plan, as all processes run theirs.
fn run_rank(
    world: &mut World,
    name: &str,
    run: &PlanRun<'_>,
    payload: &Payload,
    library: &'static Library,
) -> Result<(RunResult, bool), WorldError> {
    let (iterations, stuck_after, host) =
        (run.iterations.clone(), world.patience(), world.own().host.clone());
    let setup = ProcessSetup { plan: run.plan, payload, iterations, stuck_after, library, host: &host };
    let mut shares_gpus = false;
    let ran = world.run_meeting(name, run.plan, |meeting| {
        let run = nccl::run_process(&setup, meeting);
        shares_gpus = run.shares_gpus;
        run.result
    });
    Ok((ran?, shares_gpus))
}
