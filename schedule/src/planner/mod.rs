//! Planners: a job becomes a plan. A collective is a file here that says which pieces a rank has or gets, and the steps
//! in which they move; a protocol is a file that says in which stages; a selection says which pieces are coded, and parts
//! how they are cut.

mod all_gather;
mod all_to_all;
mod broadcast;
mod call;
mod choice;
mod dedup;
mod frames;
mod in_band;
mod native;
mod overlap_sizes;
mod parts;
mod size_first;
mod speculative;
mod static_first;
mod transfers;

use std::sync::Arc;

use zipwire_codec::Codec;

pub use self::choice::{Choice, Selection};

use self::call::{Call, Ends};
use self::dedup::{Forward, GatewayBuffers};
use self::frames::{FrameBuffers, Frames};
use crate::builder::ProgramBuilder;
use crate::plan::{Batch, Compute, OpKind, Plan, Program, Region};
use crate::{BufferId, Job, Protocol, Rank, Segment, SegmentId, Slot, Work};

/// Plans a job, all of whose collectives travel alike. The plan is valid by construction; `Plan::validate` proves it.
///
/// # Panics
/// As [`plan_each`].
pub fn plan(job: &Job, choice: &Choice) -> Plan {
    plan_each(job, &vec![choice; job.segments.len()])
}

/// Plans a job whose segments travel each in its own way, those of `choices`, by segment; compute phases and explicit flows
/// ask for none.
///
/// # Panics
/// If there are not as many choices as segments, if they have different codecs, if a coded protocol is chosen without a
/// codec that supports the job's values, [`Protocol::Speculative`] without a slot, or a form that a collective of the job
/// does not have ([`Work::forms`]; [`Form::Padded`](crate::Form::Padded) only with a coded protocol), or if tokens are not
/// those that the bytes of a call count: resolve scenarios first.
pub fn plan_each(job: &Job, choices: &[&Choice]) -> Plan {
    assert_eq!(choices.len(), job.segments.len(), "every segment has a choice");
    let mut specs = job.segments.iter().zip(choices).filter_map(|(segment, choice)| {
        let coded = segment.work.is_collective() && choice.protocol.is_coded();
        coded.then(|| choice.codec.as_ref().expect("coded protocols have a codec"))
    });
    let spec = specs.next();
    assert!(specs.all(|other| Some(other) == spec), "all coded collectives of a plan have one codec");
    let codec = spec.map(zipwire_codec::Spec::codec);
    let lacks_slots = |(segment, choice): (&Segment, &&Choice)| {
        segment.work.is_collective() && choice.protocol == Protocol::Speculative && choice.slot.is_none()
    };
    assert!(!job.segments.iter().zip(choices).any(lacks_slots), "speculative collectives have slots");
    assert!(
        job.segments.iter().all(|segment| has_its_tokens(&segment.work)),
        "tokens have the bytes of chunks"
    );
    let program = |rank| Arc::new(program(job, choices, codec.as_deref(), Rank(rank)));
    let protocol =
        |(segment, choice): (&Segment, &&Choice)| segment.work.is_collective().then_some(choice.protocol);
    Plan {
        job: job.name,
        protocols: job.segments.iter().zip(choices).map(protocol).collect(),
        codec: spec.cloned(),
        segments: job.segments.iter().map(|segment| Arc::clone(&segment.name)).collect(),
        programs: (0..job.rank_count).map(program).collect(),
    }
}

/// Whether chunks have as many bytes as their tokens, where these are known.
fn has_its_tokens(work: &Work) -> bool {
    match work {
        Work::AllToAll { bytes, tokens: Some(tokens), .. } => {
            let counted = tokens.bytes();
            bytes.dim() == counted.dim()
                && bytes.indexed_iter().all(|((src, dst), &len)| src == dst || len == counted[[src, dst]])
        }
        Work::AllToAll { tokens: None, .. }
        | Work::AllGather { .. }
        | Work::Broadcast { .. }
        | Work::Compute { .. }
        | Work::Transfers { .. } => true,
    }
}

/// A collective call on one rank, laid out in memory.
struct Planned {
    call: Call,
    /// The parts in which it is coded; none if it is not.
    parts: Vec<(Call, Frames)>,
    /// What gateways do with each part; none if it has no gateways.
    forwards: Vec<Forward>,
}

