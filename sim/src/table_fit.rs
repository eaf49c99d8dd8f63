//! How well a table that frames share fits what ranks encode, and tables that fit better.
//!
//! Frames follow from the payload, so this is what ranks would find in theirs.

use zipwire_codec::{FrameShape, Spec, Table, TableUsage};
use zipwire_payload::{ChunkId, Payload};
use zipwire_schedule::SegmentId;
use zipwire_schedule::plan::{Batch, Block, Plan, Program};

use crate::sizes::{SizeError, resize};

/// Bytes of its values that a rank trains a table from, at most.
const SAMPLE: usize = 1 << 24;

/// How well the table of the plan's codec fits what each rank encodes in an iteration, in the order of ranks; nothing of those that encode nothing. `None` when
/// `proceed`, which is asked between chunks, said no.
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

/// Blocks that a rank encodes, in its order.
fn encoded(program: &Program) -> impl Iterator<Item = (SegmentId, &Batch, &Block)> {
    let batches = program.ops.iter().filter_map(|op| Some((op.segment, op.kind.encoded()?)));
    batches.flat_map(|(segment, batch)| batch.blocks.iter().map(move |block| (segment, batch, block)))
}
