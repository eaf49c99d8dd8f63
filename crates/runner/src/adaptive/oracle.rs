//! The best that a switcher could have done, known afterwards: every fixed choice, simulated for the same iteration.

use zipwire_schedule::switcher::Switcher;

use super::runs::Runs;
use crate::ExecuteError;

/// Sums of seconds over the iterations after the warm-up.
#[derive(Clone, Debug)]
pub(super) struct Oracle {
    /// The best choice of each iteration.
    best_s: f64,
    /// The same arm in all calls and iterations, by arm.
    pub(super) arms_s: Vec<f64>,
    adaptive_s: f64,
}

impl Oracle {
    pub(super) fn new(arms: usize) -> Self {
        Self { best_s: 0.0, arms_s: vec![0.0; arms], adaptive_s: 0.0 }
    }

    /// Adds an iteration that took the switcher `adaptive_s`. The best single arm is improved class by class: each class takes the
    /// arm that is best while the others stay.
    pub(super) fn add(
        &mut self,
        runs: &mut Runs<'_, '_>,
        switcher: &Switcher,
        iteration: u32,
        adaptive_s: f64,
    ) -> Result<(), ExecuteError> {
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

    /// What the switcher took over the best of each iteration, less 1.
    pub(super) fn regret(&self) -> Option<f64> {
        (self.best_s > 0.0).then(|| self.adaptive_s / self.best_s - 1.0)
    }

    /// What the switcher took over so many seconds, less 1.
    pub(super) fn over(&self, seconds: f64) -> Option<f64> {
        (seconds > 0.0).then(|| self.adaptive_s / seconds - 1.0)
    }
}
