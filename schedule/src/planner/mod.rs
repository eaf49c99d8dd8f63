//! Planners: a job becomes a plan. Each protocol of a collective is one file here.

mod native;
mod size_first;
mod static_first;
mod transfers;

use std::sync::Arc;

use ndarray::Array2;
use zipwire_codec::{CHUNK_ALIGN, Codec, DType, Layout, Spec};

use crate::builder::ProgramBuilder;
use crate::plan::{Batch, Block, Compute, Content, Exchange, OpKind, Plan, Region, Transfer};
use crate::{BufferId, Job, Order, Protocol, Rank, SegmentId, Slot, Stage, Window, Work};

/// How the collectives of a job travel.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The protocol of every All-to-All.
    pub protocol: Protocol,
    /// The order of transfers within an exchange.
    pub order: Order,
    /// Open sends, and open receives, per rank; `None` means all peers at once. [`Order::ShiftedRounds`] does not ask.
    pub window: Option<u32>,
    /// The codec; coded protocols need one.
    pub codec: Option<Spec>,
}

/// Plans a job. The plan is valid by construction; `Plan::validate` proves it.
///
/// # Panics
/// If a coded protocol is chosen without a codec that supports the job's values: resolve scenarios first.
pub fn plan(job: &Job, choice: &Choice) -> Plan {
    let coded = choice.protocol.is_coded();
    let codec = coded.then(|| choice.codec.as_ref().expect("coded protocols have a codec").codec());
    let programs = (0..job.rank_count)
        .map(|rank| {
            let mut builder = ProgramBuilder::new(Rank(rank));
            let slots: Vec<BufferId> = job.slots.iter().map(|name| builder.buffer(name)).collect();
            reserve_slots(&mut builder, &slots, job);
            let frames = codec.as_ref().map(|_| Frames {
                outgoing: builder.buffer("frames-out"),
                incoming: builder.buffer("frames-in"),
            });
            for (index, segment) in job.segments.iter().enumerate() {
                builder.begin(SegmentId(u32::try_from(index).expect("segments are few")));
                match &segment.work {
                    Work::Compute { reads, writes } => {
                        compute(&mut builder, segment.name, &slots, reads, writes);
                    }
                    Work::Transfers { flows, pace, input, output } => {
                        let (input, output) = (slots[input.index()], slots[output.index()]);
                        transfers::build(&mut builder, flows, *pace, input, output);
                    }
                    Work::AllToAll { dtype, bytes, input, output } => {
                        let call = Call::new(
                            &builder,
                            choice,
                            *dtype,
                            bytes,
                            slots[input.index()],
                            slots[output.index()],
                        );
                        match (choice.protocol, codec.as_deref(), frames) {
                            (Protocol::SizeFirst, Some(codec), Some(frames)) => {
                                size_first::build(&mut builder, &call, codec, frames);
                            }
                            (Protocol::StaticFirst, Some(codec), Some(frames)) => {
                                static_first::build(&mut builder, &call, codec, frames);
                            }
                            (Protocol::Native, ..) | (_, None, _) | (_, _, None) => {
                                native::build(&mut builder, &call);
                            }
                        }
                    }
                }
            }
            Arc::new(builder.finish())
        })
        .collect();
    Plan {
        job: job.name,
        protocol: choice.protocol,
        codec: choice.codec.clone().filter(|_| coded),
        segments: job.segments.iter().map(|segment| segment.name).collect(),
        programs,
    }
}

/// One All-to-All as one rank sees it.
struct Call {
    dtype: DType,
    order: Order,
    window: Window,
    /// Chunks to send, in order; empty ones are left out, at both ends.
    sends: Vec<Chunk>,
    /// Chunks to receive, in order.
    receives: Vec<Chunk>,
}

/// The values that go to or come from one peer.
#[derive(Clone, Copy)]
struct Chunk {
    peer: Rank,
    values: Region,
}

/// Buffers of a rank for frames, shared by all its collectives.
#[derive(Clone, Copy)]
struct Frames {
    outgoing: BufferId,
    incoming: BufferId,
}

impl Call {
    fn new(
        builder: &ProgramBuilder,
        choice: &Choice,
        dtype: DType,
        bytes: &Array2<u64>,
        input: BufferId,
        output: BufferId,
    ) -> Self {
        let rank = builder.rank();
        let rank_count = u32::try_from(bytes.nrows()).expect("ranks are counted in 32 bits");
        let chunks = |buffer, len: &dyn Fn(Rank) -> u64, peers: Vec<Rank>| {
            let regions = place(rank, rank_count, buffer, len).0;
            let chunk = |peer: Rank| Chunk { peer, values: regions[peer.index()] };
            peers.into_iter().map(chunk).filter(|chunk| chunk.values.len > 0).collect()
        };
        let order = choice.order;
        let sent = |peer: Rank| bytes[[rank.index(), peer.index()]];
        let received = |peer: Rank| bytes[[peer.index(), rank.index()]];
        Self {
            dtype,
            order,
            window: order.window(choice.window, rank_count),
            sends: chunks(input, &sent, order.sends(rank, rank_count, sent)),
            receives: chunks(output, &received, order.receives(rank, rank_count, received)),
        }
    }

