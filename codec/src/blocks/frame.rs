//! Frames: front matter, then what all blocks need, then the blocks.

use super::block::{ALIGN, BLOCK, ENTRY, tail_bytes};
use super::coding::{Coding, Format};
use super::columns::{self, Columns};
use super::decode::{Body, Decoder};
use super::encode::Encoder;
use super::entry::{self, Entry, Form};
use super::{geometry, rans, sample};
use crate::body;
use crate::header::HEADER_LEN;
use crate::kernel::tier::plane_bytes;
use crate::pieces::{Pieces, Tails};
use crate::sections::{Reader, Writer};
use crate::streaming_store::StreamingStore;
use crate::{DType, DecodeError, FrameShape, Layout, checksum, frame, levels};

/// See [`crate::Codec::static_len`].
pub(crate) fn static_len(coding: Coding, FrameShape { layout, dtype, count }: FrameShape) -> usize {
    geometry::static_len(Format::new(coding, layout, dtype), count)
}

/// See [`crate::Codec::bound`].
pub(crate) fn bound(FrameShape { layout, dtype, count }: FrameShape) -> usize {
    geometry::bound(layout, Format::new(Coding::Tiers, layout, dtype).fields, count)
}

/// What an encoder is told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Values of a row; 0 if that is not known.
    pub(crate) row: u32,
    /// Whether exponents may be coded together with the highest bits of mantissas, by [`Coding::Rans`].
    pub(crate) mantissa: bool,
}

/// Writes a frame of values; returns the length of the dynamic section. The sections together have room for [`bound`].
pub(crate) fn encode(
    coding: Coding,
    shape: FrameShape,
    How { row, mantissa }: How,
    values: &[u8],
    static_out: &mut [u8],
    dynamic_out: &mut [u8],
) -> usize {
    let format = Format::new(coding, shape.layout, shape.dtype);
    let row = usize::try_from(row).unwrap_or(usize::MAX);
    let columns = columns::choose(levels::active(), format.fields, values, row).unwrap_or_default();
    // What does not pay is left out.
    // Lengths in `split` follow from the number of values, and the planes of F32 have forms. All of FP8 is exponent and mantissa.
    let FrameShape { layout, dtype, .. } = shape;
    let short = matches!(dtype, DType::F8E4M3 | DType::F8E5M2);
    let mantissa = layout == Layout::Compact && dtype != DType::F32 && (mantissa || short);
    let attempts = [(&columns[..], true), (&[], true), (&[], false)];
    let mut attempts = attempts.into_iter().skip(if columns.is_empty() { 1 } else { 0 });
    let len = attempts.find_map(|(vector, table)| {
        write(format, shape, values, vector, table.then_some(mantissa), static_out, dynamic_out)
    });
    len.expect("without columns and a table there is room for every block")
}

/// Writes a frame with these offsets of columns, none if empty, and with a table, if it may have one, of exponents or with bits of mantissas
/// too, and that seems to pay; returns the length of the dynamic section. Fails if what all blocks need takes more room than it saves, or no block uses it.
fn write(
    format: Format,
    shape: FrameShape,
    values: &[u8],
    vector: &[u8],
    table: Option<bool>,
    static_out: &mut [u8],
    dynamic_out: &mut [u8],
) -> Option<usize> {
    let FrameShape { layout, count, .. } = shape;
    let front_len = geometry::front_len(layout, count);
    let kernel = levels::active();
    let columns = match vector {
        [] => None,
        mut vector => Columns::read(count, &mut vector).map(|(columns, _)| columns.expanded()).ok(),
    };
    let table = table.filter(|_| format.coding == Coding::Rans);
    let table = table.and_then(|mantissa| sample::table(kernel, format, mantissa, columns.as_ref(), values));
    let bytes = table.map(|table| table.model.to_bytes());
    let common = [vector, bytes.as_ref().map_or(&[], |bytes| &bytes[..])].concat();
    let Writer { front, mut bodies, mut dynamic, front_dynamic_len: mut dynamic_len } =
        Writer::new(layout, front_len, static_out, dynamic_out);
    dynamic.split_off_mut(..common.len())?.copy_from_slice(&common);
    dynamic_len += common.len();
    let entries = front[HEADER_LEN..].as_chunks_mut::<ENTRY>().0;
    let streaming = StreamingStore::of_large(kernel, values.len());
    let mut encoder = Encoder::new(kernel, format, columns.as_ref(), table.as_ref(), streaming);
    let (mut uses_columns, mut uses_table) = (vector.is_empty(), table.is_none());
    for (values, entry) in values.chunks(BLOCK * format.fields.width()).zip(entries) {
        let static_len = static_body(format, values.len() / format.fields.width());
        let (body, further) = bodies.split_at_mut(static_len);
        let (chosen, len) = encoder.block(values, body, dynamic)?;
        uses_columns |= chosen.columns;
        uses_table |= chosen.rans;
        *entry = chosen.to_bytes();
        bodies = further;
        dynamic = &mut dynamic[len..];
        dynamic_len += len;
    }
    let sum = encoder.checksum.wrapping_add(checksum::of_front(&front[HEADER_LEN..], HEADER_LEN));
    let sum = sum.wrapping_add(checksum::of_front(&common, front_len));
    frame::seal(format.coding.tag(), shape, 0, dynamic_len, sum, front);
    (uses_columns && uses_table).then_some(dynamic_len)
}

