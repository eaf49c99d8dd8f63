//! Frames of values in blocks: what `tiered` and `rans` have in common, which is all but how residuals are coded.
//!
//! An exponent is coded by its distance to a base, its residual. Blocks have 32 768 values; each
//! has one base, or one for every 256 values where these differ in scale; and where a frame is told how long its rows are,
//! its columns can have offsets. Sign and mantissa are kept as they are.

mod columns;
mod decode;
mod encode;
mod entry;
mod fields;
mod geometry;
mod plan;
mod rans;
mod rest;
mod sample;
pub(crate) mod symbols;
mod tiers;

pub(crate) use geometry::Coding;
pub(crate) use sample::Shared;

use crate::frame::{self, HEADER_LEN, Header};
use crate::kernel::tier::plane_bytes;
use crate::options::{Choice, ROW_KEY, Values};
use crate::sections::{self, Pieces, Reader, Tails, Writer};
use crate::streaming_store::StreamingStore;
use crate::{DType, DecodeError, FrameShape, Layout, Section, TableUsage, checksum, levels};
use columns::Columns;
use decode::{Body, Decoder};
use encode::Encoder;
use entry::{Entry, Form};
use geometry::{ALIGN, BLOCK_VALUES, ENTRY, Format, tail_bytes};
use tiers::List;

/// The longest rows that have columns.
pub(crate) const MAX_ROW: u32 = 1 << 24;

/// `row`: how many values a row has, for offsets of columns.
pub(crate) const ROW_CHOICE: Choice = Choice { key: ROW_KEY, values: Values::UpTo(MAX_ROW) };
/// The options of `tiered`.
pub(crate) const OPTIONS: &[Choice] = &[ROW_CHOICE];

/// See [`crate::Codec::static_len`].
pub(crate) fn static_len(coding: Coding, FrameShape { layout, dtype, count }: FrameShape) -> usize {
    geometry::static_len(Format::new(coding, layout, dtype), count)
}

/// See [`crate::Codec::bound`].
pub(crate) fn bound(FrameShape { layout, dtype, count }: FrameShape) -> usize {
    geometry::bound(layout, Format::new(Coding::Tiers, layout, dtype).fields, count)
}

/// Options of an encoder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Values of a row; 0 if that is not known.
    pub(crate) row: u32,
    /// Whether exponents may be coded together with the highest bits of mantissas, by [`Coding::Rans`].
    pub(crate) mantissa: bool,
    /// A table that frames name instead of carrying one, by [`Coding::Rans`].
    pub(crate) shared: Option<Shared>,
}

/// Source of the table of a frame.
#[derive(Clone, Copy)]
enum Source {
    /// The frame names it.
    Shared(Shared),
    /// The frame carries it, if one seems to pay: of exponents, or with bits of mantissas too if that is asked for.
    Own { mantissa: bool },
    /// There is none.
    None,
}

/// Writes a frame of values; returns the length of the dynamic section. The sections together have room for [`bound`].
pub(crate) fn encode(
    coding: Coding,
    shape: FrameShape,
    How { row, mantissa, shared }: How,
    values: &[u8],
    static_out: &mut [u8],
    dynamic_out: &mut [u8],
) -> usize {
    let format = Format::new(coding, shape.layout, shape.dtype);
    let row = usize::try_from(row).unwrap_or(usize::MAX);
    let columns = columns::choose(levels::active(), format.fields, values, row).unwrap_or_default();
    let mantissa = rans::has_joint(shape.layout, shape.dtype) && (mantissa || format.fields.is_short());
    // What does not pay is left out.
    let shared = shared.filter(|shared| shared.fits(shape.layout)).map(Source::Shared);
    let own = Source::Own { mantissa };
    let attempts = [shared, Some(own)].into_iter().flatten();
    let attempts = attempts.flat_map(|source| [(&columns[..], source), (&[], source)]);
    // Without columns both are the same.
    let attempts =
        attempts.skip(usize::from(columns.is_empty())).step_by(1 + usize::from(columns.is_empty()));
    let len = attempts
        .chain([(&[][..], Source::None)])
        .find_map(|(vector, source)| write(format, shape, values, vector, source, static_out, dynamic_out));
    len.expect("without columns and a table there is room for every block")
}

