//! Explicit flows that are coded: each is a call of two ranks, on a channel of its own. So any number of them is open at a time, and a flow
//! waits for nothing but what the job says: its time, before which it is not encoded, and the pace of its ranks, at which exchanges are opened.

use zipwire_codec::DType;

use super::call::{Buffers, Call, Hop, Piece, Step};
use super::transfers::{FlowEnd, FlowsByRank};
use crate::{Channel, FlowChannel, Pace, Rank};

/// The calls of a rank in the order of its program: those between two ranks are in the same order at both.
pub(super) fn calls(
    flows: &FlowsByRank<'_>,
    pace: Pace,
    dtype: DType,
    rank: Rank,
    Buffers { input, output }: Buffers,
) -> Vec<Call> {
    // Numbers of steps go on where those of the segment before end, so that no two segments have the same step.
    let sends = (flows.first..).zip(flows.sends(rank, input)).map(|(turn, end)| {
        let step = (pace != Pace::Burst).then_some(turn);
        call(flows, dtype, rank, end, step)
    });
    let receives = (flows.first..).zip(flows.receives(rank, output)).map(|(turn, end)| {
        let step = (pace == Pace::SendReceive).then_some(turn);
        call(flows, dtype, rank, end, step)
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

/// One end of a flow as a call of one piece.
fn call(
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
