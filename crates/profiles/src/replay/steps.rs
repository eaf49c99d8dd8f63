//! Steps of all ranks of a profile, and how long they took.

use std::collections::BTreeMap;
use std::ops::Range;

use super::calls::{Nodes, RankCalls};
use super::lanes::Lane;
use super::period::{Period, Times, period};
use super::{ReplayError, StepTimes};
use crate::op::CollectiveOp;
use crate::profile::{Profile, Timing};

/// Steps, by the calls that ranks make in them.
pub(super) struct Steps {
    pub(super) count: usize,
    /// By present rank: the calls of each step.
    ranges: Vec<Vec<Range<usize>>>,
}

impl Steps {
    /// Steps that repeat, or the whole profile as one step.
    pub(super) fn of(profile: &Profile, ranks: &[RankCalls<'_>], notes: &mut Vec<String>) -> Self {
        let found = repeating(ranks, profile.timing).filter(|ranges| is_common(ranks, ranges));
        if let Some(ranges) = found {
            let count = ranges[0].len();
            return Self { count, ranges };
        }
        let whom = if profile.ranks.len() > 1 { " on all ranks" } else { "" };
        notes.push(format!("no steps that repeat were found{whom}: the profile is taken for one step"));
        let ranges = ranks.iter().map(|rank| std::iter::once(0..rank.calls.len()).collect()).collect();
        Self { count: 1, ranges }
    }

    /// Calls of a rank in a step.
    pub(super) fn of_rank(&self, rank: usize, step: usize) -> Range<usize> {
        self.ranges[rank][step].clone()
    }

    /// Steps that were asked for, or all of them.
    pub(super) fn choose(&self, asked: &[usize]) -> Result<Vec<usize>, ReplayError> {
        if let Some(step) = asked.iter().find(|step| **step >= self.count) {
            let found = match self.count {
                1 => "it has one, 0".to_owned(),
                count => format!("it has {count}, 0 to {}", count - 1),
            };
            return Err(ReplayError::NoStep { step: *step, found });
        }
        Ok(if asked.is_empty() { (0..self.count).collect() } else { asked.to_vec() })
    }

    /// Measured times of a step; `lanes` has that of each rank.
    pub(super) fn times(
        &self,
        profile: &Profile,
        ranks: &[RankCalls<'_>],
        nodes: &Nodes,
        step: usize,
        lanes: &[Vec<Lane>],
    ) -> StepTimes {
        let mean = |of: &dyn Fn(usize) -> i64| {
            (0..ranks.len()).map(|rank| of(rank) as f64 / 1e9).sum::<f64>() / ranks.len() as f64
        };
        let moved = |rank: usize| -> i64 {
            let calls = &ranks[rank].calls[self.of_rank(rank, step)];
            let kept = calls.iter().zip(&nodes.is_kept[rank]).filter(|(_, is_kept)| **is_kept);
            kept.map(|(call, _)| call.record.transfer_ns).sum()
        };
        let longest = lanes.iter().map(|of_rank| of_rank[0].span_ns).max().unwrap_or_default();
        let is_known = profile.timing == Timing::Kernels;
        StepTimes {
            span_s: is_known.then_some(longest as f64 / 1e9),
            calls_s: mean(&moved),
            stalled_s: mean(&|rank| lanes[rank][0].stalled_ns),
        }
    }
}

/// Steps of each rank, as many on all; `None` if some rank's calls do not repeat.
fn repeating(ranks: &[RankCalls<'_>], timing: Timing) -> Option<Vec<Vec<Range<usize>>>> {
    let mut numbers = BTreeMap::new();
    let periods: Vec<Period> = ranks
        .iter()
        .map(|rank| {
            let mut calls = Vec::with_capacity(rank.calls.len());
            let (mut gaps, mut ended) = (Vec::with_capacity(rank.calls.len()), i64::MIN / 2);
            for call in &rank.calls {
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                // A rank in the middle of a pipeline gets from one side what it sends to the other.
                let kind = (call.kind(), call.record.op == CollectiveOp::Send);
                calls.push(*numbers.entry(kind).or_insert(next));
                gaps.push(call.record.start_ns - ended);
                ended = ended.max(call.record.start_ns + call.record.duration_ns);
            }
            let begins: Vec<i64> = rank.calls.iter().map(|call| call.record.start_ns).collect();
            let times = Times { begins: &begins, gaps: &gaps };
            period(&calls, (timing == Timing::Kernels).then_some(times), ranks.len())
        })
        .collect::<Option<_>>()?;
    let count = periods.iter().map(|period| period.steps).min()?;
    let begin = |rank: usize, step: usize| {
        let calls = &ranks[rank].calls;
        calls[periods[rank].of_step(step).start].record.start_ns
    };
    // The rank with the fewest steps says which: those of others that begin next to its own.
    let least = periods.iter().position(|period| period.steps == count)?;
    let ranges = periods.iter().enumerate().map(|(rank, period)| {
        let distance = |shift: &usize| begin(rank, *shift).abs_diff(begin(least, 0));
        let shift = (0..=period.steps - count).min_by_key(distance).unwrap_or(0);
        (shift..shift + count).map(|step| period.of_step(step)).collect()
    });
    Some(ranges.collect())
}

/// Whether each call is in the same step on all ranks that make it.
fn is_common(ranks: &[RankCalls<'_>], ranges: &[Vec<Range<usize>>]) -> bool {
    let mut steps = BTreeMap::new();
    ranks.iter().zip(ranges).all(|(rank, ranges)| {
        ranges.iter().enumerate().all(|(step, range)| {
            rank.calls[range.clone()].iter().all(|call| {
                let call_key = (
                    call.group,
                    call.kind().from,
                    call.record.op.is_between_two(),
                    call.record.group,
                    call.record.seq,
                );
                *steps.entry(call_key).or_insert(step) == step
            })
        })
    })
}
