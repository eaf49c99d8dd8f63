//! Ranks as threads of this process: real bytes and the real codec, over memory.

use zipwire_engine::host::base_bytes;
use zipwire_engine::threads;
use zipwire_scenarios::Experiment;

use super::{
    Capabilities, Executor, FaultSupport, PlanReport, PlanRun, ServeReport, ServeRun, ValidationSupport,
};
use crate::execute::{ExecuteError, Prepared};
use crate::{Cancel, memory, serving};

#[derive(Debug)]
pub(super) struct Threads;

impl Executor for Threads {
    says! {
        name: &'static str = "threads";
        summary: &'static str = "ranks as threads, real bytes";
        clock: &'static str = "monotonic";
        capabilities: Capabilities = Capabilities {
            faults: FaultSupport::Deadlines,
            adapts: true,
            serves: true,
            validation: ValidationSupport::Paced,
            ..Capabilities::REAL
        };
    }

    fn times(&self, experiment: &Experiment) -> &'static str {
        if experiment.faults().is_empty() {
            "run on threads (unpaced: times are this machine's, not the cluster's)"
        } else {
            "run on threads at a fraction of the cluster's speed"
        }
    }

    /// The buffers of all ranks are here, and what their codecs take differences from.
    fn memory_bytes(&self, prepared: &Prepared<'_>, index: usize) -> u64 {
        let plan = &prepared.planned(index).plan;
        let bases = plan.programs.iter().map(|program| base_bytes(plan, program.rank));
        memory::timeline_bytes(plan, prepared.experiment.iterations)
            + plan.buffer_bytes()
            + bases.sum::<u64>()
    }

    fn run_plan(
        &self,
        prepared: &mut Prepared<'_>,
        run: &PlanRun<'_>,
        cancel: &Cancel,
    ) -> Result<PlanReport, ExecuteError> {
        let setup = threads::HostSetup {
            plan: run.plan,
            payload: prepared.payload_of(run, self)?,
            iterations: run.iterations.clone(),
            stuck_after: threads::STUCK_AFTER,
            cores: cores(),
            pace: run.conditions.pace,
            phases: None,
            verifies: prepared.verifies(),
            faults: run.conditions.faults,
            deadlines: run.conditions.deadlines,
        };
        let ran = threads::run(&setup, cancel.flag());
        let report = ran.map_err(|failure| prepared.failed(run.index, self, failure))?;
        // At the speed of memory, times are those of this machine.
        Ok(PlanReport::of_run(report, run.conditions.pace.is_some()))
    }

    fn serve(
        &self,
        prepared: &Prepared<'_>,
        run: &ServeRun<'_>,
        cancel: &Cancel,
    ) -> Result<ServeReport, ExecuteError> {
        let payload = prepared.payload(run.index, self)?;
        let (patience, verifies) = (threads::STUCK_AFTER, prepared.verifies());
        let setup = serving::setup(prepared.experiment, run, payload, patience, verifies);
        let served = zipwire_engine::serving::run(&setup, cancel.flag());
        prepared.served_on(self, run, &setup, served)
    }
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
