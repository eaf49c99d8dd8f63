//! Ranks as processes over MPI, on one host or on many.

use std::ops::Range;

use zipwire_engine::host::{HostReport, RunResult, base_bytes};
use zipwire_engine::mpi::WorldError;
use zipwire_mpi::library;
use zipwire_payload::Payload;
use zipwire_scenarios::Experiment;
use zipwire_schedule::{Plan, Rank};

use super::{Executor, MPI};
use crate::execute::{ExecuteError, Outcome, Prepared};
use crate::mpi_job::{Task, job, setup};
use crate::{Cancel, memory};

#[derive(Debug)]
pub(super) struct Mpi;

impl Executor for Mpi {
    says! {
        name: &'static str = "mpi";
        summary: &'static str = "ranks as processes over MPI";
        clock: &'static str = "monotonic";
        adapts: bool = true;
        serves: bool = true;
        refuses_validation: Option<&'static str> = None;
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

    fn run(
        &self,
        prepared: &mut Prepared<'_>,
        index: usize,
        cancel: &Cancel,
    ) -> Result<Outcome, ExecuteError> {
        if let Some(serving) = &prepared.experiment.serving {
            return prepared.serve_over_mpi(serving, index);
        }
        let mut switcher = None;
        let report = if prepared.experiment.variants[index].is_adaptive() {
            let (report, summary) = prepared.measure_adaptive(index, MPI, None, cancel)?;
            switcher = Some(summary);
            report
        } else {
            let variant = prepared.experiment.variants[index].name.clone();
            let payload = prepared.payload(index, self)?;
            let iterations = 0..prepared.experiment.iterations;
            let plan = &prepared.planned(index).plan;
            prepared.run_over_mpi(
                index,
                plan,
                payload,
                iterations,
                &Task::Run { variant, verifies: prepared.verifies() },
            )?
        };
        let HostReport { timeline, unfired, .. } = report;
        Ok(Outcome {
            timeline,
            verified: Some(prepared.verifies()),
            is_timed: true,
            switcher,
            served: None,
            unfired,
        })
    }
}

impl Prepared<'_> {
    /// Runs a plan of a variant together with all processes of the job, which are told what to do by `task`. What it returns is verified: as
    /// many bytes were compared as the plan moves.
    pub(crate) fn run_over_mpi(
        &self,
        index: usize,
        plan: &Plan,
        payload: &Payload,
        iterations: Range<u32>,
        task: &Task,
    ) -> Result<HostReport, ExecuteError> {
        let mut guard = job();
        let job = guard.as_mut().ok_or(ExecuteError::NoJob)?;
        if job.world.has_failed() {
            return Err(ExecuteError::NotRun(self.experiment.variants[index].name.clone(), MPI.name()));
        }
        job.tell(self.experiment, task)?;
        job.align()?;
        let count = u64::from(iterations.end - iterations.start);
        let (name, patience) = (&self.experiment.variants[index].name, job.world.patience());
        let ran: RunResult = job
            .world
            .run(name, &setup(self.experiment, plan, payload, iterations, patience, self.verifies()))?;
        let report = ran.map_err(|failure| self.failed(index, MPI, failure))?;
        let report = report.expect("rank 0 has the report of all");
        self.check_verified(index, plan, count, report.bytes_verified)?;
        Ok(report)
    }
}
