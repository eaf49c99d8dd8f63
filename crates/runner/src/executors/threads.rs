//! Ranks as threads of this process: real bytes and the real codec, over memory.

use std::ops::Range;

use zipwire_engine::host::base_bytes;
use zipwire_engine::threads;
use zipwire_payload::Payload;
use zipwire_scenarios::Experiment;
use zipwire_schedule::Plan;

use super::{Executor, THREADS};
use crate::execute::{ExecuteError, Outcome, Prepared};
use crate::simulate::FaultSetup;
use crate::{Cancel, memory};

#[derive(Debug)]
pub(super) struct Threads;

impl Executor for Threads {
    says! {
        name: &'static str = "threads";
        summary: &'static str = "ranks as threads, real bytes";
        clock: &'static str = "monotonic";
        adapts: bool = true;
        serves: bool = true;
        refuses_validation: Option<&'static str> = None;
    }

    fn times(&self, experiment: &Experiment) -> &'static str {
        if experiment.faults.is_empty() {
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

    fn run(
        &self,
        prepared: &mut Prepared<'_>,
        index: usize,
        cancel: &Cancel,
    ) -> Result<Outcome, ExecuteError> {
        if let Some(serving) = &prepared.experiment.serving {
            let served = prepared.serve_on_threads(serving, index, None, cancel)?;
            return Ok(prepared.outcome_of(serving, THREADS, served));
        }
        let (experiment, has_faults) = (prepared.experiment, !prepared.experiment.faults.is_empty());
        let mut switcher = None;
        let report = if experiment.variants[index].is_adaptive() {
            let (report, summary) = prepared.measure_adaptive(index, self, None, cancel)?;
            switcher = Some(summary);
            report
        } else if has_faults {
            prepared.measure_faults(index, cancel)?
        } else {
            prepared.measure(index, experiment.iterations, None, FaultSetup::NONE, cancel)?
        };
        // Faults are in the cluster's time, so links are paced then.
        let threads::HostReport { timeline, unfired, .. } = report;
        Ok(Outcome {
            timeline,
            verified: Some(prepared.verifies()),
            is_timed: has_faults,
            switcher,
            served: None,
            unfired,
        })
    }
}

pub(crate) struct Real<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) payload: &'a Payload,
    pub(crate) iterations: Range<u32>,
    /// The cluster that it stands for; without one, links are as fast as memory.
    pub(crate) pace: Option<&'a threads::Pace>,
    pub(crate) fault_setup: FaultSetup<'a>,
}

impl Prepared<'_> {
    /// Runs a variant that is not adaptive on threads, paced or as fast as memory.
    pub(crate) fn measure(
        &self,
        index: usize,
        iterations: u32,
        pace: Option<&threads::Pace>,
        fault_setup: FaultSetup<'_>,
        cancel: &Cancel,
    ) -> Result<threads::HostReport, ExecuteError> {
        let payload = self.payload(index, THREADS)?;
        let plan = &self.planned(index).plan;
        self.run_on_threads(
            index,
            &Real { plan, payload, iterations: 0..iterations, pace, fault_setup },
            cancel,
        )
    }

    /// Runs a plan of a variant on threads. What it returns is verified: as many bytes were compared as the plan moves.
    pub(crate) fn run_on_threads(
        &self,
        index: usize,
        real: &Real<'_>,
        cancel: &Cancel,
    ) -> Result<threads::HostReport, ExecuteError> {
        let iterations = real.iterations.len() as u64;
        let setup = threads::HostSetup {
            plan: real.plan,
            payload: real.payload,
            iterations: real.iterations.clone(),
            stuck_after: threads::STUCK_AFTER,
            cores: cores(),
            pace: real.pace,
            phases: None,
            verifies: self.verifies(),
            faults: real.fault_setup.faults,
            deadlines: real.fault_setup.deadlines,
        };
        let run = threads::run(&setup, cancel.flag());
        let report = run.map_err(|failure| self.failed(index, THREADS, failure))?;
        self.check_verified(index, real.plan, iterations, report.bytes_verified)?;
        Ok(report)
    }
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
