//! An adaptive variant on real ranks: the switcher acts on what was measured. Each plan is made at most once.
//!
//! Each plan that it chooses, with any mixture of arms, moves real bytes, of which every received one is compared. It sees the times of
//! all ranks, as it would from the statistics that they exchange.

use std::rc::Rc;

use zipwire_codec::{Spec, Table};
use zipwire_engine::threads::{CodecWork, HostReport, Pace};
use zipwire_payload::Payload;
use zipwire_schedule::Plan;
use zipwire_timeline::Timeline;
use zipwire_traces::SwitcherSummary;

use super::simulated::Recalibration;
use super::{Arms, IterationResult, Iterations, adaptive_loop};
use crate::executors::{MPI, Real};
use crate::mpi_job::Task;
use crate::simulate::FaultSetup;
use crate::{Cancel, ExecuteError, Executor, Prepared};

impl Prepared<'_> {
    /// Runs the adaptive variant at `index` for real: on threads paced or as fast as memory, elsewhere as fast as the hosts are.
    pub(crate) fn measure_adaptive(
        &self,
        index: usize,
        executor: &dyn Executor,
        pace: Option<&Pace>,
        cancel: &Cancel,
    ) -> Result<(HostReport, SwitcherSummary), ExecuteError> {
        let arms = Arms::new(self.experiment, &self.experiment.variants[index]);
        let payload = arms.payload(executor)?;
        let mut measured = Measured {
            prepared: self,
            index,
            plans: Plans::new(&arms),
            payload,
            executor,
            pace,
            cancel,
            bytes_verified: 0,
            codec_work: CodecWork::default(),
        };
        let variant = &self.experiment.variants[index];
        let recalibration = Recalibration::new(self.experiment, variant, cancel);
        let (timeline, summary) = adaptive_loop(self.experiment, &arms, recalibration, &mut measured)?;
        let Measured { bytes_verified, codec_work, .. } = measured;
        // Adaptive variants run without faults.
        Ok((HostReport { timeline, bytes_verified, codec_work, unfired: Vec::new() }, summary))
    }
}

struct Measured<'a, 'e> {
    prepared: &'a Prepared<'e>,
    index: usize,
    plans: Plans<'a, 'e>,
    payload: Payload,
    executor: &'a dyn Executor,
    pace: Option<&'a Pace>,
    cancel: &'a Cancel,
    bytes_verified: u64,
    codec_work: CodecWork,
}

impl Measured<'_, '_> {
    fn take(&mut self, report: HostReport, plan: &Plan) -> (Timeline, u64) {
        self.bytes_verified += report.bytes_verified;
        self.codec_work.merge(&report.codec_work);
        (report.timeline, plan.bytes_raw())
    }
}

impl Iterations for Measured<'_, '_> {
    fn run(&mut self, iteration: u32, key: &Key) -> Result<(Timeline, u64), ExecuteError> {
        let plan = self.plans.get(key)?;
        if self.executor == MPI {
            let variant = self.prepared.experiment.variants[self.index].name.clone();
            let verifies = self.prepared.verifies();
            let table = self.plans.table().map(|table| table.as_bytes().to_vec());
            let task = Task::Adapt { variant, iteration, key: key.clone(), table, verifies };
            let (index, iterations) = (self.index, iteration..iteration + 1);
            let report = self.prepared.run_over_mpi(index, &plan, &self.payload, iterations, &task)?;
            return Ok(self.take(report, &plan));
        }
        let real = Real {
            plan: &plan,
            payload: &self.payload,
            iterations: iteration..iteration + 1,
            pace: self.pace,
            fault_setup: FaultSetup::NONE,
        };
        let report = self.prepared.run_on_threads(self.index, &real, self.cancel)?;
        Ok(self.take(report, &plan))
    }

    fn plan(&mut self, key: &Key) -> Result<Rc<Plan>, ExecuteError> {
        self.plans.get(key)
    }

    fn use_table(&mut self, table: &Table) {
        self.plans.use_table(table);
    }

    fn follow(&mut self, _: &IterationResult<'_>) -> Result<(), ExecuteError> {
        Ok(())
    }
}

/// Plans that are kept; the one that was not used for longest gives way.
const PLANS: usize = 32;

/// An arm for each segment, and whether statistics are exchanged.
pub(crate) type Key = (Vec<usize>, bool);

/// The plans of an adaptive variant.
pub(crate) struct Plans<'a, 'e> {
    pub(super) arms: &'a Arms<'e>,
    /// The table that frames name, in place of the scenario's.
    table: Option<Table>,
    /// The one used last is the last.
    kept: Vec<(Key, Rc<Plan>)>,
}

impl<'a, 'e> Plans<'a, 'e> {
    pub(crate) fn new(arms: &'a Arms<'e>) -> Self {
        Self { arms, table: None, kept: Vec::new() }
    }

    /// From now on, frames name this table.
    pub(crate) fn use_table(&mut self, table: &Table) {
        if self.table.as_ref() != Some(table) {
            self.table = Some(table.clone());
            self.kept.clear();
        }
    }

    /// The table that took the place of the scenario's.
    pub(super) fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    pub(crate) fn get(&mut self, key: &Key) -> Result<Rc<Plan>, ExecuteError> {
        let found = self.kept.iter().position(|(other, _)| other == key);
        let entry = match found {
            Some(index) => self.kept.remove(index),
            None => (key.clone(), Rc::new(self.make(key)?)),
        };
        let plan = Rc::clone(&entry.1);
        self.kept.push(entry);
        if self.kept.len() > PLANS {
            self.kept.remove(0);
        }
        Ok(plan)
    }

    fn make(&self, key: &Key) -> Result<Plan, ExecuteError> {
        let mut plan = self.arms.valid_plan(&key.0, key.1)?;
        if let Some(table) = &self.table {
            // Lengths that a plan reserves depend on no table.
            let named = |spec: Spec| spec.without_table().with_table(table);
            let codec = plan.codec.take().map(named).transpose();
            plan.codec = codec.expect("it was calibrated by the codec");
        }
        Ok(plan)
    }
}
