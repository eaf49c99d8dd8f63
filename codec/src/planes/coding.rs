//! Frames of byte planes, written and read block by block.

use super::block::{BlockPlan, BlockReader};
use super::order::{Order, Splitter};
use super::{BLOCK_BYTES, FRONT_LEN, TAG};
use crate::frame::{self, HEADER_LEN};
use crate::sections::{Body, Reader, Writer};
use crate::{DecodeError, FrameShape, Section, checksum, levels};

/// Encodes values of a frame of this shape, for which the sections have room; returns the length of the dynamic one. `width` is that of the
/// values, if it is another than that of their type.
pub(super) fn encode(
    width: Option<usize>,
    shape: FrameShape,
    values: &[u8],
    static_out: &mut [u8],
    dynamic_out: &mut [u8],
) -> usize {
    let kernel = levels::active();
    let order = width.map_or_else(|| Order::of(shape.dtype), |width| Order::chosen(kernel, width, values));
    let Writer { front, dynamic, front_dynamic_len, .. } =
        Writer::new(shape.layout, FRONT_LEN, static_out, dynamic_out);
    front[HEADER_LEN..][..2].copy_from_slice(&[order.width as u8, u8::from(order.float)]);
    let mut splitter = Splitter::new(order, values.len().min(BLOCK_BYTES));
    let (mut sum, mut at) = (0u32, 0);
    for (number, block) in values.chunks(BLOCK_BYTES).enumerate() {
        sum = sum.wrapping_add(checksum::of_values_at(kernel, block, number * BLOCK_BYTES));
        let (whole, tail) = block.split_at(block.len() / order.width * order.width);
        if !whole.is_empty() {
            let planes: Vec<&[u8]> = splitter.split(kernel, whole).collect();
            at += BlockPlan::of(kernel, &planes).write(kernel, &mut dynamic[at..]);
        }
        dynamic[at..at + tail.len()].copy_from_slice(tail);
        at += tail.len();
    }
    let dynamic_len = front_dynamic_len + at;
    frame::seal(TAG, shape, 0, dynamic_len, sum, front);
    dynamic_len
}

/// See [`crate::registry::Of::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let kernel = levels::active();
    let mut reader = Reader::new(body, FRONT_LEN)?;
    let behind = &reader.front[HEADER_LEN..];
    let order = read_order(behind)?;
    let mut sum = checksum::of_front(behind, HEADER_LEN);
    let mut blocks = BlockReader::new(order, out.len().min(BLOCK_BYTES));
    for (number, block) in out.chunks_mut(BLOCK_BYTES).enumerate() {
        let (whole, tail) = block.split_at_mut(block.len() / order.width * order.width);
        if !whole.is_empty() {
            let failed = |(plane, fault)| DecodeError::Plane { block: number, plane, fault };
            blocks.read(kernel, &mut reader.dynamic, whole).map_err(failed)?;
        }
        let found = reader.dynamic.len();
        let kept = reader.dynamic.split_off(..tail.len());
        let truncated = DecodeError::Truncated { section: Section::Dynamic, needed: tail.len(), found };
        tail.copy_from_slice(kept.ok_or(truncated)?);
        sum = sum.wrapping_add(checksum::of_values_at(kernel, block, number * BLOCK_BYTES));
    }
    reader.finish()?;
    Ok(sum)
}

/// Reads what is behind the header.
fn read_order(front: &[u8]) -> Result<Order, DecodeError> {
    let (width, float) = (front[0], front[1]);
    let order = Order { width: usize::from(width), float: float == 1 };
    if float > 1 || !order.is_possible() {
        return Err(DecodeError::PlaneOrder { width, order: float });
    }
    if front[2..].iter().any(|byte| *byte != 0) {
        return Err(DecodeError::Padding);
    }
    Ok(order)
}
