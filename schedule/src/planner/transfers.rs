//! Explicit flows: raw transfers in the order and at the times that the job lists.

use super::call::align;
use crate::builder::ProgramBuilder;
use crate::plan::{Chunk, Content, Exchange, OpKind, Region, Transfer};
use crate::{BufferId, Channel, Flow, Order, Pace, Rank, Stage, Window};

/// Bytes of the chunks that a rank sends and receives.
pub(super) fn capacities(flows: &[Flow], rank: Rank) -> (u64, u64) {
    let end = |chunks: Vec<Transfer>| chunks.last().and_then(|t| t.content.region()).map_or(0, |r| r.end());
    let any = BufferId(0);
    (
        end(ends(flows, any, |flow| (flow.src == rank).then_some(flow.dst))),
        end(ends(flows, any, |flow| (flow.dst == rank).then_some(flow.src))),
    )
}

pub(super) fn build(
    builder: &mut ProgramBuilder,
    flows: &[Flow],
    pace: Pace,
    input: BufferId,
    output: BufferId,
) {
    let rank = builder.rank();
    let mut sends = ends(flows, input, |flow| (flow.src == rank).then_some(flow.dst));
    let mut receives = ends(flows, output, |flow| (flow.dst == rank).then_some(flow.src));
    let all = u32::try_from(flows.len()).expect("flows are counted in 32 bits").max(1);
    let mut push = |window, sends, receives| {
        let (channel, stage, order) = (Channel::Main, Stage::Raw, Order::Rotation);
        let exchange =
            Exchange { channel, joins_previous: false, fused: false, stage, order, window, sends, receives };
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

/// The transfers of one rank in one direction, in issue order; `peer` names the other end of those flows that
/// concern it. Empty flows are left out.
fn ends(flows: &[Flow], buffer: BufferId, peer: impl Fn(&Flow) -> Option<Rank>) -> Vec<Transfer> {
    let mut end = 0;
    let concerned = flows.iter().zip(0..).filter(|(flow, _)| flow.bytes > 0);
    concerned
        .filter_map(|(flow, number)| {
            let region = Region { buffer, offset: align(end), len: flow.bytes };
            let peer = peer(flow)?;
            end = region.end();
            let chunk = Chunk { flow: number, ..Chunk::between(flow.src, flow.dst) };
            let transfer = Transfer::new(peer, chunk, Content::Values(region));
            Some(Transfer { not_before_s: flow.not_before_s, ..transfer })
        })
        .collect()
}
