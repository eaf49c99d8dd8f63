//! Statistics of an iteration on which a switcher acts.
//!
//! A call takes from the moment at which the last rank begins its first op (an encode, where there is one) to the end of
//! the last rank's last op. The time in which early ranks wait for a late one does not count: it is not the protocol's doing, and
//! differs from iteration to iteration. Work of early ranks while a late one computes is hidden under any protocol, and does not count
//! either; so the codec counts where it makes other ranks wait.

use zipwire_schedule::Lane;
use zipwire_schedule::switcher::{Observation, SwitcherReport};
use zipwire_timeline::Timeline;

/// Begin and end of a segment.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// When the last rank began.
    latest_begin_s: f64,
    end_s: f64,
    wire_bytes: u64,
}

/// The report about one iteration; `raw_bytes` are those of each segment. The exchange of statistics is the last segment.
pub(super) fn report(timeline: &Timeline, raw_bytes: &[u64]) -> SwitcherReport {
    let count = timeline.segments.len();
    let mut begins_s = vec![f64::INFINITY; count * timeline.rank_count as usize];
    let mut extents = vec![Extent { latest_begin_s: f64::NEG_INFINITY, end_s: 0.0, wire_bytes: 0 }; count];
    for span in &timeline.spans {
        let begin_s = &mut begins_s[span.rank.index() * count + span.segment.index()];
        *begin_s = begin_s.min(span.begin_s);
        let extent = &mut extents[span.segment.index()];
        extent.end_s = extent.end_s.max(span.end_s);
        if span.lane == Lane::Tx {
            extent.wire_bytes += span.bytes;
        }
    }
    for begins_s in begins_s.chunks_exact(count) {
        // Ranks that take no part begin never.
        for (extent, &begin_s) in extents.iter_mut().zip(begins_s).filter(|(_, begin_s)| begin_s.is_finite())
        {
            extent.latest_begin_s = extent.latest_begin_s.max(begin_s);
        }
    }
    let seconds = |extent: &Extent| (extent.end_s - extent.latest_begin_s).max(0.0);
    let call = |(&raw_bytes, extent): (&u64, &Extent)| {
        let took = raw_bytes > 0 && extent.latest_begin_s.is_finite() && seconds(extent) > 0.0;
        took.then(|| Observation { seconds: seconds(extent), raw_bytes, wire_bytes: extent.wire_bytes })
    };
    let exchange = extents.last().filter(|extent| extent.latest_begin_s.is_finite());
    SwitcherReport {
        iteration_s: timeline.elapsed_s(),
        exchange_s: exchange.map_or(0.0, seconds),
        calls: raw_bytes.iter().zip(&extents).map(call).collect(),
    }
}
