//! Lengths of the frames that a simulated encode yields: from the real codec on the real payload, measured
//! once, or from a given ratio. Sizes, never times: the simulator measures no clock.

use std::collections::HashMap;

use rayon::prelude::*;
use zipwire_codec::{Base, DType, FrameShape, Layout, Spec, Table, TableUsage};
use zipwire_payload::{ChunkId, Payload};
use zipwire_schedule::SegmentId;
use zipwire_schedule::plan::{Batch, Block, Chunk, Leg, Plan, Program};

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

/// Why there are no lengths.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum SizeError {
    /// The codec refused a chunk of the payload.
    #[error(
        "codec `{codec}` cannot encode the chunk from rank {} to {} of segment {segment}: {source}",
        .chunk.origin, .chunk.destination.map_or("all".to_owned(), |rank| format!("rank {rank}"))
    )]
    Encode { codec: String, segment: u32, chunk: Chunk, source: zipwire_codec::EncodeError },
    /// The largest chunk and its frame are more than all memory that may be taken.
    #[error(
        "encoding the largest chunk of the payload takes {needed} bytes of memory, and {allowed} are left\n\
         help: state a `ratio` in `[codec]`, so that nothing is encoded, or allow more memory"
    )]
    Memory { needed: u64, allowed: u64 },
    /// The system refuses memory.
    #[error(
        "the system refuses {bytes} bytes of memory for a chunk of the payload\n\
         help: state a `ratio` in `[codec]`, so that nothing is encoded, or use smaller chunks"
    )]
    Allocation { bytes: u64 },
}

/// Memory that encoding may take.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes; `None` for any.
    pub bytes: Option<u64>,
    /// Simulations that share it, at least 1. Each takes its part, or one chunk at a time, which the caller that runs them together counts.
    pub sharers: u64,
}

struct Task<'a> {
    segment: SegmentId,
    layout: Layout,
    dtype: DType,
    blocks: &'a [Block],
}

impl SizeTable {
    /// Looks up in `cache`, or encodes, every chunk of `plan` that the table does not hold yet, on all cores, or on as many as fit
    /// into `room`. The result does not depend on their number. `proceed` is asked between chunks; `false` ends the
    /// search, and what was found stays.
    ///
    /// # Errors
    /// If the codec refuses a chunk, or if there is no memory for one.
    pub fn measure(
        &mut self,
        plan: &Plan,
        spec: &Spec,
        payload: &Payload,
        cache: &SizeCache,
        room: Room,
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
                measure_all(&tasks, spec, payload, room, &proceed)
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
        program.ops.iter().filter_map(|op| {
            let Batch { layout, dtype, blocks } = op.kind.encoded()?;
            Some(Task { segment: op.segment, layout: *layout, dtype: *dtype, blocks })
        })
    })
}

/// Encode tasks of all ranks, by segment and layout, in the plan's order.
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

/// Digest of everything that lengths depend on: the codec, the layout, and the values of every chunk.
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

/// Bytes of memory that encoding what `plan` encodes takes at the same time, by one thread: the largest chunk, its frame, and what
/// they are made from. 0 if it encodes nothing.
pub fn encoding_bytes(plan: &Plan) -> u64 {
    let spec = plan.codec.as_ref();
    spec.map_or(0, |spec| tasks(plan).map(|task| task.bytes(spec)).max().unwrap_or(0))
}

/// How many of the tasks are done at the same time: all, as far as cores go, unless memory is short.
fn lanes(tasks: &[Task<'_>], spec: &Spec, room: Room) -> Result<usize, SizeError> {
    let needed = tasks.iter().map(|task| task.bytes(spec)).max().unwrap_or(0);
    let allowed = room.bytes.unwrap_or(u64::MAX);
    if needed > allowed {
        return Err(SizeError::Memory { needed, allowed });
    }
    let fit = (allowed / needed.max(1) / room.sharers.max(1)).max(1);
    // Many small lanes where memory does not matter: threads that are early take over what is left.
    let threads = rayon::current_num_threads() as u64;
    Ok(if fit >= threads { tasks.len().max(1) } else { usize::try_from(fit).unwrap_or(1) })
}

impl Task<'_> {
    /// Bytes that one thread holds for it.
    fn bytes(&self, spec: &Spec) -> u64 {
        let most = |of: fn(&Block) -> u64| self.blocks.iter().map(of).max().unwrap_or(0);
        let frame = most(Block::known_len) + most(|block| block.dynamic_section.len);
        let values = most(|block| block.values.len);
        // Sums are added up in FP32 from contributions in BF16, by groups or not: 2 + 4 + 4 + 4 bytes for each value of at least 2.
        let sums = 7 * most(|block| if block.chunk.sum.is_some() { block.values.len } else { 0 });
        // What stands in front of another codec gives it values that it has put together, or has a base of as many.
        let text = spec.to_string();
        let is_behind = Spec::prefixes().any(|prefix| text.starts_with(prefix));
        values + frame + sums + if is_behind { values } else { 0 }
    }
}