    /// An exchange over all chunks of the call; `send` and `receive` say what moves for the n-th of them.
    fn exchange(
        &self,
        stage: Stage,
        send: impl Fn(usize) -> Content,
        receive: impl Fn(usize) -> Content,
    ) -> OpKind {
        let transfers = |chunks: &[Chunk], content: &dyn Fn(usize) -> Content| {
            let transfer = |(index, chunk): (usize, &Chunk)| Transfer {
                peer: chunk.peer,
                tag: 0,
                content: content(index),
                not_before_s: 0.0,
            };
            chunks.iter().enumerate().map(transfer).collect()
        };
        OpKind::Exchange(Exchange {
            stage,
            order: self.order,
            window: self.window,
            sends: transfers(&self.sends, &send),
            receives: transfers(&self.receives, &receive),
        })
    }

    /// The blocks to encode and those to decode, with a frame of their own each.
    fn batches(
        &self,
        builder: &mut ProgramBuilder,
        codec: &dyn Codec,
        layout: Layout,
        frames: Frames,
    ) -> (Batch, Batch) {
        let mut batch = |chunks: &[Chunk], buffer| {
            let mut end = 0;
            let blocks = chunks
                .iter()
                .map(|chunk| {
                    let block = place_frame(builder, codec, layout, self.dtype, chunk, buffer, end);
                    end = block.dynamic_section.end();
                    block
                })
                .collect();
            builder.reserve(buffer, end);
            Batch { layout, dtype: self.dtype, blocks }
        };
        (batch(&self.sends, frames.outgoing), batch(&self.receives, frames.incoming))
    }
}

/// Places the frame of a chunk behind `end`: the static section at a multiple of [`CHUNK_ALIGN`], the dynamic
/// section at the next one.
fn place_frame(
    builder: &mut ProgramBuilder,
    codec: &dyn Codec,
    layout: Layout,
    dtype: DType,
    chunk: &Chunk,
    buffer: BufferId,
    end: u64,
) -> Block {
    let count = usize::try_from(chunk.values.len).expect("chunks fit into memory") / dtype.width();
    let static_len = codec.static_len(layout, dtype, count) as u64;
    let dynamic_len = codec.bound(layout, dtype, count) as u64 - static_len;
    let static_section = Region { buffer, offset: align(end), len: static_len };
    let dynamic_section = Region { buffer, offset: align(static_section.end()), len: dynamic_len };
    Block { peer: chunk.peer, values: chunk.values, static_section, dynamic_section, size: builder.size() }
}

/// Regions of a rank's chunks in a buffer, by peer, and the bytes that they take. The rank's own chunk is
/// empty: it aliases the input of the segment and is never moved.
fn place(rank: Rank, rank_count: u32, buffer: BufferId, len: &dyn Fn(Rank) -> u64) -> (Vec<Region>, u64) {
    let mut end = 0;
    let regions = (0..rank_count)
        .map(Rank)
        .map(|peer| {
            let len = if peer == rank { 0 } else { len(peer) };
            let region = Region { buffer, offset: align(end), len };
            end = region.end();
            region
        })
        .collect();
    (regions, end)
}

fn align(offset: u64) -> u64 {
    offset.next_multiple_of(CHUNK_ALIGN as u64)
}

/// Gives every slot the capacity of the largest segment that uses it.
fn reserve_slots(builder: &mut ProgramBuilder, slots: &[BufferId], job: &Job) {
    let rank = builder.rank();
    for segment in &job.segments {
        match &segment.work {
            Work::Compute { .. } => {}
            Work::AllToAll { bytes, input, output, .. } => {
                let sent = |peer: Rank| bytes[[rank.index(), peer.index()]];
                let received = |peer: Rank| bytes[[peer.index(), rank.index()]];
                for (slot, len) in [(input, &sent as &dyn Fn(Rank) -> u64), (output, &received)] {
                    let buffer = slots[slot.index()];
                    builder.reserve(buffer, place(rank, job.rank_count, buffer, len).1);
                }
            }
            Work::Transfers { flows, input, output, .. } => {
                let (sent, received) = transfers::capacities(flows, rank);
                builder.reserve(slots[input.index()], sent);
                builder.reserve(slots[output.index()], received);
            }
        }
    }
}

fn compute(
    builder: &mut ProgramBuilder,
    name: &'static str,
    slots: &[BufferId],
    reads: &[Slot],
    writes: &[Slot],
) {
    let regions = |builder: &ProgramBuilder, list: &[Slot]| -> Vec<Region> {
        list.iter().map(|slot| builder.whole(slots[slot.index()])).collect()
    };
    let (reads, writes) = (regions(builder, reads), regions(builder, writes));
    builder.push(OpKind::Compute(Compute { name, reads, writes }));
}
