//! Lengths of the frames that a simulated encode yields: from the real codec on the real payload, measured
//! once, or from a given ratio. Sizes, never times: the simulator measures no clock.

use std::collections::HashMap;

use rayon::prelude::*;
use zipwire_codec::{Codec, DType, Layout, Spec};
use zipwire_schedule::SegmentId;
use zipwire_schedule::plan::{Block, Chunk, Leg, OpKind, Plan};
use zipwire_traces::{ChunkId, Payload};

use crate::size_cache::{Digest, SizeCache};

/// Where the dynamic length of a frame comes from.
#[derive(Debug)]
pub enum FrameSizes<'a> {
    /// The codec encoded the payload.
    Measured(&'a SizeTable),
    /// Raw bytes over coded bytes, the same for every chunk.
    Ratio(f64),
    /// The plan has no codec.
    None,
}

impl FrameSizes<'_> {
    /// Dynamic bytes of the frame of a block.
    pub fn dynamic_len(&self, segment: SegmentId, layout: Layout, block: &Block) -> u64 {
        match self {
            Self::Measured(table) => table.get(segment, layout, block),
            Self::Ratio(ratio) => {
                let coded = (block.values.len as f64 / ratio).ceil() as u64;
                coded.saturating_sub(block.known_len()).min(block.dynamic_section.len)
            }
            Self::None => unreachable!("plans without a codec encode nothing"),
        }
    }
}

/// Dynamic lengths of the frames of one segment in one layout, by chunk and its raw bytes: variants may cut what ranks have
/// for each other in different ways.
pub(crate) type Lens = HashMap<(Chunk, u64), u64>;

/// Measured dynamic lengths of one codec over one payload; shared by the variants of a scenario.
#[derive(Debug, Default)]
pub struct SizeTable {
    lens: HashMap<(SegmentId, Layout), Lens>,
}

/// The codec refused a chunk of the payload.
#[derive(Debug, thiserror::Error)]
#[error(
    "codec `{codec}` cannot encode the chunk from rank {} to {} of segment {segment}: {source}",
    .chunk.origin, .chunk.destination.map_or("all".to_owned(), |rank| format!("rank {rank}"))
)]
pub struct SizeError {
    codec: String,
    segment: u32,
    chunk: Chunk,
    source: zipwire_codec::EncodeError,
}

/// The chunks that one rank encodes in one op.
struct Task<'a> {
    segment: SegmentId,
    layout: Layout,
    dtype: DType,
    blocks: &'a [Block],
}

impl SizeTable {
    /// Looks up in `cache`, or encodes, every chunk of `plan` that the table does not hold yet, on all cores. The result does
    /// not depend on their number. `proceed` is asked between chunks; `false` ends the search, and what was found stays.
    pub fn measure(
        &mut self,
        plan: &Plan,
        spec: &Spec,
        payload: &Payload,
        cache: &SizeCache,
        proceed: impl Fn() -> bool + Sync,
    ) -> Result<bool, SizeError> {
        for (key, tasks) in calls(plan) {
            let known = self.lens.entry(key).or_default();
            let mut blocks = tasks.iter().flat_map(|task| task.blocks);
            if blocks.all(|block| known.contains_key(&key_of(block))) {
                continue;
            }
            let measured = cache.get(digest(key, &tasks, spec, payload), || {
                let _span = tracing::info_span!("measure frame sizes").entered();
                measure_all(&tasks, spec, payload, &proceed)
            })?;
            let Some(lens) = measured else { return Ok(false) };
            self.lens.entry(key).or_default().extend(lens.iter().map(|(&key, &len)| (key, len)));
        }
        Ok(true)
    }

    fn get(&self, segment: SegmentId, layout: Layout, block: &Block) -> u64 {
        self.lens[&(segment, layout)][&key_of(block)]
    }
}

fn key_of(block: &Block) -> (Chunk, u64) {
    (block.chunk, block.values.len)
}

fn tasks(plan: &Plan) -> impl Iterator<Item = Task<'_>> {
    plan.programs.iter().flat_map(|program| {
        program.ops.iter().filter_map(|op| match &op.kind {
            OpKind::Encode(batch) => Some(Task {
                segment: op.segment,
                layout: batch.layout,
                dtype: batch.dtype,
                blocks: &batch.blocks,
            }),
            OpKind::Compute(_)
            | OpKind::Split(_)
            | OpKind::Decode(_)
            | OpKind::Exchange(_)
            | OpKind::Reduce(_)
            | OpKind::Library(_)
            | OpKind::Copy(_) => None,
        })
    })
}