/// See [`crate::registry::Entry::pieces`]: the first tier of a coded block is in front of its rests, where all blocks have it.
pub(crate) const fn pieces(coding: Coding) -> Pieces {
    match coding {
        Coding::Tiers => Pieces {
            piece: BLOCK,
            front_len: |count| geometry::front_len(Layout::Split, count),
            static_body: |count| geometry::static_body(Coding::Tiers, bf16(Coding::Tiers).fields, count),
            rest_at: plane_bytes,
            tails: |front, dynamic, count| tails(Coding::Tiers, front, dynamic, count),
        },
        Coding::Rans => Pieces {
            piece: BLOCK,
            front_len: |count| geometry::front_len(Layout::Split, count),
            static_body: |count| geometry::static_body(Coding::Rans, bf16(Coding::Rans).fields, count),
            rest_at: |_| 0,
            tails: |front, dynamic, count| tails(Coding::Rans, front, dynamic, count),
        },
    }
}

fn bf16(coding: Coding) -> Format {
    Format::new(coding, Layout::Split, DType::Bf16)
}

fn tails(coding: Coding, front: &[u8], mut dynamic: &[u8], count: usize) -> Result<Tails, DecodeError> {
    let table = front[HEADER_LEN..].as_chunks::<ENTRY>().0;
    let table = &table[..count.div_ceil(BLOCK)];
    let first = Common::read(table, count, &mut dynamic)?.bytes.len();
    let tail = |(block, bytes): (usize, &[u8; ENTRY])| {
        let count = (count - block * BLOCK).min(BLOCK);
        let entry = Entry::from_bytes(*bytes, bf16(coding), count)
            .map_err(|fault| DecodeError::Block { block, fault })?;
        let bases = entry.form.bases_len(count).next_multiple_of(ALIGN);
        let codes = if entry.rans {
            let [words, escapes] = entry.words_and_escapes();
            rans::codes_len(words, escapes)
        } else {
            let (planes, escapes) = tail_bytes(&entry.counts);
            let first = if coding == Coding::Rans { plane_bytes(count) } else { 0 };
            first + planes + escapes
        };
        Ok((entry.form != Form::Stored).then_some(bases + codes))
    };
    Ok(Tails { first, lens: table.iter().enumerate().map(tail).collect::<Result<_, _>>()? })
}

/// What is in front of all bodies.
struct Common<'a> {
    columns: Option<Columns<'a>>,
    model: Option<rans::Model>,
    /// All of it.
    bytes: &'a [u8],
}

impl<'a> Common<'a> {
    /// Takes what the blocks of a frame of `count` values need off its bodies.
    fn read(table: &[[u8; ENTRY]], count: usize, dynamic: &mut &'a [u8]) -> Result<Self, DecodeError> {
        let whole = *dynamic;
        let needs = |flag: fn(&[u8; ENTRY]) -> bool| table.iter().any(flag);
        let columns = if needs(entry::has_columns) { Some(Columns::read(count, dynamic)?.0) } else { None };
        let model = if needs(entry::has_table) { Some(rans::read(dynamic)?.0) } else { None };
        let bytes = &whole[..whole.len() - dynamic.len()];
        Ok(Self { columns, model, bytes })
    }
}

/// See [`crate::registry::Entry::decode`].
pub(crate) fn decode(coding: Coding, body: &body::Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let format = Format::new(coding, body.layout, body.dtype);
    let width = format.fields.width();
    let count = out.len() / width;
    let mut sections = Reader::new(body, geometry::front_len(format.layout, count))?;
    let (front, bodies) = (sections.front, sections.bodies);
    let blocks = count.div_ceil(BLOCK);
    let (table, padding) = front[HEADER_LEN..].split_at(ENTRY * blocks);
    if padding.iter().any(|byte| *byte != 0) {
        return Err(DecodeError::Padding);
    }
    let kernel = levels::active();
    let table: &[[u8; ENTRY]] = table.as_chunks().0;
    let Common { columns, model, bytes } = Common::read(table, count, &mut sections.dynamic)?;
    let mut sum = checksum::of_front(&front[HEADER_LEN..], HEADER_LEN);
    sum = sum.wrapping_add(checksum::of_front(bytes, front.len()));
    let streaming = StreamingStore::of_large(kernel, out.len());
    let mut decoder = Decoder::new(kernel, format, columns, model, streaming);
    let fault = |number, fault| DecodeError::Block { block: number, fault };
    let body = |number: usize| {
        let count = (count - number * BLOCK).min(BLOCK);
        let static_body = &bodies[number * static_body(format, BLOCK)..][..static_body(format, count)];
        Entry::from_bytes(table[number], format, count).map(|entry| Body { entry, count, static_body })
    };
    for (number, out) in out.chunks_mut(BLOCK * width).enumerate() {
        let next = (number + 1..blocks).map_while(|number| body(number).ok());
        let block = body(number)
            .and_then(|body| decoder.block(body, next, number * BLOCK, &mut sections.dynamic, out));
        sum = sum.wrapping_add(block.map_err(|found| fault(number, found))?);
    }
    sections.finish()?;
    Ok(sum)
}

/// Bytes of a block's part of the static section.
fn static_body(Format { coding, layout, fields }: Format, count: usize) -> usize {
    match layout {
        Layout::Split => geometry::static_body(coding, fields, count),
        Layout::Compact => 0,
    }
}
