//! Steps of a rank: a stretch of calls that comes again and again.

use std::ops::Range;

/// Comparisons of calls that finding periods of all ranks takes at the most, a second or two of them.
const MOST_COMPARISONS: usize = 1 << 29;

/// Share of a rank's calls that steps cover at least: fewer are a part of a step that repeats, such as layers.
const LEAST_COVER: f64 = 0.75;

/// Calls that repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period {
    /// First call of the first step.
    pub(super) begin: usize,
    /// Calls of a step.
    pub(super) calls: usize,
    pub(super) steps: usize,
}

impl Period {
    /// Calls of a step.
    pub(super) fn of_step(self, step: usize) -> Range<usize> {
        let begin = self.begin + step * self.calls;
        begin..begin + self.calls
    }
}

/// How unequal steps may be, over what they are with the most regular period: deviation over mean of the times from begin to begin.
const REGULAR: (f64, f64) = (0.1, 1.2);

/// Times of a rank's calls, if they are known.
#[derive(Clone, Copy)]
pub(super) struct Times<'a> {
    pub(super) begins: &'a [i64],
    /// Time before each call in which no other one lasts: a step begins at the widest.
    pub(super) gaps: &'a [i64],
}

/// The period of calls that differ by these numbers; `None` if nothing repeats in most of them. Of several, as where layers are alike, it is the
/// shortest with which steps follow one another as regularly as with any; without times, that which leaves out the fewest calls. The longest that is tried becomes shorter with
/// the number of ranks that are searched.
pub(super) fn period(calls: &[u32], times: Option<Times<'_>>, ranks: usize) -> Option<Period> {
    let count = calls.len();
    let most = (count / 2).min(MOST_COMPARISONS / (count.max(1) * ranks.max(1)));
    let all = (1..=most).map(|period| (period, longest_run(calls, period)));
    let repeating = all.filter(|(period, run)| run.len() >= *period);
    let covering =
        repeating.filter(|(period, run)| (run.len() + period) as f64 >= LEAST_COVER * count as f64);
    let found: Vec<Period> = covering.map(|(period, run)| placed(period, &run, times)).collect();
    let regular = |times: Times<'_>| {
        let unequal: Vec<(f64, Period)> =
            found.iter().filter_map(|period| Some((deviation(*period, times.begins)?, *period))).collect();
        let least = unequal.iter().map(|(deviation, _)| *deviation).fold(f64::INFINITY, f64::min);
        let limit = REGULAR.0.max(REGULAR.1 * least);
        unequal.into_iter().find(|(deviation, _)| *deviation <= limit).map(|(_, period)| period)
    };
    let most_covered = || {
        found
            .iter()
            .copied()
            .reduce(|best, next| if next.calls * next.steps > best.calls * best.steps { next } else { best })
    };
    times.and_then(regular).or_else(most_covered)
}

/// Steps of so many calls in a stretch of calls that repeat after as many.
fn placed(period: usize, run: &Range<usize>, times: Option<Times<'_>>) -> Period {
    let (covered, begin) = (run.len() + period, run.start);
    // What is over at the end leaves room to begin later.
    let (steps, room) = (covered / period, covered % period);
    let least_gap = |shift: &usize| {
        let of_steps =
            (0..steps).map(|step| times.map_or(0, |times| times.gaps[begin + shift + step * period]));
        // Before the first call of all nobody knows how long the gap is.
        of_steps.skip(usize::from(begin + shift == 0)).min().unwrap_or(0)
    };
    let shift = (0..=room).max_by_key(|shift| (least_gap(shift), std::cmp::Reverse(*shift))).unwrap_or(0);
    Period { begin: begin + shift, calls: period, steps }
}

/// Standard deviation of the times between steps over their mean; `None` of fewer than three steps.
fn deviation(period: Period, begins: &[i64]) -> Option<f64> {
    let begin = |step: usize| begins[period.of_step(step).start];
    let times: Vec<f64> = (1..period.steps).map(|step| (begin(step) - begin(step - 1)) as f64).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let squares: f64 = times.iter().map(|time| (time - mean) * (time - mean)).sum();
    (times.len() > 1).then(|| (squares / times.len() as f64).sqrt() / mean)
}

/// Longest stretch of calls each of which is the same so many calls later.
fn longest_run(calls: &[u32], period: usize) -> Range<usize> {
    let mut longest = 0..0;
    let mut begin = 0;
    for (at, (call, later)) in calls.iter().zip(&calls[period..]).enumerate() {
        if call != later {
            begin = at + 1;
        } else if at + 1 - begin > longest.len() {
            longest = begin..at + 1;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_begin_at_the_widest_gap() {
        // Three steps of 1 2 2 3, of which the first lacks its first call and the last its end.
        let calls = [2, 2, 3, 1, 2, 2, 3, 1, 2, 2, 3, 1, 2];
        let begins: Vec<i64> = (0..13).map(|at| 10 * at + 1000 * ((at + 1) / 4)).collect();
        let mut gaps = [1; 13];
        for at in [3, 7, 11] {
            gaps[at] = 100;
        }
        let times = Some(Times { begins: &begins, gaps: &gaps });
        // 13 calls are three periods and one call more, so a step begins with the first call or the second.
        assert_eq!(period(&calls, times, 1), Some(Period { begin: 0, calls: 4, steps: 3 }));
        let calls = [9, 1, 2, 2, 3, 1, 2, 2, 3, 1, 2, 2, 3];
        let found = period(&calls, None, 1).unwrap();
        assert_eq!(found, Period { begin: 1, calls: 4, steps: 3 });
        assert_eq!(found.of_step(2), 9..13);
    }

    #[test]
    fn layers_are_no_steps() {
        // One step: eight layers that are alike, then something else.
        let calls = [1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5];
        assert_eq!(period(&calls, None, 1), None);
        // Two of them are two steps, and not sixteen.
        let twice = [calls, calls].concat();
        assert_eq!(period(&twice, None, 1), Some(Period { begin: 0, calls: 12, steps: 2 }));
        // Three steps of four buckets that are alike: only the time between them tells.
        let buckets = [1; 12];
        let begins: Vec<i64> = (0..12).map(|at| 10 * (at % 4) + 500 * (at / 4)).collect();
        let times = Some(Times { begins: &begins, gaps: &[1; 12] });
        assert_eq!(period(&buckets, times, 1), Some(Period { begin: 0, calls: 4, steps: 3 }));
        assert_eq!(period(&[], None, 1), None);
        assert_eq!(period(&[1], None, 1), None);
    }
}
