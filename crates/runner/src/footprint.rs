//! Memory footprint of the plans of an experiment, estimated before any is made: too much is refused without planning anything.

use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::{Choice, PlanSize, WHOLE_PLAN_RANKS};

use crate::choices::choices;
use crate::memory::{MemoryLimit, SPAN_BYTES};

/// Bytes of an experiment. Plans are held together; beside them there is the check of one at a time or, if they are run, its timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// All plans; of adaptive variants, those of the largest arm.
    pub(crate) plans: u64,
    /// Check of the largest plan.
    pub(crate) check: u64,
    /// Longest timeline of all iterations; 0 if nothing is run.
    pub(crate) timeline: u64,
}

/// Bytes that a check of a whole plan takes for each of its transfers: both ends, open exchanges, and the graph of waits. An
/// All-to-All of 256 ranks under `static-first` has 195 840, and `zipwire scenario check` of it peaks at 177 MB, of which its plan
/// and the program itself are 60.
const CHECK_BYTES: u64 = 600;

impl Footprint {
    /// That of an experiment, as far as it fits into the limit: what does not is counted no further.
    pub(crate) fn of(experiment: &Experiment, is_run: bool, limit: MemoryLimit) -> Self {
        let mut all = Self::default();
        for variant in &experiment.variants {
            let arms = if variant.is_adaptive() { &variant.arms[..] } else { std::slice::from_ref(variant) };
            let before = all;
            for arm in arms {
                let with = |size: &PlanSize| all.max(before.and(experiment, is_run, size));
                let size = count(experiment, arm, |size| limit.allows(with(size).bytes()));
                all = with(&size);
                if !limit.allows(all.bytes()) {
                    return all;
                }
            }
        }
        all
    }

    /// Bytes that are taken at the same time.
    pub(crate) fn bytes(&self) -> u64 {
        self.plans + self.check.max(self.timeline)
    }

    /// With one plan more.
    fn and(self, experiment: &Experiment, is_run: bool, size: &PlanSize) -> Self {
        let is_checked = experiment.job.rank_count <= WHOLE_PLAN_RANKS;
        let check = if is_checked { size.ends / 2 * CHECK_BYTES } else { 0 };
        let timeline = if is_run { size.spans * u64::from(experiment.iterations) * SPAN_BYTES } else { 0 };
        Self {
            plans: self.plans + size.bytes(),
            check: self.check.max(check),
            timeline: self.timeline.max(timeline),
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            plans: self.plans.max(other.plans),
            check: self.check.max(other.check),
            timeline: self.timeline.max(other.timeline),
        }
    }
}

fn count(experiment: &Experiment, variant: &Variant, goes_on: impl FnMut(&PlanSize) -> bool) -> PlanSize {
    let choices = choices(experiment, variant);
    PlanSize::count(&experiment.job, &choices.iter().collect::<Vec<&Choice>>(), goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cancel, Prepared};

    fn load(path: &std::path::Path) -> Experiment {
        let source = zipwire_scenarios::Source::read(path).unwrap();
        zipwire_scenarios::load(&source, &[], None).unwrap()
    }

    /// Estimates are equal to the sizes of the plans that are made afterwards.
    #[test]
    fn plans_are_as_large_as_was_said() {
        let mut files: Vec<_> =
            std::fs::read_dir("../../scenarios/smoke").unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
        files.sort();
        for file in files {
            let experiment = load(&file);
            let prepared = Prepared::new(&experiment, &Cancel::default()).unwrap();
            for (variant, planned) in prepared.variants().filter(|(variant, _)| !variant.is_adaptive()) {
                let counted = count(&experiment, variant, |_| true);
                assert_eq!(counted, PlanSize::of(&planned.plan), "{}: {}", file.display(), variant.name);
            }
        }
    }

    #[test]
    fn nothing_is_counted_beyond_the_limit() {
        let experiment = load(std::path::Path::new("../../scenarios/smoke/moe-dirichlet-2x2.toml"));
        let whole = Footprint::of(&experiment, true, MemoryLimit::Unknown);
        let limit = MemoryLimit::Stated(whole.bytes() / 4);
        let part = Footprint::of(&experiment, true, limit);
        assert!(!limit.allows(part.bytes()) && part.bytes() < whole.bytes(), "{part:?} of {whole:?}");
        assert!(MemoryLimit::Stated(whole.bytes()).allows(whole.bytes()));
    }
}
