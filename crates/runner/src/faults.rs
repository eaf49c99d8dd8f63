//! Runs that suffer the faults of a scenario, with deadlines from a simulation without them.

use zipwire_engine::threads::{HostReport, Pace};
use zipwire_schedule::{Deadlines, Fault, FiredFaults, Lane, OpId, Rank};
use zipwire_timeline::{Metrics, Timeline};

use crate::choices::costs;
use crate::validate::{check_model, needs_measuring};
use crate::{Cancel, ExecuteError, Prepared};

/// Seconds of this machine that an iteration takes at the least: then a thread that wakes up late is not overdue.
const SHORTEST_ITERATION_S: f64 = 0.25;

/// Faults of a run, and the deadlines by which they are noticed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultSetup<'a> {
    pub(crate) faults: &'a [Fault],
    pub(crate) deadlines: Option<&'a Deadlines>,
    /// Record of the faults that had an effect.
    pub(crate) fired: Option<&'a FiredFaults>,
}

impl FaultSetup<'_> {
    pub(crate) const NONE: Self = Self { faults: &[], deadlines: None, fired: None };
}

impl Prepared<'_> {
    /// Simulates the variant at `index` with the faults of the scenario. Also gives those that had no effect.
    pub(crate) fn simulate_faults(
        &mut self,
        index: usize,
        cancel: &Cancel,
    ) -> Result<(Timeline, Vec<usize>), ExecuteError> {
        let experiment = self.experiment;
        let expected = self.simulate(index, FaultSetup::NONE, cancel)?;
        let deadlines = self.deadlines(index, &expected);
        let fired = FiredFaults::new(experiment.faults.len());
        let fault_setup =
            FaultSetup { faults: &experiment.faults, deadlines: Some(&deadlines), fired: Some(&fired) };
        let timeline = self.simulate(index, fault_setup, cancel)?;
        Ok((timeline, fired.missing()))
    }

    /// Runs the variant at `index` on threads with the faults of the scenario: on paced links, because faults and deadlines
    /// are in the cluster's time.
    pub(crate) fn measure_faults(
        &mut self,
        index: usize,
        cancel: &Cancel,
    ) -> Result<HostReport, ExecuteError> {
        let experiment = self.experiment;
        check_model(experiment)?;
        let expected = self.simulate(index, FaultSetup::NONE, cancel)?;
        let (variant, plan) = (&experiment.variants[index], &self.planned(index).plan);
        let predicted_s = Metrics::of(&expected, plan.bytes_raw()).iteration_s.mean;
        if predicted_s == 0.0 {
            return Err(ExecuteError::NoTime(experiment.variants[index].name.clone()));
        }
        let mut dilation = (SHORTEST_ITERATION_S / predicted_s).max(1.0);
        if needs_measuring(self, index) {
            dilation = dilation.max(self.needed_dilation(index, experiment, cancel)?);
        }
        let pace = Pace {
            topology: experiment.topology.clone(),
            costs: costs(experiment, variant),
            durations: experiment.durations.clone(),
            dilation: dilation.ceil(),
        };
        let deadlines = self.deadlines(index, &expected);
        let fault_setup = FaultSetup { faults: &experiment.faults, deadlines: Some(&deadlines), fired: None };
        self.measure(index, experiment.iterations, Some(&pace), fault_setup, cancel)
    }

    /// When each op of a variant must have ended, given when it is expected to.
    pub(crate) fn deadlines(&self, index: usize, expected: &Timeline) -> Deadlines {
        let (plan, experiment) = (&self.planned(index).plan, self.experiment);
        let ops = expected.spans.iter().filter(|span| !matches!(span.lane, Lane::Tx | Lane::Rx));
        let ends = ops.map(|span| (span.iteration, span.rank, span.op, span.end_s));
        let ends: Vec<(u32, Rank, OpId, f64)> = ends.collect();
        Deadlines::new(plan, experiment.iterations, experiment.slack, ends)
    }
}
