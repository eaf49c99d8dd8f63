//! Frames whose signs and mantissas travel by themselves. The sign and the mantissa of a BF16 value are kept as they are, whatever a codec
//! makes of the exponents: so they can be on their way before anything is coded, and the frame is made without them.
//!
//! The frame that remains is one of the split layout from which the signs and mantissas are taken out: its static section is shorter by a byte
//! per value, and its dynamic section as long as ever. A piece that is stored keeps the exponents of its values, a byte
//! each, in place of the values.

use crate::frame::Header;
use crate::registry::{self, Entry};
use crate::sections::{Pieces, Tails};
use crate::tables::Tables;
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, Section, decode};

/// Bytes of the signs and mantissas of `count` values, or `None` if frames of the codec have none that could travel apart: those of
/// other types than BF16, of `raw`, of `dedup+X`, whose rows are left out before anything is split, and of `delta+X`,
/// which has no differences there.
pub fn sign_mantissa_len(codec: &dyn Codec, dtype: DType, count: usize) -> Option<usize> {
    (codec.supports(dtype) && pieces(registry::by_id(codec.id_in_split(dtype)), dtype).is_some())
        .then_some(count)
}

/// Writes the signs and mantissas of BF16 `values` (little-endian): a byte each, the sign in bit 7 and the mantissa below it.
///
/// # Panics
/// If `sign_mantissa` has not a byte for each value.
pub fn write_sign_mantissa(values: &[u8], sign_mantissa: &mut [u8]) {
    let values = values.as_chunks().0;
    assert_eq!(values.len(), sign_mantissa.len(), "there is a rest for each value");
    sign_mantissa.iter_mut().zip(values).for_each(|(rest, value)| *rest = rest_of(*value));
}

/// [`Codec::encode`] in the split layout without the signs and mantissas, which [`write_sign_mantissa`] writes. Returns the length of the dynamic
/// section, which is that of a whole frame.
///
/// `static_out` has exactly [`Codec::static_len`] less [`sign_mantissa_len`] bytes, all of which are written.
///
/// # Errors
/// Errors of [`Codec::encode`], and [`EncodeError::Unsupported`] if there is no [`sign_mantissa_len`].
pub fn encode_exponents(
    codec: &dyn Codec,
    dtype: DType,
    values: &[u8],
    static_out: &mut [u8],
    dynamic_out: &mut [u8],
) -> Result<usize, EncodeError> {
    let unsupported = EncodeError::Unsupported { codec: codec.id(), dtype };
    let pieces = pieces(registry::by_id(codec.id_in_split(dtype)), dtype).ok_or(unsupported)?;
    let count = values.len() / dtype.width();
    let mut whole = vec![0; codec.static_len(FrameShape { layout: Layout::Split, dtype, count })];
    let needed = whole.len() - count;
    if static_out.len() != needed {
        return Err(EncodeError::StaticBuffer { needed, found: static_out.len() });
    }
    let dynamic_len = codec.encode(Layout::Split, dtype, values, &mut whole, dynamic_out)?;
    let (front, mut from) = whole.split_at((pieces.front_len)(count));
    let (front_out, mut to) = static_out.split_at_mut(front.len());
    front_out.copy_from_slice(front);
    let tails = (pieces.tails)(front, &dynamic_out[..dynamic_len], count);
    let Tails { first, lens } = tails.expect("front matter that was just written is valid");
    let mut at = first;
    for (values, tail) in values.chunks(pieces.piece * dtype.width()).zip(lens) {
        let count = values.len() / dtype.width();
        let (body, body_out) = (
            take(&mut from, (pieces.static_body)(count)),
            take_mut(&mut to, (pieces.static_body)(count) - count),
        );
        at += if let Some(len) = tail {
            let (before, behind) = ((pieces.rest_at)(count), (pieces.rest_at)(count) + count);
            body_out[..before].copy_from_slice(&body[..before]);
            body_out[before..].copy_from_slice(&body[behind..]);
            len
        } else {
            let tail = &mut dynamic_out[at..at + values.len() - body.len()];
            let room = body_out.iter_mut().chain(tail);
            room.zip(values.as_chunks().0).for_each(|(exponent, value)| *exponent = exponent_of(*value));
            values.len() - body.len()
        };
    }
    Ok(dynamic_len)
}