/// Dynamic lengths of all tasks; `None` when they were told to stop.
fn measure_all(
    tasks: &[Task<'_>],
    spec: &Spec,
    payload: &Payload,
    room: Room,
    proceed: &(impl Fn() -> bool + Sync),
) -> Result<Option<Lens>, SizeError> {
    let lanes = lanes(tasks, spec, room)?;
    // What is not split further is done by one thread, one task after the other.
    let lanes = tasks.par_chunks(tasks.len().div_ceil(lanes).max(1)).map(|lane| {
        let measured = lane.iter().map(|task| measure(task, spec, payload, proceed));
        measured.collect::<Result<Vec<_>, SizeError>>()
    });
    let measured: Vec<Vec<Option<Vec<u64>>>> = lanes.collect::<Result<_, SizeError>>()?;
    let Some(measured) = measured.into_iter().flatten().collect::<Option<Vec<_>>>() else { return Ok(None) };
    let of_task = |(task, lens): (&Task<'_>, Vec<u64>)| {
        let chunks = task.blocks.iter().map(key_of);
        chunks.zip(lens).collect::<Vec<_>>()
    };
    Ok(Some(tasks.iter().zip(measured).flat_map(of_task).collect()))
}

/// Dynamic lengths of a task's blocks; `None` when it was told to stop.
fn measure(
    task: &Task<'_>,
    spec: &Spec,
    payload: &Payload,
    proceed: &impl Fn() -> bool,
) -> Result<Option<Vec<u64>>, SizeError> {
    let rank = task.blocks.first().map(|block| block.chunk.origin.0);
    let _span = tracing::info_span!("measure frames of a rank", rank).entered();
    let (mut values, mut fixed, mut dynamic) = (Vec::new(), Vec::new(), Vec::new());
    let mut lens = Vec::with_capacity(task.blocks.len());
    let plain = spec.codec();
    for block in task.blocks {
        if !proceed() {
            return Ok(None);
        }
        resize(&mut values, block.values.len)?;
        resize(&mut fixed, block.known_len())?;
        resize(&mut dynamic, block.dynamic_section.len)?;
        let id = ChunkId { segment: task.segment, chunk: block.chunk };
        payload.fill(id, &mut values);
        let with_base = base(task, block, id, spec, payload)?.map(|base| spec.clone().against(base).codec());
        let codec = with_base.as_ref().unwrap_or(&plain);
        let len =
            codec.encode(task.layout, task.dtype, &values, &mut fixed, &mut dynamic).map_err(|source| {
                SizeError::Encode {
                    codec: spec.to_string(),
                    segment: task.segment.0,
                    chunk: block.chunk,
                    source,
                }
            })?;
        lens.push(len as u64);
    }
    Ok(Some(lens))
}

/// Base that both ends have of a block, if the codec takes differences from one.
fn base(
    task: &Task<'_>,
    block: &Block,
    id: ChunkId,
    spec: &Spec,
    payload: &Payload,
) -> Result<Option<Base>, SizeError> {
    if !spec.takes_base() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    resize(&mut bytes, block.values.len)?;
    Ok(payload.fill_base(id, &mut bytes).then(|| Base::new(task.dtype, bytes)))
}

/// Gives a buffer its length, unless the system has no memory for it.
pub(crate) fn resize(buffer: &mut Vec<u8>, len: u64) -> Result<(), SizeError> {
    let refused = SizeError::Allocation { bytes: len };
    let Ok(len) = usize::try_from(len) else { return Err(refused) };
    if let Some(more) = len.checked_sub(buffer.len())
        && buffer.try_reserve_exact(more).is_err()
    {
        return Err(refused);
    }
    buffer.resize(len, 0);
    Ok(())
}

/// Bytes of its values that a rank trains a table from, at most.
const SAMPLE: usize = 1 << 24;

/// How well the table of the plan's codec fits what each rank encodes in an iteration, in the order of ranks; nothing of those that encode nothing.
/// Frames follow from the payload, so this is what ranks would find in theirs. `None` when `proceed`, which is asked between chunks, said no.
///
/// # Errors
/// If the codec refuses a chunk, or if there is no memory for one.
pub fn table_fit(
    plan: &Plan,
    spec: &Spec,
    payload: &Payload,
    proceed: impl Fn() -> bool,
) -> Result<Option<Vec<TableUsage>>, SizeError> {
    let Some(id) = spec.table_id() else { return Ok(Some(Vec::new())) };
    let (codec, decoder) = (spec.codec(), spec.decoder());
    let (mut values, mut fixed, mut dynamic) = (Vec::new(), Vec::new(), Vec::new());
    let mut fits = Vec::with_capacity(plan.programs.len());
    for program in &plan.programs {
        let mut fit = TableUsage::default();
        for (segment, batch, block) in encoded(program) {
            if !proceed() {
                return Ok(None);
            }
            resize(&mut values, block.values.len)?;
            resize(&mut fixed, block.known_len())?;
            resize(&mut dynamic, block.dynamic_section.len)?;
            payload.fill(ChunkId { segment, chunk: block.chunk }, &mut values);
            let refused = |source| SizeError::Encode {
                codec: spec.to_string(),
                segment: segment.0,
                chunk: block.chunk,
                source,
            };
            let len = codec
                .encode(batch.layout, batch.dtype, &values, &mut fixed, &mut dynamic)
                .map_err(refused)?;
            let shape = FrameShape::new(batch.layout, batch.dtype, values.len() / batch.dtype.width());
            let usage = TableUsage::of_shared(&decoder, id, shape, &fixed, &dynamic[..len]);
            fit += usage.expect("a frame that was just written is sound");
        }
        fits.push(fit);
    }
    Ok(Some(fits))
}

/// A table for what rank number `rank` encodes in an iteration: of its first 16 MiB, in the layout of its first frames. None if there is nothing to code.
///
/// # Errors
/// If there is no memory for the values.
pub fn calibrated_table(
    plan: &Plan,
    spec: &Spec,
    payload: &Payload,
    rank: usize,
) -> Result<Option<Table>, SizeError> {
    let (mut samples, mut bytes, mut first) = (Vec::<Vec<u8>>::new(), 0, None);
    for (segment, batch, block) in encoded(&plan.programs[rank]) {
        let (layout, dtype) = *first.get_or_insert((batch.layout, batch.dtype));
        if (layout, dtype) != (batch.layout, batch.dtype) || bytes >= SAMPLE {
            continue;
        }
        let mut values = Vec::new();
        resize(&mut values, block.values.len)?;
        payload.fill(ChunkId { segment, chunk: block.chunk }, &mut values);
        values.truncate((SAMPLE - bytes) / dtype.width() * dtype.width());
        bytes += values.len();
        samples.push(values);
    }
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let plain = spec.clone().without_table();
    Ok(first.and_then(|(layout, dtype)| plain.train(layout, dtype, &samples).ok()))
}

fn encoded(program: &Program) -> impl Iterator<Item = (SegmentId, &Batch, &Block)> {
    let batches = program.ops.iter().filter_map(|op| Some((op.segment, op.kind.encoded()?)));
    batches.flat_map(|(segment, batch)| batch.blocks.iter().map(move |block| (segment, batch, block)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_no_memory_has_are_errors() {
        let mut buffer = vec![1; 3];
        assert!(matches!(resize(&mut buffer, u64::MAX), Err(SizeError::Allocation { bytes: u64::MAX })));
        assert!(resize(&mut buffer, 1 << 60).is_err());
        resize(&mut buffer, 5).unwrap();
        assert_eq!(buffer, [1, 1, 1, 0, 0]);
        resize(&mut buffer, 2).unwrap();
        assert_eq!(buffer, [1, 1]);
    }

    #[test]
    fn memory_decides_how_many_work_at_once() {
        let spec: Spec = "tiered".parse().unwrap();
        let room = |bytes, sharers| Room { bytes, sharers };
        assert_eq!(lanes(&[], &spec, room(None, 1)).unwrap(), 1);
        assert_eq!(lanes(&[], &spec, room(Some(0), 1)).unwrap(), 1, "nothing fits into nothing");
    }
}
