//! The codec that changes nothing: header and values.
//!
//! It is the fall-back for small messages and the base line; it still checks what it carries.

use crate::checksum::{PART_BYTES, WORD, fold};
use crate::codec::{Checked, EncodeChecked};
use crate::frame::{self, HEADER_LEN};
use crate::sections::Body;
use crate::streaming_store::{self, StreamingStore};
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, Section, levels};

/// Tag in frame headers.
pub(crate) const TAG: u8 = 0;

/// Values as they are, of any type, with a checksum.
///
/// The spec is `raw`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl EncodeChecked for Raw {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        let Checked { shape, values, static_out, dynamic_out } = frame;
        let (out, dynamic_len) = match shape.layout {
            Layout::Split => (static_out, 0),
            Layout::Compact => (dynamic_out, HEADER_LEN + values.len()),
        };
        let (header, body) = out.split_at_mut(HEADER_LEN);
        let sum = copy_and_sum(values, &mut body[..values.len()]);
        frame::seal(TAG, shape, 0, dynamic_len, sum, header);
        Ok(dynamic_len)
    }
}

impl Codec for Raw {
    fn id(&self) -> &'static str {
        "raw"
    }

    fn supports(&self, _: DType) -> bool {
        true
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        match shape.layout {
            Layout::Split => self.bound(shape),
            Layout::Compact => 0,
        }
    }

    fn bound(&self, shape: FrameShape) -> usize {
        shape.values_len().saturating_add(HEADER_LEN)
    }

    fn min_len(&self, shape: FrameShape) -> usize {
        self.bound(shape)
    }
}

/// See [`crate::registry::Of::decode`].
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

/// Copies values and returns their checksum, in one pass over them.
fn copy_and_sum(from: &[u8], to: &mut [u8]) -> u32 {
    let kernel = levels::active();
    let streaming = StreamingStore::of_large(kernel, from.len());
    let mut sum = 0u32;
    let blocks = from.chunks(PART_BYTES).zip(to.chunks_mut(PART_BYTES));
    for (number, (from, to)) in blocks.enumerate() {
        let word = (number * PART_BYTES / WORD) as u64;
        sum = sum.wrapping_add(fold(streaming_store::copy_sum(streaming.as_ref(), kernel, from, to, word)));
    }
    sum
}