/// What all ranks encode, by segment and layout, in the plan's order.
fn calls(plan: &Plan) -> Vec<((SegmentId, Layout), Vec<Task<'_>>)> {
    let mut calls: Vec<((SegmentId, Layout), Vec<Task<'_>>)> = Vec::new();
    for task in tasks(plan) {
        let key = (task.segment, task.layout);
        match calls.iter_mut().find(|(other, _)| *other == key) {
            Some((_, tasks)) => tasks.push(task),
            None => calls.push((key, vec![task])),
        }
    }
    calls
}

/// Of everything that lengths depend on: the codec, the layout, and the values of every chunk.
fn digest(key: (SegmentId, Layout), tasks: &[Task<'_>], spec: &Spec, payload: &Payload) -> u128 {
    let (segment, layout) = key;
    let mut digest = Digest::new(&format!("{spec} {}", layout.name()), payload.digest(segment));
    for task in tasks {
        for Block { chunk, values, .. } in task.blocks {
            let destination = chunk.destination.map_or(u64::MAX, |rank| u64::from(rank.0));
            let (origin, flow) = (u64::from(chunk.origin.0), u64::from(chunk.flow));
            // What gateways hand on is the same as what goes straight.
            let ranks_per_node = match chunk.leg {
                Leg::Direct | Leg::FromGateway => 0,
                Leg::ToGateway { ranks_per_node } => u64::from(ranks_per_node),
            };
            let numbers = [origin, destination, flow, ranks_per_node, chunk.offset, values.len];
            digest.add(task.dtype.name(), numbers);
            if let Some(sum) = chunk.sum {
                digest.add(&sum.to_string(), numbers);
            }
        }
    }
    digest.finish()
}

/// Dynamic lengths of all tasks; `None` when they were told to stop.
fn measure_all(
    tasks: &[Task<'_>],
    spec: &Spec,
    payload: &Payload,
    proceed: &(impl Fn() -> bool + Sync),
) -> Result<Option<Lens>, SizeError> {
    let codec = spec.codec();
    let measured = tasks.par_iter().map(|task| measure(task, codec.as_ref(), spec, payload, proceed));
    let measured: Vec<Option<Vec<u64>>> = measured.collect::<Result<_, SizeError>>()?;
    let Some(measured) = measured.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    let of_task = |(task, lens): (&Task<'_>, Vec<u64>)| {
        let chunks = task.blocks.iter().map(key_of);
        chunks.zip(lens).collect::<Vec<_>>()
    };
    Ok(Some(tasks.iter().zip(measured).flat_map(of_task).collect()))
}

/// Dynamic lengths of a task's blocks; `None` when it was told to stop.
fn measure(
    task: &Task<'_>,
    codec: &dyn Codec,
    spec: &Spec,
    payload: &Payload,
    proceed: &impl Fn() -> bool,
) -> Result<Option<Vec<u64>>, SizeError> {
    let rank = task.blocks.first().map(|block| block.chunk.origin.0);
    let _span = tracing::info_span!("measure frames of a rank", rank).entered();
    let (mut values, mut fixed, mut dynamic) = (Vec::new(), Vec::new(), Vec::new());
    let mut lens = Vec::with_capacity(task.blocks.len());
    for block in task.blocks {
        if !proceed() {
            return Ok(None);
        }
        values.resize(bytes(block.values.len), 0);
        fixed.resize(bytes(block.known_len()), 0);
        dynamic.resize(bytes(block.dynamic_section.len), 0);
        payload.fill(ChunkId { segment: task.segment, chunk: block.chunk }, &mut values);
        let len =
            codec.encode(task.layout, task.dtype, &values, &mut fixed, &mut dynamic).map_err(|source| {
                SizeError { codec: spec.to_string(), segment: task.segment.0, chunk: block.chunk, source }
            })?;
        lens.push(len as u64);
    }
    Ok(Some(lens))
}

fn bytes(len: u64) -> usize {
    usize::try_from(len).expect("chunks fit into memory")
}
