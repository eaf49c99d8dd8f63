//! Estimates of what planning and simulating a variant takes: sizes of plans are counted for segments that differ, and multiplied.

use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::{PlanSize, Symmetry, WHOLE_PLAN_RANKS};

use crate::folded::{Folded, WHOLE_BYTES, WHOLE_RANKS, Whole, count};
use crate::memory::{self, Footprint};
use crate::{Cancel, ExecuteError, Shared};

/// Seconds to plan and check a part of a plan, on the machine of docs/benchmarks/sim.md.
const PLAN_S: f64 = 0.25e-6;

/// Seconds to check a part of a plan of so few ranks that they are checked together.
const CHECK_S: f64 = 1e-6;

/// Seconds to simulate a span of one iteration, and to write what comes of it.
const SPAN_S: f64 = 2e-6;

/// Seconds to estimate when an op ends on one late rank.
const LATE_S: f64 = 15e-9;

/// A variant before it is planned.
#[derive(Debug)]
pub struct Outlook {
    /// Ranks that stand for others, or why none does.
    pub(crate) folded: Result<Folded, Whole>,
    /// Parts of the plan that are made, before those that are alike are merged; of adaptive variants, of their largest arm.
    made: PlanSize,
    /// Parts that are kept.
    pub(crate) kept: PlanSize,
    ranks: u32,
    iterations: u32,
}

impl Outlook {
    /// Estimate for a variant, with ranks that stand for others if `folding`. `goes_on` is asked with the size so far; after a no, the size is that so far.
    pub(crate) fn new(
        experiment: &Experiment,
        variant: &Variant,
        folding: Option<&Cancel>,
        mut goes_on: impl FnMut(&PlanSize) -> bool,
    ) -> Self {
        let folded = folding
            .map_or(Err(Whole::Asked), |cancel| Folded::of(experiment, variant, || !cancel.is_cancelled()));
        let [made, kept] = match &folded {
            Ok(folded) => folded.sizes(&experiment.topology),
            Err(_) => {
                let arms =
                    if variant.is_adaptive() { &variant.arms[..] } else { std::slice::from_ref(variant) };
                let mut goes_on =
                    |size: &PlanSize| goes_on(size) && folding.is_none_or(|cancel| !cancel.is_cancelled());
                let sizes = arms.iter().map(|arm| count(experiment, arm, &mut goes_on));
                [sizes.max_by_key(PlanSize::bytes).unwrap_or_default(); 2]
            }
        };
        let (ranks, iterations) = (experiment.topology.ranks(), experiment.iterations);
        Self { folded, made, kept, ranks, iterations }
    }

    /// Estimate for a variant whose ranks stand for others where they can, or, if it is not folded, for the whole of it.
    pub fn of(experiment: &Experiment, variant: &Variant, folds: bool, cancel: &Cancel) -> Self {
        Self::new(experiment, variant, folds.then_some(cancel), |_| !cancel.is_cancelled())
    }

    /// Whether variants fit into memory when they are run.
    ///
    /// # Errors
    /// If they do not: how much they take, and how much there is.
    pub fn check_memory(experiment: &Experiment, all: &[Self], shared: &Shared) -> Result<(), ExecuteError> {
        let add = |sum: Footprint, outlook: &Self| sum.and(experiment, true, &outlook.kept);
        all.iter().fold(Footprint::default(), add).check(all.len(), shared.memory)
    }

    /// Ranks whose programs are planned and simulated.
    pub fn planned_ranks(&self) -> u32 {
        self.folded.as_ref().map_or(self.ranks, |folded| folded.symmetry.members())
    }

    /// Why no rank of a large job stands for another one, as the reason behind a *because*; `None` if some do, or the job is small.
    pub fn why_whole(&self) -> Option<String> {
        let is_large = self.ranks > WHOLE_RANKS || self.bytes() > WHOLE_BYTES;
        let reason = self.folded.as_ref().err().filter(|reason| **reason != Whole::Quick);
        reason.filter(|_| is_large).map(ToString::to_string)
    }

    /// Ranks that stand for others; `None` if none does.
    pub fn symmetry(&self) -> Option<Symmetry> {
        self.folded.as_ref().ok().map(|folded| folded.symmetry)
    }

    /// Whether shards that differ by a value count as equal, because some ranks stand for others.
    pub fn is_evened(&self, experiment: &Experiment) -> bool {
        self.folded.as_ref().is_ok_and(|folded| folded.job != *experiment.job())
    }

    /// Whether ranks that differ only in how long they compute are simulated as if they did not, and the time that lateness adds is estimated.
    pub fn estimates_lateness(&self) -> bool {
        self.folded.as_ref().is_ok_and(|folded| folded.is_on_time)
    }

    /// Spans of an iteration that are simulated.
    pub fn spans(&self) -> u64 {
        self.kept.spans
    }

    /// Bytes of the plan, and of the timeline of all iterations.
    pub fn bytes(&self) -> u64 {
        self.kept.bytes() + memory::span_bytes(&self.kept, self.iterations)
    }

    /// Seconds to plan and check it on one core, within a factor of three.
    pub fn plan_s(&self) -> f64 {
        let is_checked_whole = self.folded.is_err() && self.ranks <= WHOLE_PLAN_RANKS;
        let parts = self.made.ends + self.made.blocks + self.made.shares;
        parts as f64 * (PLAN_S + if is_checked_whole { CHECK_S } else { 0.0 })
    }

    /// Seconds to plan and simulate it once on one core, within a factor of three.
    pub fn run_s(&self) -> f64 {
        let iterations = f64::from(self.iterations);
        let late_ops = match &self.folded {
            Ok(folded) if folded.is_on_time => {
                (self.kept.spans - self.kept.ends) * u64::from(folded.symmetry.alike())
            }
            Ok(_) | Err(_) => 0,
        };
        self.plan_s() + (self.kept.spans as f64 * SPAN_S + late_ops as f64 * LATE_S) * iterations
    }
}

#[cfg(test)]
mod tests {
    use zipwire_scenarios::{Source, load};

    use super::*;
    use crate::Prepared;

    /// Sizes are equal to those of the plans that are made afterwards.
    #[test]
    fn plans_are_as_large_as_was_said() {
        let mut files: Vec<_> =
            std::fs::read_dir("../../scenarios/smoke").unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
        files.sort();
        for file in files {
            let experiment = load(&Source::read(&file).unwrap(), &[], None).unwrap();
            let prepared = Prepared::new(&experiment, &Cancel::default()).unwrap();
            for (variant, planned) in prepared.variants().filter(|(variant, _)| !variant.is_adaptive()) {
                let counted = count(&experiment, variant, |_| true);
                assert_eq!(counted, PlanSize::of(&planned.plan), "{}: {}", file.display(), variant.name);
            }
        }
    }
}
