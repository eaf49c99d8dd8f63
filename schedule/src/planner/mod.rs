//! Planners: a job becomes a plan. A collective is a file here that says which pieces a rank has or gets, and the steps
//! in which they move; a protocol is a file that says in which stages.

mod all_gather;
mod all_to_all;
mod broadcast;
mod call;
mod frames;
mod native;
mod size_first;
mod static_first;
mod transfers;

use std::sync::Arc;

use zipwire_codec::{Codec, Layout, Spec};

use self::call::{Call, Ends};
use self::frames::{FrameBuffers, Frames};
use crate::builder::ProgramBuilder;
use crate::plan::{Compute, OpKind, Plan, Program, Region};
use crate::{BufferId, Form, Job, Order, Protocol, Rank, SegmentId, Slot, Work};

/// How the collectives of a job travel.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The protocol of every collective.
    pub protocol: Protocol,
    /// The form of every collective that has several; `None` is the default of each.
    pub form: Option<Form>,
    /// Layout of the frames; `None` is that of the protocol. [`Protocol::StaticFirst`] needs the split one.
    pub layout: Option<Layout>,
    /// The order of transfers within an exchange; forms that order their transfers themselves do not ask.
    pub order: Order,
    /// Open sends, and open receives, per rank; `None` means all peers at once. Asked where [`Self::order`] is, but not
    /// by [`Order::ShiftedRounds`].
    pub window: Option<u32>,
    /// The codec; coded protocols need one.
    pub codec: Option<Spec>,
}

impl Choice {
    /// Layout of the frames; `None` without frames.
    pub fn layout(&self) -> Option<Layout> {
        self.protocol.layout().map(|of_protocol| self.layout.unwrap_or(of_protocol))
    }
}

/// Plans a job. The plan is valid by construction; `Plan::validate` proves it.
///
/// # Panics
/// If a coded protocol is chosen without a codec that supports the job's values, or a form that a collective of the job
/// does not have ([`Work::forms`]; [`Form::Padded`] only with a coded protocol): resolve scenarios first.
pub fn plan(job: &Job, choice: &Choice) -> Plan {
    let coded = choice.protocol.is_coded();
    let codec = coded.then(|| choice.codec.as_ref().expect("coded protocols have a codec").codec());
    let program = |rank| Arc::new(program(job, choice, codec.as_deref(), Rank(rank)));
    Plan {
        job: job.name,
        protocol: choice.protocol,
        codec: choice.codec.clone().filter(|_| coded),
        segments: job.segments.iter().map(|segment| segment.name).collect(),
        programs: (0..job.rank_count).map(program).collect(),
    }
}

fn program(job: &Job, choice: &Choice, codec: Option<&dyn Codec>, rank: Rank) -> Program {
    let mut builder = ProgramBuilder::new(rank);
    let slots: Vec<BufferId> = job.slots.iter().map(|name| builder.buffer(name)).collect();
    let buffers = codec.map(|_| FrameBuffers {
        outgoing: builder.buffer("frames-out"),
        incoming: builder.buffer("frames-in"),
    });
    // All memory is laid out before the first op, because compute phases claim whole buffers.
    let calls: Vec<Option<(Call, Option<Frames>)>> = job
        .segments
        .iter()
        .map(|segment| {
            let call = lay_out(&mut builder, job, choice, &segment.work, &slots)?;
            let coding = choice.layout().zip(codec).zip(buffers);
            let frames = coding
                .map(|((layout, codec), buffers)| Frames::place(&mut builder, &call, codec, layout, buffers));
            Some((call, frames))
        })
        .collect();
    for ((segment, call), id) in job.segments.iter().zip(calls).zip(0..) {
        builder.begin(SegmentId(id));
        if let Some((call, frames)) = call {
            match (choice.protocol, frames) {
                (Protocol::SizeFirst, Some(frames)) => size_first::build(&mut builder, &call, frames),
                (Protocol::StaticFirst, Some(frames)) => static_first::build(&mut builder, &call, frames),
                (Protocol::Native, _) | (_, None) => native::build(&mut builder, &call),
            }
            continue;
        }
        match &segment.work {
            Work::Compute { reads, writes } => {
                compute(&mut builder, segment.name, &slots, (reads, writes), buffers);
            }
            Work::Transfers { flows, pace, input, output } => {
                transfers::build(&mut builder, flows, *pace, slots[input.index()], slots[output.index()]);
            }
            Work::AllToAll { .. } | Work::AllGather { .. } | Work::Broadcast { .. } => {
                unreachable!("every collective is a call")
            }
        }
    }
    builder.finish()
}

/// Reserves the slots that a segment uses. The call, if it is a collective.
fn lay_out(
    builder: &mut ProgramBuilder,
    job: &Job,
    choice: &Choice,
    work: &Work,
    slots: &[BufferId],
) -> Option<Call> {
    let ends =
        |input: &Slot, output: &Slot| Ends { input: slots[input.index()], output: slots[output.index()] };
    match work {
        Work::Compute { .. } => None,
        Work::Transfers { flows, input, output, .. } => {
            let Ends { input, output } = ends(input, output);
            let (sent, received) = transfers::capacities(flows, builder.rank());
            builder.reserve(input, sent);
            builder.reserve(output, received);
            None
        }
        Work::AllToAll { dtype, bytes, input, output } => {
            Some(all_to_all::call(builder, choice, *dtype, bytes, ends(input, output)))
        }
        Work::AllGather { dtype, bytes, input, output } => {
            Some(all_gather::call(builder, choice, *dtype, bytes, ends(input, output)))
        }
        Work::Broadcast { dtype, bytes, root, input, output } => {
            let ends = ends(input, output);
            Some(broadcast::call(builder, choice, job.rank_count, *dtype, *bytes, *root, ends))
        }
    }
}

/// A phase that claims every slot is one that nothing overlaps: it claims the frames, too. Otherwise a rank that is late
/// would receive and hand on frames, and only not decode them.
fn compute(
    builder: &mut ProgramBuilder,
    name: &'static str,
    slots: &[BufferId],
    (reads, writes): (&[Slot], &[Slot]),
    frames: Option<FrameBuffers>,
) {
    let whole = |builder: &ProgramBuilder, list: &[Slot]| -> Vec<Region> {
        list.iter().map(|slot| builder.whole(slots[slot.index()])).collect()
    };
    let (reads, mut regions) = (whole(builder, reads), whole(builder, writes));
    let claims_all = (0..slots.len()).all(|slot| writes.iter().any(|write| write.index() == slot));
    if let (true, Some(FrameBuffers { outgoing, incoming })) = (claims_all, frames) {
        regions.extend([outgoing, incoming].map(|buffer| builder.whole(buffer)));
    }
    builder.push(OpKind::Compute(Compute { name, reads, writes: regions }));
}
