//! The codec that changes nothing: header and values.
//!
//! It is the fall-back for small messages and the base line; it still checks what it carries.

use crate::checksum::BLOCK_BYTES;
use crate::frame::{self, Body};
use crate::header::HEADER_LEN;
use crate::past::{self, Past};
use crate::{Codec, DType, DecodeError, EncodeError, Layout, Section, checksum, kernel};

/// Values as they are, of any type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw;

impl Codec for Raw {
    fn id(&self) -> &'static str {
        "raw"
    }

    fn supports(&self, _: DType) -> bool {
        true
    }

    fn static_len(&self, layout: Layout, dtype: DType, count: usize) -> usize {
        match layout {
            Layout::Split => self.bound(layout, dtype, count),
            Layout::Compact => 0,
        }
    }

    fn bound(&self, _: Layout, dtype: DType, count: usize) -> usize {
        count.saturating_mul(dtype.width()).saturating_add(HEADER_LEN)
    }

    fn least_len(&self, layout: Layout, dtype: DType, count: usize) -> usize {
        self.bound(layout, dtype, count)
    }

    fn encode(
        &self,
        layout: Layout,
        dtype: DType,
        values: &[u8],
        static_out: &mut [u8],
        dynamic_out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let count = frame::check_buffers(self, layout, dtype, values, static_out, dynamic_out)?;
        let (out, dynamic_len) = match layout {
            Layout::Split => (static_out, 0),
            Layout::Compact => (dynamic_out, HEADER_LEN + values.len()),
        };
        let (header, body) = out.split_at_mut(HEADER_LEN);
        let sum = copy_and_sum(values, &mut body[..values.len()]);
        frame::seal(self, (layout, dtype, count), dynamic_len, sum, header);
        Ok(dynamic_len)
    }
}

/// See [`crate::registry::Entry::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let (section, dynamic_len) = match body.layout {
        Layout::Split => (body.static_section, 0),
        Layout::Compact => (body.dynamic_section, HEADER_LEN + out.len()),
    };
    if body.dynamic_section.len() != dynamic_len {
        let (expected, found) = (dynamic_len as u64, body.dynamic_section.len());
        return Err(DecodeError::Length { section: Section::Dynamic, expected, found });
    }
    Ok(copy_and_sum(&section[HEADER_LEN..], out))
}

/// Copies values and returns their checksum: a block at a time, so that they come from memory once.
fn copy_and_sum(from: &[u8], to: &mut [u8]) -> u32 {
    let kernel = kernel::active();
    let past = Past::of_large(kernel, from.len());
    let mut sum = 0u32;
    let blocks = from.chunks(BLOCK_BYTES).zip(to.chunks_mut(BLOCK_BYTES));
    for (number, (from, to)) in blocks.enumerate() {
        sum = sum.wrapping_add(checksum::of_values_at(kernel, from, number * BLOCK_BYTES));
        past::copy(past.as_ref(), from, to);
    }
    sum
}
