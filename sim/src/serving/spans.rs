//! Timeline of a run of serving, up to a limit of spans.

use zipwire_schedule::{Lane, OpId, Rank, SegmentId, Stage};
use zipwire_serving::RequestId;
use zipwire_timeline::Span;

/// Spans in the order in which they end, up to a limit.
pub(super) struct Spans {
    limit: usize,
    pub(super) list: Vec<Span>,
    pub(super) left_out: u64,
}

/// Facts of a span.
pub(super) struct Note {
    pub(super) rank: Rank,
    pub(super) lane: Lane,
    pub(super) segment: SegmentId,
    pub(super) op: u32,
    pub(super) name: &'static str,
    pub(super) begin_s: f64,
    pub(super) end_s: f64,
    pub(super) bytes: u64,
    pub(super) bytes_coded: Option<u64>,
    /// Other end, number and stage of a transfer.
    pub(super) transfer: Option<(Rank, u32, Stage)>,
}

/// The segment of a request: the first one is for what no request has alone.
pub(super) fn segment(request: RequestId) -> SegmentId {
    SegmentId(request.0 + 1)
}

impl Spans {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, list: Vec::new(), left_out: 0 }
    }

    pub(super) fn push(&mut self, note: &Note) {
        if self.list.len() >= self.limit {
            self.left_out += 1;
            return;
        }
        let &Note { rank, lane, segment, op, name, begin_s, end_s, bytes, bytes_coded, transfer } = note;
        let (peer, tag) = transfer.map_or((None, 0), |(peer, tag, _)| (Some(peer), tag));
        self.list.push(Span {
            iteration: 0,
            segment,
            rank,
            lane,
            op: OpId(op),
            stage: transfer.map(|(_, _, stage)| stage),
            peer,
            tag,
            name,
            begin_s,
            end_s,
            bytes,
            bytes_coded,
        });
    }
}
