//! Spans: the one record that every executor writes, and one way to describe ops and transfers, so that timelines compare.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize};
use zipwire_schedule::machine::Direction;
use zipwire_schedule::plan::{Block, Exchange, Op, OpKind, Plan, Transfer};
use zipwire_schedule::{Lane, Machine, OpId, Rank, SegmentId, Stage, Symmetry};

use crate::LinkUsage;

/// A name of which there are few. (Were the reference written out in [`Span`], `serde` would borrow it from its input.)
pub(crate) type Name = &'static str;

/// One op or one end of one transfer, executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Iteration, from 0.
    pub iteration: u32,
    /// The collective call or compute phase that the op belongs to.
    pub segment: SegmentId,
    /// Where it ran; for a transfer, the end that this span describes.
    pub rank: Rank,
    /// The resource that it occupied.
    pub lane: Lane,
    /// The op of that rank's program.
    pub op: OpId,
    /// Stage of the exchange or the call of a library; `None` for compute and codec ops.
    pub stage: Option<Stage>,
    /// The other end of a transfer; `None` for everything else, what moves in a call of a library included.
    pub peer: Option<Rank>,
    /// The number of a transfer among all of its iteration from its sender to its receiver, equal at both ends
    /// ([`Transfer::number`](zipwire_schedule::plan::Transfer::number)); 0 for everything else.
    pub tag: u32,
    /// Low-cardinality name: `encode`, `decode`, `exchange`, `library`, `send`, `receive`, or a compute phase.
    #[serde(deserialize_with = "known_name")]
    pub name: Name,
    /// Seconds since the start of its iteration, in the executor's own clock.
    pub begin_s: f64,
    /// Seconds since the start of its iteration, not before `begin_s`.
    pub end_s: f64,
    /// Raw bytes of a codec op, bytes on the wire of a transfer, bytes sent by an exchange or a call, 0 for compute.
    pub bytes: u64,
    /// Coded bytes of a codec op, headers included; `None` for everything else.
    pub bytes_coded: Option<u64>,
}

/// The name that another process wrote. Names are few, so each is kept for good.
fn known_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    static NAMES: Mutex<BTreeSet<Name>> = Mutex::new(BTreeSet::new());
    let name = String::deserialize(deserializer)?;
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return Ok(known);
    }
    let kept: Name = name.leak();
    names.insert(kept);
    Ok(kept)
}

impl Span {
    /// A finished op of `machine`'s program.
    pub fn of_op(machine: &Machine, iteration: u32, op: &Op, begin_s: f64, end_s: f64) -> Self {
        let (bytes, bytes_coded) = match &op.kind {
            OpKind::Compute(_) => (0, None),
            OpKind::Local(local) => {
                let coded = local.framed().map(|batch| {
                    let frame = |block: &Block| {
                        let dynamic = machine.size(block.size).expect("a finished codec op knows its sizes");
                        (block.known_len() + dynamic) * u64::from(block.times)
                    };
                    batch.blocks.iter().map(frame).sum()
                });
                (local.bytes(), coded)
            }
            OpKind::Library(_) => (machine.ring_bytes(op.id), None),
            OpKind::Exchange(exchange) => {
                let bytes =
                    |transfer: &Transfer| machine.transfer_bytes(transfer) * u64::from(transfer.times);
                (exchange.sends.iter().map(bytes).sum(), None)
            }
        };
        Self {
            iteration,
            segment: op.segment,
            rank: machine.program().rank,
            lane: op.kind.lane(),
            op: op.id,
            stage: op.kind.stage(),
            peer: None,
            tag: 0,
            name: op.kind.name(),
            begin_s,
            end_s,
            bytes,
            bytes_coded,
        }
    }

    /// Bytes that this rank sends and gets in a finished call of a library, from when the last rank had issued it: as many each way
    /// as a ring moves. There is no peer.
    pub fn of_call(machine: &Machine, iteration: u32, op: &Op, begin_s: f64, end_s: f64) -> [Self; 2] {
        let call = Self::of_op(machine, iteration, op, begin_s, end_s);
        let [sent, received] = machine.library(op.id).ends(call.rank, call.bytes);
        let ends = [(Lane::Tx, "send", sent), (Lane::Rx, "receive", received)];
        ends.map(|(lane, name, bytes)| Self { lane, name, bytes, ..call.clone() })
    }

    /// One end of a finished transfer of `bytes` bytes; `begin_s` is the start of its latency.
    #[expect(clippy::too_many_arguments, reason = "each is one fact about the span")]
    pub fn of_transfer(
        rank: Rank,
        iteration: u32,
        op: &Op,
        exchange: &Exchange,
        transfer: &Transfer,
        direction: Direction,
        bytes: u64,
        begin_s: f64,
        end_s: f64,
    ) -> Self {
        let (lane, name) = match direction {
            Direction::Send => (Lane::Tx, "send"),
            Direction::Receive => (Lane::Rx, "receive"),
        };
        Self {
            iteration,
            segment: op.segment,
            rank,
            lane,
            op: op.id,
            stage: Some(exchange.stage),
            peer: Some(transfer.peer),
            tag: transfer.number,
            name,
            begin_s,
            end_s,
            bytes: bytes * u64::from(transfer.times),
            bytes_coded: None,
        }
    }
}

