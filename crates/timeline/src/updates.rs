//! Age of weights: how old they are at the ranks that get them from others that train.

use serde::Serialize;
use zipwire_schedule::Lane;

use crate::{Span, Spread, Timeline};

/// An iteration in which some ranks train and then bring the others up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateCycle {
    /// Ranks that train, the first ones; their compute phases are its steps.
    pub trainers: u32,
    /// Whether an iteration begins with weights of the steps of the iteration before, which are sent beside its own steps.
    pub is_overlapped: bool,
}

/// Times and ages of weight updates. Seconds; ages are those of weights as ranks work with them that do not train, in the mean of
/// these ranks, of time and of iterations, and at most.
///
/// Each iteration is taken to be one of many that are alike: what it begins with is what it ends with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Updates {
    /// From the end of the last training step, on the last rank that trains, to the moment at which the last other rank has all weights
    /// of it, decoded.
    pub update_s: Spread,
    /// Age in time: from the end of the step that made them.
    pub age_s: Age,
    /// Age in training steps that have ended since.
    pub age_steps: Age,
}

/// How old something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Age {
    /// In the mean.
    pub mean: f64,
    /// At most: just before the next weights are there.
    pub max: f64,
}

impl Updates {
    /// The updates of a timeline of such iterations; `None` without iterations, and where nothing is trained or nobody gets anything.
    pub fn of(timeline: &Timeline, cycle: UpdateCycle) -> Option<Self> {
        let mut spans: Vec<Vec<&Span>> = vec![Vec::new(); timeline.iterations.len()];
        timeline.spans.iter().for_each(|span| spans[span.iteration as usize].push(span));
        let of_one = |(spans, iteration): (&Vec<&Span>, &crate::IterationTime)| {
            let ends_s = Ends::of(spans, timeline.rank_count, cycle)?;
            Some(ends_s.seen(iteration.length_s, cycle.is_overlapped))
        };
        let seen: Vec<Seen> = spans.iter().zip(&timeline.iterations).map(of_one).collect::<Option<_>>()?;
        if seen.is_empty() {
            return None;
        }
        let age = |of: fn(&Seen) -> Age| {
            let ages = || seen.iter().map(of);
            let mean = ages().map(|age| age.mean).sum::<f64>() / seen.len() as f64;
            Age { mean, max: ages().map(|age| age.max).fold(0.0, f64::max) }
        };
        let updates: Vec<f64> = seen.iter().map(|seen| seen.update_s).collect();
        Some(Self {
            update_s: Spread::of(&updates),
            age_s: age(|seen| seen.age_s),
            age_steps: age(|seen| seen.age_steps),
        })
    }
}

struct Seen {
    update_s: f64,
    age_s: Age,
    age_steps: Age,
}

/// When things end in an iteration, from its barrier on.
struct Ends {
    /// Training steps, each on the last rank.
    steps_s: Vec<f64>,
    /// Arrival of all weights at each other rank.
    arrivals_s: Vec<f64>,
}

impl Ends {
    fn of(spans: &[&Span], rank_count: u32, UpdateCycle { trainers, .. }: UpdateCycle) -> Option<Self> {
        let mut steps: Vec<(u32, f64)> = Vec::new();
        let mut arrivals_s = vec![None; rank_count.saturating_sub(trainers) as usize];
        for span in spans {
            let is_step = span.lane == Lane::Compute;
            match span.rank.0.checked_sub(trainers) {
                None if is_step => steps.push((span.segment.0, span.end_s)),
                Some(rank) if !is_step => {
                    let last = &mut arrivals_s[rank as usize];
                    *last = Some(last.map_or(span.end_s, |end_s: f64| end_s.max(span.end_s)));
                }
                _ => {}
            }
        }
        steps.sort_by(|(a, a_s), (b, b_s)| a.cmp(b).then(a_s.total_cmp(b_s)));
        let of_one = |step: &[(u32, f64)]| step.last().map(|(_, end_s)| *end_s);
        let steps_s: Vec<f64> = steps.chunk_by(|(a, _), (b, _)| a == b).filter_map(of_one).collect();
        let arrivals_s = arrivals_s.into_iter().collect::<Option<Vec<f64>>>()?;
        (!steps_s.is_empty() && !arrivals_s.is_empty()).then_some(Self { steps_s, arrivals_s })
    }

    fn seen(&self, length_s: f64, is_overlapped: bool) -> Seen {
        let last_step_s = self.steps_s.iter().copied().fold(0.0, f64::max);
        let made_s = if is_overlapped { last_step_s - length_s } else { last_step_s };
        let waits_s: Vec<f64> = self.arrivals_s.iter().map(|arrival_s| arrival_s - made_s).collect();
        let update_s = waits_s.iter().copied().fold(0.0, f64::max);
        let mean = |of: &dyn Fn(f64) -> f64| {
            waits_s.iter().map(|wait_s| of(*wait_s)).sum::<f64>() / waits_s.len() as f64
        };
        Seen {
            update_s,
            age_s: Age { mean: mean(&|wait_s| wait_s + length_s / 2.0), max: update_s + length_s },
            age_steps: Age {
                mean: mean(&|wait_s| self.steps_behind(wait_s, length_s, last_step_s).mean),
                max: self.steps_behind(update_s, length_s, last_step_s).max,
            },
        }
    }

