//! The best that a switcher could have done, known afterwards: every fixed choice, simulated for the same iteration.

use std::collections::BTreeMap;

use zipwire_scenarios::{Conditions, Experiment};
use zipwire_schedule::switcher::{Reason, Round, Switcher};

use super::plans::Key;
use super::{Runs, share};
use crate::ExecuteError;

/// Lengths of iterations under any choice of arms, simulated at most once if they would be equal.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    /// Numbers of what is equal: conditions, and durations as bits.
    conditions: Vec<Conditions>,
    durations: BTreeMap<Vec<u64>, usize>,
    /// Seconds by choice, conditions and durations.
    lengths_s: BTreeMap<(Key, usize, usize), f64>,
}

impl Lengths {
    pub(super) fn insert(&mut self, experiment: &Experiment, iteration: u32, key: &Key, length_s: f64) {
        let (conditions, durations) = self.found(experiment, iteration);
        self.lengths_s.insert((key.clone(), conditions, durations), length_s);
    }

    /// Seconds of an iteration that finds the same as one that is known.
    pub(super) fn get(&mut self, experiment: &Experiment, iteration: u32, key: &Key) -> Option<f64> {
        let (conditions, durations) = self.found(experiment, iteration);
        self.lengths_s.get(&(key.clone(), conditions, durations)).copied()
    }

    /// Forgets all: no iteration is known to be equal to one before.
    pub(super) fn clear(&mut self) {
        self.lengths_s.clear();
    }

    /// The numbers of what an iteration finds.
    fn found(&mut self, experiment: &Experiment, iteration: u32) -> (usize, usize) {
        let conditions = experiment.conditions(iteration);
        let known = self.conditions.iter().position(|other| *other == conditions);
        let of_conditions = known.unwrap_or_else(|| {
            self.conditions.push(conditions);
            self.conditions.len() - 1
        });
        let durations = &experiment.expect_iterations().durations;
        let bits = durations.of_iteration(iteration).map(f64::to_bits).collect();
        let next = self.durations.len();
        (of_conditions, *self.durations.entry(bits).or_insert(next))
    }
}

/// Times of all fixed choices beside the switcher's. Seconds are summed over the iterations after the warm-up.
#[derive(Clone, Debug)]
pub(super) struct Oracle {
    /// The best choice of each iteration.
    best_s: f64,
    /// The same arm in all calls and iterations, by arm.
    arms_s: Vec<f64>,
    adaptive_s: f64,
    /// Seconds that iterations were longer because of probes.
    probing_s: f64,
}

impl Oracle {
    pub(super) fn new(arms: usize) -> Self {
        Self { best_s: 0.0, arms_s: vec![0.0; arms], adaptive_s: 0.0, probing_s: 0.0 }
    }

    /// Adds an iteration that took the switcher `adaptive_s`. The best single arm is improved class by class: each class takes the
    /// arm that is best while the others stay.
    pub(super) fn add(
        &mut self,
        runs: &mut Runs<'_, '_>,
        switcher: &Switcher,
        round: &Round,
        iteration: u32,
        adaptive_s: f64,
    ) -> Result<(), ExecuteError> {
        if let Some(without) = without_probes(switcher, round) {
            self.probing_s += adaptive_s - runs.length_s(iteration, &(without, round.exchanges))?;
        }
        let segments = runs.arms.raw_bytes.len();
        let (mut best, mut best_s) = (Vec::new(), f64::INFINITY);
        for arm in 0..self.arms_s.len() {
            let key = (vec![arm; segments], false);
            let seconds = runs.length_s(iteration, &key)?;
            self.arms_s[arm] += seconds;
            if seconds < best_s {
                (best, best_s) = (key.0, seconds);
            }
        }
        if switcher.classes().len() > 1 {
            for class in switcher.classes() {
                for arm in 0..self.arms_s.len() {
                    let mut arms = best.clone();
                    class.segments.iter().for_each(|segment| arms[segment.index()] = arm);
                    if arms == best {
                        continue;
                    }
                    let seconds = runs.length_s(iteration, &(arms.clone(), false))?;
                    if seconds < best_s {
                        (best, best_s) = (arms, seconds);
                    }
                }
            }
        }
        self.best_s += best_s;
        self.adaptive_s += adaptive_s;
        Ok(())
    }

    /// Relative excess of the switcher's time over the best choice of each iteration.
    pub(super) fn regret(&self) -> Option<f64> {
        (self.best_s > 0.0).then(|| self.adaptive_s / self.best_s - 1.0)
    }

    /// Relative excess of the switcher's time over the best single arm.
    pub(super) fn over_best_arm(&self) -> Option<f64> {
        self.over(self.arms_s.iter().copied().fold(f64::INFINITY, f64::min))
    }

    /// Relative excess of the switcher's time over one arm.
    pub(super) fn over_arm(&self, arm: usize) -> Option<f64> {
        self.over(self.arms_s[arm])
    }

    /// Part of `elapsed_s` that probes took.
    pub(super) fn probing_share(&self, elapsed_s: f64) -> f64 {
        share(self.probing_s, elapsed_s)
    }

    fn over(&self, seconds: f64) -> Option<f64> {
        (seconds > 0.0).then(|| self.adaptive_s / seconds - 1.0)
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