/// Buffers of a rank that the model does not know, of one of the channels.
#[derive(Clone, Copy)]
struct Scratch {
    frames: Option<FrameBuffers>,
    gateway: Option<GatewayBuffers>,
}

impl Scratch {
    fn buffers(self) -> impl Iterator<Item = BufferId> {
        let frames = self.frames.map(|FrameBuffers { outgoing, incoming }| [outgoing, incoming]);
        let gateway = self.gateway.map(|GatewayBuffers { outgoing, incoming }| [outgoing, incoming]);
        [frames, gateway].into_iter().flatten().flatten()
    }
}

fn program(job: &Job, choices: &[&Choice], codec: Option<&dyn Codec>, rank: Rank) -> Program {
    let mut builder = ProgramBuilder::new(rank);
    let slots: Vec<BufferId> = job.slots.iter().map(|name| builder.buffer(name)).collect();
    let main = scratch(&mut builder, job, choices, false);
    let background = scratch(&mut builder, job, choices, true);
    // All memory is laid out before the first op, because compute phases claim whole buffers.
    let calls: Vec<Option<Planned>> = job
        .segments
        .iter()
        .zip(choices)
        .map(|(segment, choice)| {
            let scratch = if segment.channel.is_background() { background } else { main };
            let (mut call, forwards) = lay_out(&mut builder, job, choice, segment, &slots, scratch.gateway)?;
            call.channel = segment.channel;
            let coding = choice.layout().zip(codec).zip(scratch.frames);
            let parts = coding.map_or_else(Vec::new, |((layout, codec), buffers)| {
                call.select(rank, &choice.selection);
                Frames::place_parts(
                    &mut builder,
                    call.cut(choice.parts),
                    codec,
                    (layout, choice.slot),
                    buffers,
                )
            });
            Some(Planned { call, parts, forwards })
        })
        .collect();
    let exclusive = exclusive_slots(job);
    for (((segment, choice), planned), id) in job.segments.iter().zip(choices).zip(calls).zip(0..) {
        builder.begin(SegmentId(id));
        if let Some(planned) = planned {
            build(&mut builder, choice, planned);
            continue;
        }
        match &segment.work {
            Work::Compute { phase, reads, writes } => {
                compute(&mut builder, phase, &slots, (reads, writes), &exclusive, main);
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

/// Pushes the ops of one call. All parts are encoded before the first is waited for: while one travels, the next is coded.
/// Where there are gateways, they hand on one part while the next travels.
fn build(builder: &mut ProgramBuilder, choice: &Choice, planned: Planned) {
    let Planned { call, mut parts, forwards } = planned;
    let exchange = match choice.protocol {
        Protocol::Native if forwards.is_empty() => return native::build(builder, &call),
        Protocol::Native => {
            for ((part, forward), number) in call.cut(choice.parts).iter().zip(forwards).zip(0..) {
                builder.begin_part(number);
                native::build(builder, part);
                forward.build(builder);
            }
            return;
        }
        Protocol::SizeFirst => size_first::exchange,
        Protocol::StaticFirst => static_first::exchange,
        Protocol::OverlapSizes => overlap_sizes::exchange,
        Protocol::InBand => in_band::exchange,
        Protocol::Speculative => speculative::exchange,
    };
    native::build_uncoded(builder, &call);
    for (_, frames) in &mut parts {
        let blocks = std::mem::take(&mut frames.encode.blocks);
        builder.push(OpKind::Encode(Batch { blocks, ..frames.encode }));
    }
    let mut forwards = forwards.into_iter();
    for ((part, frames), number) in parts.into_iter().zip(0..) {
        builder.begin_part(number);
        exchange(builder, &part, &frames);
        builder.push(OpKind::Decode(frames.decode));
        if let Some(forward) = forwards.next() {
            forward.build(builder);
        }
    }
}

/// The buffers that the collectives of a channel need beside those of the model.
fn scratch(builder: &mut ProgramBuilder, job: &Job, choices: &[&Choice], background: bool) -> Scratch {
    let mut segments =
        job.segments.iter().zip(choices).filter(|(segment, _)| {
            segment.work.is_collective() && segment.channel.is_background() == background
        });
    let is_coded = segments.clone().any(|(_, choice)| choice.protocol.is_coded());
    let has_gateways = segments.any(|(segment, choice)| choice.dedup.and(segment.work.tokens()).is_some());
    let names = if background {
        ["background-frames-out", "background-frames-in", "background-gateway-out", "background-gateway-in"]
    } else {
        ["frames-out", "frames-in", "gateway-out", "gateway-in"]
    };
    let [frames_out, frames_in, gateway_out, gateway_in] = names;
    let frames = is_coded
        .then(|| FrameBuffers { outgoing: builder.buffer(frames_out), incoming: builder.buffer(frames_in) });
    let gateway = has_gateways.then(|| GatewayBuffers {
        outgoing: builder.buffer(gateway_out),
        incoming: builder.buffer(gateway_in),
    });
    Scratch { frames, gateway }
}

/// Reserves the slots that a segment uses. The call, if it is a collective, and what gateways do with each of its parts.
fn lay_out(
    builder: &mut ProgramBuilder,
    job: &Job,
    choice: &Choice,
    segment: &Segment,
    slots: &[BufferId],
    gateway: Option<GatewayBuffers>,
) -> Option<(Call, Vec<Forward>)> {
    let ends =
        |input: &Slot, output: &Slot| Ends { input: slots[input.index()], output: slots[output.index()] };
    let straight = |call: Call| Some((call, Vec::new()));
    match &segment.work {
        Work::Compute { .. } => None,
        Work::Transfers { flows, input, output, .. } => {
            let Ends { input, output } = ends(input, output);
            let (sent, received) = transfers::capacities(flows, builder.rank());
            builder.reserve(input, sent);
            builder.reserve(output, received);
            None
        }
        Work::AllToAll { dtype, bytes, tokens, input, output } => {
            let ends = ends(input, output);
            match choice.dedup.zip(tokens.as_deref()).zip(gateway) {
                Some(((ranks_per_node, tokens), buffers)) => {
                    let shape = (*dtype, segment.channel);
                    Some(dedup::call(builder, choice, shape, (tokens, bytes, ranks_per_node), ends, buffers))
                }
                None => straight(all_to_all::call(builder, choice, *dtype, bytes, ends)),
            }
        }
        Work::AllGather { dtype, bytes, input, output } => {
            straight(all_gather::call(builder, choice, *dtype, bytes, ends(input, output)))
        }
        Work::Broadcast { dtype, bytes, root, input, output } => {
            let ends = ends(input, output);
            straight(broadcast::call(builder, choice, job.rank_count, *dtype, *bytes, *root, ends))
        }
    }
}

/// The slots that a compute phase must claim to be one that no collective of the main channel overlaps: all but those that
/// only collectives of the background channel use.
fn exclusive_slots(job: &Job) -> Vec<bool> {
    let is_used = |slot: Slot, background: bool| {
        let mut segments = job.segments.iter().filter(|s| s.channel.is_background() == background);
        segments.any(|segment| segment.work.slots().is_some_and(|slots| slots.contains(&slot)))
    };
    let slots = (0..).map(Slot).take(job.slots.len());
    slots.map(|slot| is_used(slot, false) || !is_used(slot, true)).collect()
}

/// A phase that claims every slot of the main channel is one that no collective there overlaps: it claims the frames, too.
/// Otherwise a rank that is late would receive and hand on frames, and only not decode them.
fn compute(
    builder: &mut ProgramBuilder,
    name: &'static str,
    slots: &[BufferId],
    (reads, writes): (&[Slot], &[Slot]),
    exclusive: &[bool],
    scratch: Scratch,
) {
    let whole = |builder: &ProgramBuilder, list: &[Slot]| -> Vec<Region> {
        list.iter().map(|slot| builder.whole(slots[slot.index()])).collect()
    };
    let (reads, mut regions) = (whole(builder, reads), whole(builder, writes));
    let is_claimed = |slot: usize| writes.iter().any(|write| write.index() == slot);
    let is_exclusive = exclusive.iter().enumerate().all(|(slot, must)| !must || is_claimed(slot));
    if is_exclusive {
        regions.extend(scratch.buffers().map(|buffer| builder.whole(buffer)));
    }
    builder.push(OpKind::Compute(Compute { name, reads, writes: regions, is_exclusive }));
}
