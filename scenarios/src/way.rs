//! The ways in which the calls of variants travel, where scenarios leave them open.

use zipwire_schedule::estimate::{Costs, Way, best};
use zipwire_schedule::{Choice, Segment, Work};

use crate::experiment::Experiment;
use crate::variant::Variant;

/// Raw over coded bytes where a scenario states no ratio: what BF16 tensors have as a rule. Which algorithm takes least time hardly
/// depends on it.
const TYPICAL_RATIO: f64 = 1.3;

impl Experiment {
    /// Chooses the way of every call of every variant: what is pinned, and else what is predicted to take least time. Must be called again
    /// when what it rests on has changed.
    pub fn choose_ways(&mut self) {
        for index in 0..self.variants.len() {
            let mut variant = self.variants[index].clone();
            for arm in &mut variant.arms {
                arm.ways = self.ways(arm);
            }
            variant.ways = self.ways(&variant);
            self.variants[index] = variant;
        }
    }

    /// By segment.
    fn ways(&self, variant: &Variant) -> Vec<Option<Way>> {
        let codec = self.codec_of(variant);
        let costs = Costs {
            topology: &self.topology,
            host: &self.host,
            codec: codec.map(|codec| codec.cost),
            ratio: codec.and_then(|codec| codec.ratio).unwrap_or(TYPICAL_RATIO),
        };
        let mut known: Vec<(&Work, Option<Way>)> = Vec::new();
        let way = |segment: &Segment| {
            let work = &segment.work;
            let protocol = variant.protocol_of(work);
            let choice = Choice {
                algorithm: variant.algorithms.of(work),
                sums: self.sums,
                ..Choice::of(protocol, None)
            };
            let rings = (variant.channels, variant.slices);
            best(work, &choice, &costs, rings, variant.may_call).map(|(way, _)| way)
        };
        let mut ways = Vec::with_capacity(self.job.segments.len());
        for segment in &self.job.segments {
            // Layers are alike: of calls that differ in their buffers only, one is predicted.
            let is_alike = |other: &Work| is_alike(other, &segment.work);
            let found = known.iter().find(|(other, _)| is_alike(other)).map(|(_, way)| *way);
            ways.push(found.unwrap_or_else(|| {
                let way = way(segment);
                known.push((&segment.work, way));
                way
            }));
        }
        ways
    }
}

/// Whether two calls move the same.
fn is_alike(a: &Work, b: &Work) -> bool {
    let has_one_way = |work: &Work| work.algorithms().is_empty();
    (has_one_way(a) && has_one_way(b)) || (a.dtype(), a.call()) == (b.dtype(), b.call())
}
