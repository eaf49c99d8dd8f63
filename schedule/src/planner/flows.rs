//! Explicit flows, in the order and at the times that the job lists: raw transfers, or coded calls.
//!
//! A coded flow is a call of two ranks, on a channel of its own. So any number of them is open at a time, and a flow waits for nothing but
//! its time, before which it is not encoded, and the pace of its ranks, at which exchanges are opened.

use zipwire_cluster::Group;
use zipwire_codec::DType;

use super::Choice;
use super::call::{Buffers, Call, Hop, Piece, Step, align};
use crate::builder::ProgramBuilder;
use crate::plan::{Chunk, Content, Exchange, OpKind, Region, Transfer};
use crate::{BufferId, Channel, Flow, FlowChannel, Order, Pace, Rank, Stage, Window};

/// The flows that each rank sends and receives, in the order of the list. Empty flows are left out.
#[derive(Default)]
pub(super) struct FlowsByRank<'a> {
    sent: Vec<Vec<(u32, &'a Flow)>>,
    received: Vec<Vec<(u32, &'a Flow)>>,
    count: u32,
    /// Flows of the segments before.
    pub(super) first: u32,
}

#[derive(Clone, Copy)]
pub(super) struct FlowEnd {
    pub(super) peer: Rank,
    pub(super) chunk: Chunk,
    /// Region that is sent, or into which the flow arrives.
    pub(super) values: Region,
    pub(super) not_before_s: f64,
}

impl<'a> FlowsByRank<'a> {
    /// `first` is the number of the flows of the segments before.
    pub(super) fn new(flows: &'a [Flow], rank_count: u32, first: u32) -> Self {
        let mut all = Self {
            sent: vec![Vec::new(); rank_count as usize],
            received: vec![Vec::new(); rank_count as usize],
            count: u32::try_from(flows.len()).expect("flows are counted in 32 bits"),
            first,
        };
        for (number, flow) in (0..).zip(flows).filter(|(_, flow)| flow.bytes > 0) {
            all.sent[flow.src.index()].push((number, flow));
            all.received[flow.dst.index()].push((number, flow));
        }
        all
    }

    /// A flow that is none of a list, with the number of its channel.
    pub(super) fn one(first: u32) -> Self {
        Self { count: 1, first, ..Self::default() }
    }

    /// Bytes of the chunks that a rank sends and receives.
    pub(super) fn capacities(&self, rank: Rank) -> (u64, u64) {
        let end = |flows: &[(u32, &Flow)]| flows.iter().fold(0, |end, (_, flow)| align(end) + flow.bytes);
        (end(&self.sent[rank.index()]), end(&self.received[rank.index()]))
    }

    /// Flows that a rank sends, in issue order.
    pub(super) fn sends(&self, rank: Rank, input: BufferId) -> Vec<FlowEnd> {
        ends(&self.sent[rank.index()], input, |flow| flow.dst)
    }

    /// Flows that a rank receives, in issue order.
    pub(super) fn receives(&self, rank: Rank, output: BufferId) -> Vec<FlowEnd> {
        ends(&self.received[rank.index()], output, |flow| flow.src)
    }

    /// The number behind that of the last flow.
    pub(super) fn end(&self) -> u32 {
        self.first + self.count
    }
}

pub(super) fn build_raw(
    builder: &mut ProgramBuilder,
    flows: &FlowsByRank<'_>,
    pace: Pace,
    input: BufferId,
    output: BufferId,
) {
    let rank = builder.rank();
    let transfers = |ends: Vec<FlowEnd>| ends.into_iter().map(FlowEnd::raw).collect::<Vec<_>>();
    let mut sends = transfers(flows.sends(rank, input));
    let mut receives = transfers(flows.receives(rank, output));
    let all = flows.count.max(1);
    let mut push = |window, sends, receives| {
        let (channel, stage, order) = (Channel::Main, Stage::Raw, Order::Rotation);
        let exchange = Exchange {
            channel,
            joins_previous: false,
            fused: false,
            grouped: None,
            stage,
            order,
            window,
            sends,
            receives,
        };
        builder.push(OpKind::Exchange(exchange));
    };
    match pace {
        Pace::Burst => {
            // A window is taken in listed order, so a late flow must not stand before an early one.
            sends.sort_by(|a, b| a.not_before_s.total_cmp(&b.not_before_s));
            receives.sort_by(|a, b| a.not_before_s.total_cmp(&b.not_before_s));
            push(Window::both(all), sends, receives);
        }
        Pace::Chain => {
            // Sends keep their order; receives wait for nobody, so none may stand before one that starts earlier.
            receives.sort_by(|a, b| a.not_before_s.total_cmp(&b.not_before_s));
            push(Window { sends: 1, receives: all }, sends, receives);
        }
        Pace::SendReceive => {
            let (mut sends, mut receives) = (sends.into_iter(), receives.into_iter());
            loop {
                let step = (Vec::from_iter(sends.next()), Vec::from_iter(receives.next()));
                if step.0.is_empty() && step.1.is_empty() {
                    break;
                }
                push(Window::both(1), step.0, step.1);
            }
        }
    }
}

/// The flows of one rank in one direction, in issue order; `peer` names their other ends.
fn ends(flows: &[(u32, &Flow)], buffer: BufferId, peer: impl Fn(&Flow) -> Rank) -> Vec<FlowEnd> {
    let mut end = 0;
    let of_flow = |&(number, flow): &(u32, &Flow)| {
        let values = Region { buffer, offset: align(end), len: flow.bytes };
        end = values.end();
        let chunk = Chunk { flow: number, ..Chunk::between(flow.src, flow.dst) };
        FlowEnd { peer: peer(flow), chunk, values, not_before_s: flow.not_before_s }
    };
    flows.iter().map(of_flow).collect()
}

impl FlowEnd {
    fn raw(self) -> Transfer {
        let Self { peer, chunk, values, not_before_s } = self;
        Transfer { not_before_s, ..Transfer::new(peer, chunk, Content::Values(values)) }
    }
}

/// The call of a rank that sends, or gets, what its group of two moves.
pub(super) fn send(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    (number, bytes, from): (u32, u64, Rank),
    dtype: DType,
    Buffers { input, output }: Buffers,
) -> Call {
    let rank = builder.rank();
    let to = Rank(1 - from.0);
    let (buffer, peer) = if rank == from { (input, to) } else { (output, from) };
    builder.reserve(buffer, bytes);
    let values = Region { buffer, offset: 0, len: bytes };
    let pieces = if bytes > 0 { vec![Piece::new(Chunk::between(from, to), values)] } else { Vec::new() };
    let hop = (bytes > 0).then_some(Hop { peer, piece: 0 });
    let step = if rank == from { Step::single(hop, None) } else { Step::single(None, hop) };
    let channel = Channel::Flow(FlowChannel { number, step: None });
    let grouped = choice.grouped.then(|| Group::all(2));
    Call { channel, grouped, ..Call::at_once(dtype, pieces, step) }
}

/// The calls of a rank in the order of its program: those between two ranks are in the same order at both.
pub(super) fn coded_calls(
    flows: &FlowsByRank<'_>,
    pace: Pace,
    dtype: DType,
    rank: Rank,
    Buffers { input, output }: Buffers,
) -> Vec<Call> {
    // Numbers of steps go on where those of the segment before end, so that no two segments have the same step.
    let sends = (flows.first..).zip(flows.sends(rank, input)).map(|(turn, end)| {
        let step = (pace != Pace::Burst).then_some(turn);
        coded_call(flows, dtype, rank, end, step)
    });
    let receives = (flows.first..).zip(flows.receives(rank, output)).map(|(turn, end)| {
        let step = (pace == Pace::SendReceive).then_some(turn);
        coded_call(flows, dtype, rank, end, step)
    });
    let mut calls: Vec<(FlowChannel, Call)> = sends.chain(receives).collect();
    // Of what it could do next, a codec does what comes first in the program.
    calls.sort_by(|(a, one), (b, other)| match pace {
        Pace::Burst => one.not_before_s.total_cmp(&other.not_before_s).then(a.number.cmp(&b.number)),
        Pace::Chain => a.number.cmp(&b.number),
        Pace::SendReceive => a.step.cmp(&b.step),
    });
    calls.into_iter().map(|(_, call)| call).collect()
}

fn coded_call(
    flows: &FlowsByRank<'_>,
    dtype: DType,
    rank: Rank,
    end: FlowEnd,
    step: Option<u32>,
) -> (FlowChannel, Call) {
    let FlowEnd { peer, chunk, values, not_before_s } = end;
    let hop = Some(Hop { peer, piece: 0 });
    let single = if chunk.origin == rank { Step::single(hop, None) } else { Step::single(None, hop) };
    let flow = FlowChannel { number: flows.first + chunk.flow, step };
    let call = Call::at_once(dtype, vec![Piece::new(chunk, values)], single);
    (flow, Call { channel: Channel::Flow(flow), not_before_s, ..call })
}
