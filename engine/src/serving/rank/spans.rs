//! Spans of a rank, with the names that a simulation gives them.

use zipwire_schedule::{Lane, OpId, Rank, SegmentId, Stage};
use zipwire_serving::RequestId;
use zipwire_timeline::Span;

use crate::serving::segment;

/// Spans in the order in which they end, up to a limit.
pub(super) struct SpanLog {
    rank: Rank,
    limit: usize,
    pub(super) spans: Vec<Span>,
    pub(super) left_out: u64,
}

/// A shard that was sent or received.
pub(super) struct MovedShard {
    pub(super) request: RequestId,
    pub(super) peer: Rank,
    /// Numbers of its flow, and of its transfer between the two ranks.
    pub(super) numbers: [u32; 2],
    pub(super) bytes_raw: u64,
    pub(super) bytes_wire: u64,
}

impl SpanLog {
    pub(super) fn new(rank: Rank, limit: usize) -> Self {
        Self { rank, limit, spans: Vec::new(), left_out: 0 }
    }

    pub(super) fn compute(&mut self, segment: SegmentId, name: &'static str, time: [f64; 2]) {
        let span = self.span(segment, Lane::Compute, name, time);
        self.push(span);
    }

    pub(super) fn coding(&mut self, passed: &MovedShard, name: &'static str, time: [f64; 2]) {
        let &MovedShard { request, numbers: [op, _], bytes_raw, bytes_wire, .. } = passed;
        let span = self.span(segment(request), Lane::Codec, name, time);
        self.push(Span { op: OpId(op), bytes: bytes_raw, bytes_coded: Some(bytes_wire), ..span });
    }

    pub(super) fn transfer(&mut self, passed: &MovedShard, is_sender: bool, time: [f64; 2], is_coded: bool) {
        let &MovedShard { request, peer, numbers: [op, tag], bytes_wire, .. } = passed;
        let (lane, name) = if is_sender { (Lane::Tx, "send") } else { (Lane::Rx, "receive") };
        let stage = Some(if is_coded { Stage::Dynamic } else { Stage::Raw });
        let span = self.span(segment(request), lane, name, time);
        self.push(Span { op: OpId(op), stage, peer: Some(peer), tag, bytes: bytes_wire, ..span });
    }

    fn span(&self, segment: SegmentId, lane: Lane, name: &'static str, [begin_s, end_s]: [f64; 2]) -> Span {
        Span {
            iteration: 0,
            segment,
            rank: self.rank,
            lane,
            op: OpId(0),
            stage: None,
            peer: None,
            tag: 0,
            name,
            begin_s,
            end_s: end_s.max(begin_s),
            bytes: 0,
            bytes_coded: None,
        }
    }

    fn push(&mut self, span: Span) {
        if self.spans.len() < self.limit {
            self.spans.push(span);
        } else {
            self.left_out += 1;
        }
    }
}
