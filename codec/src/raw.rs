//! The codec that changes nothing: header and values.
//!
//! It is the fall-back for small messages and the base line; it still checks what it carries.

use crate::frame::{self, Body};
use crate::header::HEADER_LEN;
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
        body[..values.len()].copy_from_slice(values);
        let sum = checksum::of_values(kernel::active(), values);
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
    out.copy_from_slice(&section[HEADER_LEN..]);
    Ok(checksum::of_values(kernel::active(), out))
}
