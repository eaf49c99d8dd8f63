//! An adaptive variant in the simulator, with everything that it could have chosen beside it.

use std::rc::Rc;

use zipwire_codec::Table;
use zipwire_scenarios::Variant;
use zipwire_schedule::switcher::{Reason, Round, Switcher};
use zipwire_schedule::{Plan, Protocol};
use zipwire_timeline::Timeline;
use zipwire_traces::SwitcherSummary;

use super::Arms;
use super::adaptive_loop::{IterationResult, Iterations, adaptive_loop, share};
use super::oracle::Oracle;
use super::plans::Key;
use super::recalibration::Recalibration;
use super::runs::Runs;
use crate::{Cancel, ExecuteError, Prepared};

impl Prepared<'_> {
    /// Simulates the adaptive variant at `index`, and every fixed choice beside it.
    pub(crate) fn simulate_adaptive(
        &mut self,
        index: usize,
        cancel: &Cancel,
    ) -> Result<(Timeline, SwitcherSummary), ExecuteError> {
        let experiment = self.experiment;
        let variant = &experiment.variants[index];
        let arms = Arms::new(experiment, variant);
        let (simulator, _) = self.simulator(cancel);
        let runs = Runs::new(&arms, variant, simulator);
        let mut simulated = Simulated { runs, oracle: Oracle::new(variant.arms.len()), probing_s: 0.0 };
        let recalibration = Recalibration::new(experiment, variant, cancel);
        let (timeline, summary) = adaptive_loop(experiment, &arms, recalibration, &mut simulated)?;
        let Simulated { oracle, probing_s, .. } = simulated;
        let is_native = |arm: &Variant| arm.protocol == Protocol::Native;
        let native = variant.arms.iter().position(is_native);
        let best_arm_s = oracle.arms_s.iter().copied().fold(f64::INFINITY, f64::min);
        let summary = SwitcherSummary {
            probing_share: Some(share(probing_s, summary.elapsed_s)),
            regret: oracle.regret(),
            over_best_arm: oracle.over(best_arm_s),
            over_native: native.and_then(|arm| oracle.over(oracle.arms_s[arm])),
            ..summary
        };
        Ok((timeline, summary))
    }
}

struct Simulated<'a, 'e> {
    runs: Runs<'a, 'e>,
    oracle: Oracle,
    /// What probes cost.
    probing_s: f64,
}

impl Iterations for Simulated<'_, '_> {
    fn run(&mut self, iteration: u32, key: &Key) -> Result<(Timeline, u64), ExecuteError> {
        self.runs.run(iteration, key)
    }

    fn plan(&mut self, key: &Key) -> Result<Rc<Plan>, ExecuteError> {
        self.runs.plan(key)
    }

    fn use_table(&mut self, table: &Table) {
        self.runs.use_table(table);
    }

    fn follow(&mut self, ran: &IterationResult<'_>) -> Result<(), ExecuteError> {
        let &IterationResult { iteration, switcher, round, length_s } = ran;
        if let Some(without) = without_probes(switcher, round) {
            self.probing_s += length_s - self.runs.length_s(iteration, &(without, round.exchanges))?;
        }
        self.oracle.add(&mut self.runs, switcher, iteration, length_s)
    }
}

/// The arms of a round if every probed call took what the rest of its class takes; `None` without probes.
fn without_probes(switcher: &Switcher, round: &Round) -> Option<Vec<usize>> {
    let mut arms = round.arms.clone();
    let probes = round.decisions.iter().filter(|decision| decision.reason == Reason::Probe);
    let mut any = false;
    for probe in probes {
        let used = round.decisions.iter().find(|other| other.class == probe.class && other.segment.is_none());
        let (Some(segment), Some(used)) = (probe.segment, used) else { continue };
        debug_assert!(switcher.classes()[probe.class].segments.contains(&segment));
        arms[segment.index()] = used.arm;
        any = true;
    }
    any.then_some(arms)
}