/// Writes a frame with these offsets of columns, none if empty, and with a table from this source, if there is one; returns the length of the dynamic
/// section. Fails if what all blocks need takes more room than it saves, or no block uses it.
fn write(
    format: Format,
    shape: FrameShape,
    values: &[u8],
    vector: &[u8],
    source: Source,
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
    let (table, named) = match source {
        Source::Shared(shared) => (Some(shared.table), shared.id),
        Source::Own { mantissa } if format.coding == Coding::Rans => {
            (sample::table(kernel, format, mantissa, columns.as_ref(), values), 0)
        }
        Source::Own { .. } | Source::None => (None, 0),
    };
    let bytes = table.filter(|_| named == 0).map(|table| table.model.to_bytes());
    let common = [vector, bytes.as_ref().map_or(&[], |bytes| &bytes[..])].concat();
    let Writer { front, mut bodies, mut dynamic, front_dynamic_len: mut dynamic_len } =
        Writer::new(layout, front_len, static_out, dynamic_out);
    dynamic.split_off_mut(..common.len())?.copy_from_slice(&common);
    dynamic_len += common.len();
    let entries = front[HEADER_LEN..].as_chunks_mut::<ENTRY>().0;
    // Not parts of the encoder, which would move them.
    let mut streaming = StreamingStore::of_large(kernel, values.len());
    let mut list: List = [0; _];
    let mut encoder =
        Encoder::new(kernel, format, columns.as_ref(), table.as_ref(), &mut streaming, &mut list);
    let (mut uses_columns, mut uses_table) = (vector.is_empty(), table.is_none());
    for (values, entry) in values.chunks(BLOCK_VALUES * format.fields.width()).zip(entries) {
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
    let sum = encoder.checksum.wrapping_add(checksum::of_front(&common, front_len));
    frame::seal(format.coding.tag(), shape, named, dynamic_len, sum, front);
    (uses_columns && uses_table).then_some(dynamic_len)
}

/// See [`crate::registry::Entry::pieces`]: the first tier of a coded block is in front of its rests, where all blocks have it.
pub(crate) const fn pieces(coding: Coding) -> Pieces {
    match coding {
        Coding::Tiers => Pieces {
            piece: BLOCK_VALUES,
            front_len: |count| geometry::front_len(Layout::Split, count),
            static_body: |count| geometry::static_body(Coding::Tiers, bf16(Coding::Tiers).fields, count),
            rest_at: plane_bytes,
            tails: |front, dynamic, count| tails(Coding::Tiers, front, dynamic, count),
        },
        Coding::Rans => Pieces {
            piece: BLOCK_VALUES,
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
    let table = &table[..count.div_ceil(BLOCK_VALUES)];
    let is_named = Header::read(front, Section::Static)?.table != 0;
    let first = Common::read(bf16(coding), is_named, table, count, &mut dynamic)?.bytes.len();
    let tail = |(block, bytes): (usize, &[u8; ENTRY])| {
        let count = (count - block * BLOCK_VALUES).min(BLOCK_VALUES);
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

/// Front matter and tables before the bodies of the blocks.
struct Common<'a> {
    columns: Option<Columns<'a>>,
    model: Option<rans::Model>,
    /// All of it.
    bytes: &'a [u8],
}

impl<'a> Common<'a> {
    /// Takes what the blocks of a frame of `count` values need off its bodies: but for the table, if the frame names one.
    fn read(
        format: Format,
        is_named: bool,
        table: &[[u8; ENTRY]],
        count: usize,
        dynamic: &mut &'a [u8],
    ) -> Result<Self, DecodeError> {
        let whole = *dynamic;
        let needs = |flag: fn(&[u8; ENTRY]) -> bool| table.iter().any(flag);
        let columns = if needs(entry::has_columns) { Some(Columns::read(count, dynamic)?.0) } else { None };
        let carries_table = needs(entry::has_table) && !is_named;
        let model = if carries_table { Some(rans::read(dynamic)?.0) } else { None };
        // Lengths in the split layout follow from the number of values.
        if model.is_some_and(|model| {
            model.joint().is_some() && !rans::has_joint(format.layout, format.fields.dtype)
        }) {
            return Err(DecodeError::Padding);
        }
        let bytes = &whole[..whole.len() - dynamic.len()];
        Ok(Self { columns, model, bytes })
    }
}

/// See [`crate::registry::Of::decode`].
pub(crate) fn decode(coding: Coding, body: &sections::Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let format = Format::new(coding, body.layout, body.dtype);
    let width = format.fields.width();
    let count = out.len() / width;
    let mut sections = Reader::new(body, geometry::front_len(format.layout, count))?;
    let (front, bodies) = (sections.front, sections.bodies);
    let blocks = count.div_ceil(BLOCK_VALUES);
    let (table, padding) = front[HEADER_LEN..].split_at(ENTRY * blocks);
    if padding.iter().any(|byte| *byte != 0) {
        return Err(DecodeError::Padding);
    }
    let kernel = levels::active();
    let table: &[[u8; ENTRY]] = table.as_chunks().0;
    let common = Common::read(format, body.table.is_some(), table, count, &mut sections.dynamic)?;
    let Common { columns, model, bytes } = common;
    let model = match body.table {
        Some(named) => Some(Shared::of_frame(named, format, table.iter().any(entry::has_table))?.table.model),
        None => model,
    };
    let mut sum = checksum::of_front(&front[HEADER_LEN..], HEADER_LEN);
    sum = sum.wrapping_add(checksum::of_front(bytes, front.len()));
    let mut streaming = StreamingStore::of_large(kernel, out.len());
    let mut list: List = [0; _];
    let mut decoder = Decoder::new(kernel, format, columns, model, &mut streaming, &mut list);
    let fault = |number, fault| DecodeError::Block { block: number, fault };
    let body = |number: usize| {
        let count = (count - number * BLOCK_VALUES).min(BLOCK_VALUES);
        let static_body = &bodies[number * static_body(format, BLOCK_VALUES)..][..static_body(format, count)];
        Entry::from_bytes(table[number], format, count).map(|entry| Body { entry, count, static_body })
    };
    for (number, out) in out.chunks_mut(BLOCK_VALUES * width).enumerate() {
        let next = (number + 1..blocks).map_while(|number| body(number).ok());
        let block = body(number)
            .and_then(|body| decoder.block(body, next, number * BLOCK_VALUES, &mut sections.dynamic, out));
        sum = sum.wrapping_add(block.map_err(|found| fault(number, found))?);
    }
    sections.finish()?;
    Ok(sum)
}

/// See [`crate::TableUsage`].
pub(crate) fn usage(
    coding: Coding,
    body: &sections::Body<'_>,
    count: usize,
) -> Result<TableUsage, DecodeError> {
    let format = Format::new(coding, body.layout, body.dtype);
    let front = Reader::new(body, geometry::front_len(format.layout, count))?.front;
    let table = front[HEADER_LEN..].as_chunks::<ENTRY>().0.iter().take(count.div_ceil(BLOCK_VALUES));
    let mut usage = TableUsage::default();
    for (block, bytes) in table.enumerate() {
        let count = (count - block * BLOCK_VALUES).min(BLOCK_VALUES);
        let entry =
            Entry::from_bytes(*bytes, format, count).map_err(|fault| DecodeError::Block { block, fault })?;
        let coded = u64::from(entry.counts[0]);
        match entry.form {
            Form::Zero => {}
            Form::Stored => usage.others += count as u64,
            _ if entry.rans => {
                usage.coded += coded;
                usage.escapes += entry.words_and_escapes()[1] as u64;
            }
            _ => usage.others += coded,
        }
    }
    Ok(usage)
}

/// Bytes of a block's part of the static section.
fn static_body(Format { coding, layout, fields }: Format, count: usize) -> usize {
    match layout {
        Layout::Split => geometry::static_body(coding, fields, count),
        Layout::Compact => 0,
    }
}
