//! An adaptive variant on threads: the switcher acts on what was measured.
//!
//! Each plan that it chooses, with any mixture of arms, moves real bytes, of which every received one is compared. It sees the times of
//! all ranks, as it would from the statistics that they exchange.

use zipwire_engine::threads::{CodecWork, Pace, Report};
use zipwire_payload::Payload;
use zipwire_timeline::Timeline;
use zipwire_traces::SwitcherSummary;

use super::Arms;
use super::adaptive_loop::{IterationResult, Iterations, adaptive_loop};
use super::plans::{Key, Plans};
use crate::executors::{Real, THREADS};
use crate::fault_setup::FaultSetup;
use crate::{Cancel, ExecuteError, Prepared};

impl Prepared<'_> {
    /// Runs the adaptive variant at `index` on threads, paced or as fast as memory.
    pub(crate) fn measure_adaptive(
        &self,
        index: usize,
        pace: Option<&Pace>,
        cancel: &Cancel,
    ) -> Result<(Report, SwitcherSummary), ExecuteError> {
        let arms = Arms::new(self.experiment, &self.experiment.variants[index]);
        let payload = arms.payload(THREADS)?;
        let mut measured = Measured {
            prepared: self,
            index,
            plans: Plans::new(&arms),
            payload,
            pace,
            cancel,
            bytes_verified: 0,
            codec_work: CodecWork::default(),
        };
        let (timeline, summary) = adaptive_loop(self.experiment, &arms, &mut measured)?;
        let Measured { bytes_verified, codec_work, .. } = measured;
        // Adaptive variants run without faults.
        Ok((Report { timeline, bytes_verified, codec_work, unfired: Vec::new() }, summary))
    }
}

struct Measured<'a, 'e> {
    prepared: &'a Prepared<'e>,
    /// The variant's.
    index: usize,
    plans: Plans<'a, 'e>,
    payload: Payload,
    pace: Option<&'a Pace>,
    cancel: &'a Cancel,
    bytes_verified: u64,
    codec_work: CodecWork,
}

impl Iterations for Measured<'_, '_> {
    fn run(&mut self, iteration: u32, key: &Key) -> Result<(Timeline, u64), ExecuteError> {
        let plan = self.plans.get(key)?;
        let real = Real {
            plan: &plan,
            payload: &self.payload,
            iterations: iteration..iteration + 1,
            pace: self.pace,
            trouble: FaultSetup::NONE,
        };
        let report = self.prepared.run_on_threads(self.index, &real, self.cancel)?;
        self.bytes_verified += report.bytes_verified;
        self.codec_work.merge(&report.codec_work);
        Ok((report.timeline, plan.bytes_raw()))
    }

    fn follow(&mut self, _: &IterationResult<'_>) -> Result<(), ExecuteError> {
        Ok(())
    }
}
