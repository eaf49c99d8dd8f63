//! Unions of intervals of time: stretches in which something runs, however many things do.

/// From begin to end, in nanoseconds.
pub(crate) type Interval = (i64, i64);

/// Stretches that are held before those that touch are put together.
const LOOSE: usize = 1 << 20;

/// Stretches that are held at the most, 192 MiB of them.
const MOST: usize = 12 << 20;

/// Time in which a kernel begins that was queued behind what it waits for: a few microseconds, with room for slow queues.
pub(crate) const RESUMED_NS: i64 = 20_000;

/// Union that grows interval by interval, in any order.
#[derive(Debug, Default)]
pub(crate) struct Union {
    intervals: Vec<Interval>,
    /// Length at which they are put together next.
    due: usize,
}

impl Union {
    /// Adds one; false if there are more separate stretches than are held.
    pub(crate) fn add(&mut self, interval: Interval) -> bool {
        self.intervals.push(interval);
        if self.intervals.len() >= self.due.max(LOOSE) {
            self.tidy();
            // Doubling, so that what does not touch is not sorted again and again.
            self.due = (2 * self.intervals.len()).min(MOST + LOOSE);
        }
        self.intervals.len() < MOST + LOOSE
    }

    fn tidy(&mut self) {
        let intervals = &mut self.intervals;
        intervals.sort_unstable();
        let mut kept = 0;
        for index in 0..intervals.len() {
            let (begin, end) = intervals[index];
            if kept > 0 && begin <= intervals[kept - 1].1 {
                intervals[kept - 1].1 = intervals[kept - 1].1.max(end);
            } else {
                intervals[kept] = (begin, end);
                kept += 1;
            }
        }
        intervals.truncate(kept);
    }

    /// Separate stretches in order.
    pub(crate) fn finish(mut self) -> Busy {
        self.tidy();
        let mut total = 0;
        let before = self.intervals.iter().map(|(begin, end)| {
            let before = total;
            total += end - begin;
            before
        });
        let before = before.collect();
        Busy { intervals: self.intervals, before, total }
    }
}

/// Separate stretches in order of time.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    intervals: Vec<Interval>,
    /// Time of all stretches before each.
    before: Vec<i64>,
    total: i64,
}

impl Busy {
    pub(crate) fn of(intervals: impl IntoIterator<Item = Interval>) -> Self {
        let mut union = Union::default();
        for interval in intervals {
            union.intervals.push(interval);
        }
        union.finish()
    }

    pub(crate) fn total(&self) -> i64 {
        self.total
    }

    pub(crate) fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Time that is covered up to `time`.
    fn until(&self, time: i64) -> i64 {
        let index = self.intervals.partition_point(|(begin, _)| *begin < time);
        let Some(last) = index.checked_sub(1) else { return 0 };
        let (begin, end) = self.intervals[last];
        self.before[last] + end.min(time) - begin
    }

    /// Time that is covered between two times.
    pub(crate) fn within(&self, (begin, end): Interval) -> i64 {
        if end <= begin { 0 } else { self.until(end) - self.until(begin) }
    }

    /// Time up to the end of an interval that nothing covers, if something begins within [`RESUMED_NS`] of that end.
    pub(crate) fn stall(&self, (begin, end): Interval) -> i64 {
        let next = self.intervals.partition_point(|(begin, _)| *begin < end);
        let covered_to = next.checked_sub(1).map_or(i64::MIN, |last| self.intervals[last].1);
        let goes_on = self.intervals.get(next).is_some_and(|(resumed, _)| *resumed <= end + RESUMED_NS);
        if goes_on { (end - covered_to.max(begin)).max(0) } else { 0 }
    }

    /// From the first to the last moment.
    pub(crate) fn bounds(&self) -> Option<Interval> {
        Some((self.intervals.first()?.0, self.intervals.last()?.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once() {
        let busy = Busy::of([(10, 20), (0, 5), (15, 30), (30, 31), (5, 6)]);
        assert_eq!(busy.intervals(), [(0, 6), (10, 31)]);
        assert_eq!((busy.total(), busy.bounds()), (27, Some((0, 31))));
        assert_eq!(busy.within((4, 12)), 4);
        assert_eq!((busy.within((6, 10)), busy.within((40, 50)), busy.within((-9, 99))), (0, 0, 27));
        assert_eq!(busy.within((12, 4)), 0);
    }

    #[test]
    fn compute_that_waits_for_an_end_goes_on_at_it() {
        let us = 1000;
        let busy = Busy::of([(0, 10 * us), (30 * us, 40 * us), (90 * us, 95 * us)]);
        // It computes until 10, and goes on at 30, for which it waited if something ended there.
        assert_eq!(busy.stall((5 * us, 30 * us)), 20 * us);
        assert_eq!(busy.stall((20 * us, 29 * us)), 9 * us);
        // It computes when the end comes, or long after it.
        assert_eq!((busy.stall((5 * us, 35 * us)), busy.stall((45 * us, 60 * us))), (0, 0));
    }

    #[test]
    fn touching_stretches_take_no_memory() {
        let mut union = Union::default();
        for at in 0..3 * LOOSE as i64 {
            assert!(union.add((at, at + 1)));
        }
        assert!(union.intervals.len() < LOOSE);
        assert_eq!(union.finish().total(), 3 * LOOSE as i64);
    }
}
