//! An adaptive variant on real ranks: the switcher acts on what was measured.
//!
//! Each plan that it chooses, with any mixture of arms, moves real bytes, of which every received one is compared. It sees the times of
//! all ranks, as it would from the statistics that they exchange.

use std::rc::Rc;

use zipwire_codec::Table;
use zipwire_engine::threads::{CodecWork, HostReport, Pace};
use zipwire_payload::Payload;
use zipwire_schedule::Plan;
use zipwire_timeline::Timeline;
use zipwire_traces::SwitcherSummary;

use super::plans::{Key, Plans};
use super::recalibration::Recalibration;
use super::{Arms, IterationResult, Iterations, adaptive_loop};
use crate::executors::{MPI, Real};
use crate::faults::FaultSetup;
use crate::mpi_job::Task;
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
    /// The variant's.
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