#[cfg(test)]
impl Span {
    /// For tests: of `rank`, in iteration 0, without bytes.
    pub(crate) fn plain(rank: u32, lane: Lane, begin_s: f64, end_s: f64) -> Self {
        Self {
            iteration: 0,
            segment: SegmentId(0),
            rank: Rank(rank),
            lane,
            op: OpId(0),
            stage: None,
            peer: None,
            tag: 0,
            name: "span",
            begin_s,
            end_s,
            bytes: 0,
            bytes_coded: None,
        }
    }
}

/// The spans of a run and what is needed to read them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Spans in the order in which they ended; ties in any order that is the same on every machine.
    pub spans: Vec<Span>,
    /// Number of ranks; ranks without a span are idle, not absent, unless others stand for them.
    pub rank_count: u32,
    /// The ranks that stand for others, which alone have spans; `None` if all have.
    pub symmetry: Option<Symmetry>,
    /// Name of each segment, by [`SegmentId`].
    pub segments: Vec<Arc<str>>,
    /// Segments that are sends between the ranks of a group, by [`SegmentId`]; none behind the last one. Their receives are open long before anybody waits
    /// for them.
    pub sends: Vec<bool>,
    /// When each iteration began and how long it took.
    pub iterations: Vec<IterationTime>,
    /// Usage of the cluster's links; `None` where nobody knows.
    pub link_usage: Option<LinkUsage>,
    /// Bounds of the length of each iteration, where ranks that differ only in how long they compute are simulated as if they did not: spans and
    /// [`iterations`](Self::iterations) are then without lateness. Empty elsewhere.
    pub with_lateness: Vec<Bounds>,
    /// Decisions on the way, in the order of time.
    pub notes: Vec<Note>,
}

/// Least and largest of a time that is estimated, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Seconds.
    pub low_s: f64,
    /// Seconds, not below `low_s`.
    pub high_s: f64,
}

impl Bounds {
    /// The middle, in seconds.
    pub fn middle_s(&self) -> f64 {
        f64::midpoint(self.low_s, self.high_s)
    }

    /// How far both are from the middle, in seconds.
    pub fn margin_s(&self) -> f64 {
        (self.high_s - self.low_s) / 2.0
    }
}

impl Timeline {
    /// An empty timeline of a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut sends = vec![false; plan.segments.len()];
        for op in plan.programs.iter().flat_map(|program| &program.ops) {
            // Explicit flows have no groups.
            let is_flow = op.kind.exchange().is_some_and(|exchange| exchange.channel.flow().is_some());
            let is_among = plan.among.get(op.segment.index()).is_some_and(Option::is_some);
            if is_flow && is_among {
                sends[op.segment.index()] = true;
            }
        }
        Self {
            rank_count: plan.rank_count(),
            symmetry: Some(plan.symmetry).filter(|symmetry| symmetry.alike() > 1),
            segments: plan.segments.clone(),
            sends,
            ..Self::default()
        }
    }

    /// How many ranks have spans.
    pub fn members(&self) -> u32 {
        self.rank_count / self.alike()
    }

    /// Ranks that each of those stands for, itself among them.
    pub fn alike(&self) -> u32 {
        self.symmetry.map_or(1, |symmetry| symmetry.alike())
    }

    /// The rank that has spans at a place among those that have.
    pub fn member_at(&self, place: u32) -> Rank {
        self.symmetry.map_or(Rank(place), |symmetry| symmetry.member_at(place))
    }

    /// Place of a rank among those that have spans.
    pub fn place(&self, rank: Rank) -> usize {
        self.symmetry.map_or(rank.index(), |symmetry| symmetry.place(rank))
    }

    /// When the last iteration ended, in seconds from the start of the run.
    pub fn end_s(&self) -> f64 {
        self.iterations.last().map_or(0.0, |last| last.begin_s + last.length_s)
    }

    /// Seconds of all iterations, without what is between them.
    pub fn elapsed_s(&self) -> f64 {
        self.iterations.iter().map(|time| time.length_s).sum()
    }

    /// By how much lateness lengthens the mean iteration beyond those of the spans, in seconds; 0 where spans have it.
    pub fn lateness_s(&self) -> f64 {
        let late_s: f64 = self.with_lateness.iter().map(Bounds::middle_s).sum();
        if self.with_lateness.is_empty() {
            0.0
        } else {
            (late_s - self.elapsed_s()) / self.with_lateness.len() as f64
        }
    }

    /// Adds iterations of the same job that follow; an empty timeline becomes the later one.
    pub fn append(&mut self, later: Self) {
        if self.iterations.is_empty() {
            *self = later;
            return;
        }
        let offset_s = self.end_s();
        self.spans.extend(later.spans);
        let moved = |time: IterationTime| IterationTime { begin_s: offset_s + time.begin_s, ..time };
        self.iterations.extend(later.iterations.into_iter().map(moved));
        self.with_lateness.extend(later.with_lateness);
        self.notes.extend(later.notes.into_iter().map(|note| Note { at_s: offset_s + note.at_s, ..note }));
        if let (Some(usage), Some(later)) = (&mut self.link_usage, &later.link_usage) {
            usage.append(later, offset_s);
        }
    }
}

/// An iteration: from the barrier before it to the last rank's end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IterationTime {
    /// Seconds from the start of the run to the barrier.
    pub begin_s: f64,
    /// Seconds.
    pub length_s: f64,
}

/// Something that happened at one moment and concerns no rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Seconds from the start of the run.
    pub at_s: f64,
    /// Few different words: `dispatch: native`.
    pub name: String,
    /// Everything else, as the text of a JSON object.
    pub args: String,
}