    /// Steps that end behind the one that made the weights, while a rank works with them: from `wait_s` behind that until the next ones are
    /// there, an iteration later.
    fn steps_behind(&self, wait_s: f64, length_s: f64, last_step_s: f64) -> Age {
        let until_s = wait_s + length_s;
        let mut age = Age::default();
        for step_s in &self.steps_s {
            let first_s = step_s - last_step_s + length_s;
            let ends_s = (0..).map(|iteration| first_s + f64::from(iteration) * length_s);
            for end_s in ends_s.take_while(|end_s| *end_s < until_s) {
                age.mean += (until_s - end_s).min(length_s) / length_s;
                age.max += 1.0;
            }
        }
        age
    }
}

#[cfg(test)]
mod tests {
    use zipwire_schedule::SegmentId;

    use super::*;
    use crate::IterationTime;

    fn span(rank: u32, segment: u32, lane: Lane, end_s: f64) -> Span {
        let segment = SegmentId(segment);
        Span { segment, ..Span::plain(rank, lane, end_s - 0.5, end_s) }
    }

    /// Rank 0 trains in as many steps of `step_s`; ranks 1 and 2 have everything at `arrivals_s`.
    fn timeline(steps: u32, step_s: f64, arrivals_s: [f64; 2], length_s: f64) -> Timeline {
        let steps = (1..=steps).map(|step| span(0, step, Lane::Compute, step_s * f64::from(step)));
        let arrivals = (1..).zip(arrivals_s).flat_map(|(rank, end_s)| {
            [span(rank, 90, Lane::Rx, end_s - 0.1), span(rank, 90, Lane::Codec, end_s)]
        });
        Timeline {
            spans: steps.chain(arrivals).collect(),
            rank_count: 3,
            iterations: vec![IterationTime { begin_s: 0.0, length_s }],
            ..Timeline::default()
        }
    }

    #[test]
    fn behind_the_steps_by_hand() {
        // Four steps of 1 s, then 2 and 1 s until all is there.
        let cycle = UpdateCycle { trainers: 1, is_overlapped: false };
        let updates = Updates::of(&timeline(4, 1.0, [6.0, 5.0], 6.0), cycle).unwrap();
        assert_eq!(updates.update_s.mean, 2.0);
        assert_eq!(updates.age_s, Age { mean: 1.5 + 3.0, max: 8.0 });
        // The last rank works with them from 2 s on for 6 s; steps end 3, 4, 5 and 6 s after they were made: (5 + 4 + 3 + 2) / 6. The other
        // one begins at 1 s: (4 + 3 + 2 + 1) / 6.
        let expected = (14.0 / 6.0 + 10.0 / 6.0) / 2.0;
        assert!((updates.age_steps.mean - expected).abs() < 1e-12, "{updates:?}");
        assert_eq!(updates.age_steps.max, 4.0);
    }

    #[test]
    fn beside_the_steps_by_hand() {
        // Weights of the iteration before; two steps of 2 s, and sending takes 3 s of these 4.
        let cycle = UpdateCycle { trainers: 1, is_overlapped: true };
        let updates = Updates::of(&timeline(2, 2.0, [3.0, 3.0], 4.0), cycle).unwrap();
        assert_eq!(updates.update_s.mean, 3.0);
        assert_eq!(updates.age_s, Age { mean: 5.0, max: 7.0 });
        // Worked with from 3 to 7 s; steps end at 2, 4 and 6 s: (4 + 3 + 1) / 4.
        assert_eq!(updates.age_steps, Age { mean: 2.0, max: 3.0 });
        // If sending takes longer than training, new weights wait until the ones before are there: 6 - 4 s.
        let updates = Updates::of(&timeline(2, 2.0, [6.0, 6.0], 6.0), cycle).unwrap();
        assert_eq!(updates.update_s.mean, 8.0);
        assert_eq!(updates.age_s, Age { mean: 11.0, max: 14.0 });
    }

    #[test]
    fn nothing_trained_or_nobody_told_has_none() {
        let cycle = UpdateCycle { trainers: 1, is_overlapped: false };
        assert_eq!(Updates::of(&timeline(0, 1.0, [1.0, 1.0], 2.0), cycle), None);
        assert_eq!(
            Updates::of(&timeline(1, 1.0, [1.0, 1.0], 2.0), UpdateCycle { trainers: 3, ..cycle }),
            None
        );
        assert_eq!(Updates::of(&Timeline::default(), cycle), None);
    }
}