/// See [`crate::Decoder::decode_exponents`]: of the three parts of a frame.
pub(crate) fn decode_with(
    tables: &Tables,
    dtype: DType,
    [sign_mantissa, static_section, dynamic_section]: [&[u8]; 3],
    out: &mut [u8],
) -> Result<(), DecodeError> {
    let header = Header::read(static_section, Section::Static)?;
    let entry = registry::of_header(&header)?;
    let unsupported = DecodeError::Unsupported { codec: entry.codec.id(), dtype };
    let pieces = pieces(Some(entry), dtype).ok_or(unsupported)?;
    let count = out.len() / dtype.width();
    let whole_len = entry.codec.static_len(FrameShape { layout: Layout::Split, dtype, count });
    for (expected, found) in [(count, sign_mantissa.len()), (whole_len - count, static_section.len())] {
        if expected != found {
            return Err(DecodeError::Length { section: Section::Static, expected: expected as u64, found });
        }
    }
    let (front, mut from) = static_section.split_at((pieces.front_len)(count));
    let Tails { first, lens } = (pieces.tails)(front, dynamic_section, count)?;
    let (mut whole, mut dynamic) = (front.to_vec(), dynamic_section.to_vec());
    whole.reserve_exact(whole_len - front.len());
    let mut at = first;
    for (sign_mantissa, tail) in sign_mantissa.chunks(pieces.piece).zip(lens) {
        let count = sign_mantissa.len();
        let body_len = (pieces.static_body)(count);
        let body = take(&mut from, body_len - count);
        let Some(len) = tail else {
            let len = count * dtype.width() - body_len;
            let truncated =
                DecodeError::Truncated { section: Section::Dynamic, needed: at + len, found: dynamic.len() };
            let tail = dynamic.get_mut(at..at + len).ok_or(truncated)?;
            let exponents = body.iter().chain(&*tail);
            let values: Vec<u8> = sign_mantissa
                .iter()
                .zip(exponents)
                .flat_map(|(rest, exponent)| join(*rest, *exponent))
                .collect();
            whole.extend_from_slice(&values[..body_len]);
            tail.copy_from_slice(&values[body_len..]);
            at += len;
            continue;
        };
        let (before, behind) = body.split_at((pieces.rest_at)(count));
        [before, sign_mantissa, behind].iter().for_each(|part| whole.extend_from_slice(part));
        at += len;
    }
    decode::decode_with(tables, Layout::Split, dtype, &whole, &dynamic, out)
}

fn pieces(entry: Option<&'static Entry>, dtype: DType) -> Option<&'static Pieces> {
    entry?.pieces.as_ref().filter(|_| dtype == DType::Bf16)
}

/// Takes `len` bytes off the front; lengths follow from the number of values, so they are there.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    bytes.split_off(..len).expect("sections have their lengths")
}

fn take_mut<'a>(bytes: &mut &'a mut [u8], len: usize) -> &'a mut [u8] {
    bytes.split_off_mut(..len).expect("sections have their lengths")
}

fn rest_of([low, high]: [u8; 2]) -> u8 {
    high & 0x80 | low & 0x7f
}

fn exponent_of([low, high]: [u8; 2]) -> u8 {
    high << 1 | low >> 7
}

fn join(rest: u8, exponent: u8) -> [u8; 2] {
    [exponent << 7 | rest & 0x7f, rest & 0x80 | exponent >> 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_its_rest_and_its_exponent() {
        for value in (0..=u16::MAX).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let bytes = value.to_le_bytes();
            assert_eq!(u16::from(exponent_of(bytes)), value >> 7 & 0xff);
            assert_eq!(u16::from(rest_of(bytes)), value >> 8 & 0x80 | value & 0x7f);
            assert_eq!(join(rest_of(bytes), exponent_of(bytes)), bytes);
        }
    }
}
