//! Bytes in flight: what a rank's open sends hold, over time.

use zipwire_schedule::Lane;
use zipwire_timeline::Span;

use super::track::Slice;

/// Every change of the counter as (time in nanoseconds, rank, bytes of the sends that are open from then on), by
/// rank and time. A change at an instant is one, however many sends begin and end there.
pub(super) fn bytes_in_flight(spans: &[Span], slices: &[Slice]) -> Vec<(i64, u32, u64)> {
    let mut edges: Vec<(u32, i64, i128)> = spans
        .iter()
        .zip(slices)
        .filter(|(span, _)| span.lane == Lane::Tx && span.bytes > 0)
        .flat_map(|(span, slice)| {
            let (rank, bytes) = (span.rank.0, i128::from(span.bytes));
            [(rank, slice.begin_ns, bytes), (rank, slice.end_ns, -bytes)]
        })
        .collect();
    edges.sort_unstable();

    let mut changes = Vec::new();
    for of_rank in edges.chunk_by(|a, b| a.0 == b.0) {
        let mut open: i128 = 0;
        for at_once in of_rank.chunk_by(|a, b| a.1 == b.1) {
            let before = open;
            open += at_once.iter().map(|&(_, _, change)| change).sum::<i128>();
            if open != before {
                let bytes = u64::try_from(open).expect("a send ends after it begins");
                changes.push((at_once[0].1, at_once[0].0, bytes));
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chrome::tests::{both_ends, timeline, transfer};
    use crate::chrome::track::Tracks;

    fn counted(spans: Vec<Span>) -> Vec<(i64, u32, u64)> {
        let timeline = timeline(spans);
        bytes_in_flight(&timeline.spans, &Tracks::assign(&timeline).slices)
    }

    #[test]
    fn sums_the_open_sends_of_each_rank() {
        let spans = vec![transfer(0, 1, 0.0, 3e-6), transfer(0, 2, 1e-6, 2e-6), transfer(1, 0, 1e-6, 2e-6)];
        let expected =
            [(0, 0, 1000), (1000, 0, 2000), (2000, 0, 1000), (3000, 0, 0), (1000, 1, 1000), (2000, 1, 0)];
        assert_eq!(counted(spans), expected);
    }

    #[test]
    fn relay_of_equal_sends_does_not_flicker() {
        let spans = vec![transfer(0, 1, 0.0, 1e-6), transfer(0, 2, 1e-6, 2e-6)];
        assert_eq!(counted(spans), [(0, 0, 1000), (2000, 0, 0)]);
    }

    #[test]
    fn receives_do_not_count() {
        let [_, receive] = both_ends(0, 1, 0.0, 1e-6);
        assert_eq!(counted(vec![receive]), []);
    }
}
