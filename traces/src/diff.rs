//! Two traces, span by span: what a change changed, or how far a simulation is from reality.
//!
//! Spans are matched by their place in the plan, never by time; no judgement is made about what differs.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use zipwire_schedule::{Lane, OpId, Rank, Stage};

use crate::{Trace, TracedSpan};

/// Times in files are whole nanoseconds since the start of the run: rounded, equal times differ by as much.
const ROUNDING_NS: u64 = 1;

/// How two traces, A and B, differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff<'t> {
    /// The iterations.
    pub iterations: Comparison,
    /// All spans, summed by segment and name, in the order in which A first shows them; then those of B alone.
    pub groups: Vec<Group<'t>>,
    /// Number of spans that both traces have.
    pub paired: usize,
    /// Spans whose durations differ by more than rounding: where time was won or lost. Largest difference first, of
    /// equal ones the earlier.
    pub durations: Vec<Pair<'t>>,
    /// Spans whose ends, relative to their iteration, differ by more than rounding: what that led to. In the same order.
    pub ends: Vec<Pair<'t>>,
    /// Spans whose raw, sent or coded bytes differ, largest difference first.
    pub bytes: Vec<Pair<'t>>,
    /// Spans that only A has, by iteration, rank and op.
    pub only_a: Vec<&'t TracedSpan>,
    /// Spans that only B has, by iteration, rank and op.
    pub only_b: Vec<&'t TracedSpan>,
}

/// The same thing in both traces, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// In A.
    pub a: Total,
    /// In B.
    pub b: Total,
}

/// Spans or iterations, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// How many.
    pub count: usize,
    /// Sum of their durations in nanoseconds.
    pub sum_ns: i128,
}

/// The spans of one segment and name.
#[derive(Clone, Debug, PartialEq)]
pub struct Group<'t> {
    /// Name of the segment.
    pub segment: &'t str,
    /// Name of the spans.
    pub name: &'t str,
    /// Their durations.
    pub durations: Comparison,
}

/// One span in both traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair<'t> {
    /// In A.
    pub a: &'t TracedSpan,
    /// In B.
    pub b: &'t TracedSpan,
}

impl<'t> Diff<'t> {
    /// Compares `a` with `b` by iteration, rank, op, lane, stage, peer and tag. An op that has another segment or name
    /// in `b`, which happens between different plans, is another span. Should several spans share all this, the k-th
    /// is compared with the k-th by time.
    pub fn of(a: &'t Trace, b: &'t Trace) -> Self {
        let mut diff = Self {
            iterations: Comparison { a: total(&a.iterations_ns), b: total(&b.iterations_ns) },
            groups: groups(a, b),
            ..Self::default()
        };
        let (left, right) = (sorted(a), sorted(b));
        let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => key(a).cmp(&key(b)),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            match order {
                Ordering::Less => diff.only_a.extend(left.next()),
                Ordering::Greater => diff.only_b.extend(right.next()),
                Ordering::Equal => {
                    let pair = left.next().zip(right.next()).map(|(a, b)| Pair { a, b });
                    diff.add(pair.expect("both sides were looked at"));
                }
            }
        }
        let time = |pair: &Pair<'_>| (pair.a.iteration, pair.a.end_ns);
        diff.durations.sort_by_key(|pair| (Reverse(pair.longer_ns().unsigned_abs()), time(pair)));
        diff.ends.sort_by_key(|pair| (Reverse(pair.later_ns().unsigned_abs()), time(pair)));
        diff.bytes.sort_by_key(|pair| Reverse(pair.byte_change()));
        diff
    }

    /// Whether nothing is listed: the same spans with the same times, to rounding, and bytes.
    pub fn is_empty(&self) -> bool {
        let Self { durations, ends, bytes, only_a, only_b, .. } = self;
        [durations, ends, bytes].iter().all(|pairs| pairs.is_empty())
            && only_a.is_empty()
            && only_b.is_empty()
    }

    fn add(&mut self, pair: Pair<'t>) {
        self.paired += 1;
        if pair.longer_ns().unsigned_abs() > ROUNDING_NS {
            self.durations.push(pair);
        }
        if pair.later_ns().unsigned_abs() > ROUNDING_NS {
            self.ends.push(pair);
        }
        if (pair.a.bytes, pair.a.bytes_coded) != (pair.b.bytes, pair.b.bytes_coded) {
            self.bytes.push(pair);
        }
    }
}

impl Comparison {
    /// Mean duration in B / mean duration in A: above 1, B is slower. 1 if both are 0; `None` if only A's is, or if
    /// one trace has none.
    pub fn ratio(&self) -> Option<f64> {
        match (self.a.mean_ns()?, self.b.mean_ns()?) {
            (0.0, 0.0) => Some(1.0),
            (0.0, _) => None,
            (a_ns, b_ns) => Some(b_ns / a_ns),
        }
    }
}

impl Total {
    /// Nanoseconds; `None` if there are none.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    fn add(&mut self, ns: i64) {
        self.count += 1;
        self.sum_ns += i128::from(ns);
    }
}

impl Pair<'_> {
    /// By how many nanoseconds the span takes longer in B.
    pub fn longer_ns(&self) -> i64 {
        self.b.duration_ns() - self.a.duration_ns()
    }

    /// By how many nanoseconds the span ends later in B, each relative to its iteration.
    pub fn later_ns(&self) -> i64 {
        self.b.end_ns - self.a.end_ns
    }

    fn byte_change(&self) -> u64 {
        let coded = |span: &TracedSpan| span.bytes_coded.unwrap_or(0);
        self.a.bytes.abs_diff(self.b.bytes).max(coded(self.a).abs_diff(coded(self.b)))
    }
}

fn total(durations_ns: &[i64]) -> Total {
    let mut total = Total::default();
    durations_ns.iter().for_each(|&ns| total.add(ns));
    total
}

fn groups<'t>(a: &'t Trace, b: &'t Trace) -> Vec<Group<'t>> {
    let mut groups: Vec<Group<'t>> = Vec::new();
    let mut index_of = HashMap::new();
    let mut add = |span: &'t TracedSpan, side: fn(&mut Comparison) -> &mut Total| {
        let (segment, name) = (&*span.segment, &*span.name);
        let index = *index_of.entry((segment, name)).or_insert_with(|| {
            groups.push(Group { segment, name, durations: Comparison::default() });
            groups.len() - 1
        });
        side(&mut groups[index].durations).add(span.duration_ns());
    };
    a.spans.iter().for_each(|span| add(span, |durations| &mut durations.a));
    b.spans.iter().for_each(|span| add(span, |durations| &mut durations.b));
    groups
}

/// Key under which two spans count as the same.
type Key<'t> = (u32, Rank, OpId, Lane, Option<Stage>, Option<Rank>, u32, &'t str, &'t str);

fn key(span: &TracedSpan) -> Key<'_> {
    let TracedSpan { iteration, rank, op, lane, stage, peer, tag, .. } = *span;
    (iteration, rank, op, lane, stage, peer, tag, &span.segment, &span.name)
}

/// The spans by key, those of one key by time.
fn sorted(trace: &Trace) -> Vec<&TracedSpan> {
    let mut spans: Vec<_> = trace.spans.iter().collect();
    spans.sort_by(|a, b| key(a).cmp(&key(b)).then(a.begin_ns.cmp(&b.begin_ns)));
    spans
}
