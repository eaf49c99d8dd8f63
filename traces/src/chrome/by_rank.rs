//! The spans of each rank, found without a look at those of all others.

use std::ops::Range;

use zipwire_timeline::{Span, Timeline};

/// Positions of the spans of a timeline, rank by rank.
pub(super) struct ByRank<'t> {
    timeline: &'t Timeline,
    /// Of each rank in the order of the timeline.
    order: Vec<u32>,
    /// Where those of each rank begin in `order`, and the end of the last.
    begins: Vec<usize>,
}

impl<'t> ByRank<'t> {
    pub(super) fn of(timeline: &'t Timeline) -> Self {
        let spans = &timeline.spans;
        let mut begins = vec![0; timeline.rank_count as usize + 1];
        spans.iter().for_each(|span| begins[span.rank.index() + 1] += 1);
        for rank in 1..begins.len() {
            begins[rank] += begins[rank - 1];
        }
        let mut next = begins.clone();
        let mut order = vec![0; spans.len()];
        for (span, index) in spans.iter().zip(0..) {
            let place = &mut next[span.rank.index()];
            order[*place] = index;
            *place += 1;
        }
        Self { timeline, order, begins }
    }

    pub(super) fn timeline(&self) -> &'t Timeline {
        self.timeline
    }

    pub(super) fn ranks(&self) -> Range<u32> {
        0..self.timeline.rank_count
    }

    /// The spans of a rank in the order of the timeline.
    pub(super) fn spans(&self, rank: u32) -> impl Iterator<Item = &'t Span> {
        let (rank, spans) = (rank as usize, &self.timeline.spans);
        self.order[self.begins[rank]..self.begins[rank + 1]].iter().map(|&index| &spans[index as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chrome::tests::busy;

    #[test]
    fn all_spans_of_a_rank_in_their_order() {
        let timeline = busy(3);
        let by_rank = ByRank::of(&timeline);
        for rank in by_rank.ranks() {
            let of_rank = timeline.spans.iter().filter(|span| span.rank.0 == rank);
            assert!(by_rank.spans(rank).eq(of_rank), "rank {rank}");
        }
        assert_eq!(by_rank.order.len(), timeline.spans.len());
    }
}
