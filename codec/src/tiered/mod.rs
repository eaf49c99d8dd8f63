//! `tiered`: exponents in tiers of two bits, near entropy at the speed of memory. The project's own codec.
//!
//! An exponent is coded by its distance to a base, in one fixed order of distances: two bits name the three most
//! frequent ones or pass the value on to the next tier, four tiers in all, then a byte. Blocks have 32 768 values; each
//! has one base, or one for every 256 values where these differ in scale; and where a frame is told how long its rows are,
//! its columns can have offsets. Codes are kept as bit planes, and where a
//! value's codes are follows from counting bits: nothing in a block is serial but a prefix sum.
//!
//! It is not an entropy coder: on Gaussian values it takes 2.65 bits per exponent, where entropy allows 2.55. Sign and
//! mantissa are kept as they are.

mod block;
mod columns;
mod decode;
mod encode;
mod entry;
mod fields;
mod geometry;
mod order;
mod plan;
mod rest;
mod spread;
mod tiers;

use crate::body::Body;
use crate::codec::Sealed;
use crate::frame;
use crate::header::HEADER_LEN;
use crate::kernel::tier::plane_bytes;
use crate::options::{Choice, ROW, Value, Values};
use crate::pieces::{Pieces, Tails};
use crate::sections::{Reader, Writer};
use crate::streaming_store::StreamingStore;
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, checksum, levels};
use block::{ALIGN, BLOCK, ENTRY, tail_bytes};
use columns::Columns;
use decode::Decoder;
use encode::Encoder;
use entry::{Entry, Form};
use fields::Fields;
use geometry::static_body;

/// Tag in frame headers.
pub(crate) const TAG: u8 = 2;

/// Exponents in tiers of two bits, near their entropy at the speed of memory: all types. The default of
/// [`crate::compress`].
///
/// The spec is `tiered`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tiered {
    /// Values of a row; 0 if that is not known.
    row: u32,
}

impl Tiered {
    /// Rows of unknown length.
    pub const fn new() -> Self {
        Self { row: 0 }
    }

    /// How many values a row (a token, an output channel) has, for offsets of columns, as the option `row` of specs. 0, or
    /// more than 16 777 216: that is not known.
    #[must_use]
    pub const fn row(mut self, values: u32) -> Self {
        self.row = if values <= MAX_ROW { values } else { 0 };
        self
    }
}

/// The longest rows that have columns.
const MAX_ROW: u32 = 1 << 24;

/// `row`: how many values a row has, for offsets of columns.
pub(crate) const OPTIONS: &[Choice] = &[Choice { key: ROW, values: Values::UpTo(MAX_ROW) }];

/// See [`crate::registry::Entry::build`].
pub(crate) fn build(chosen: &[Value]) -> Box<dyn Codec> {
    Box::new(Tiered::new().row(chosen[0].number()))
}

impl Sealed for Tiered {}

impl Codec for Tiered {
    fn id(&self) -> &'static str {
        "tiered"
    }

    fn supports(&self, _: DType) -> bool {
        true
    }

    fn static_len(&self, FrameShape { layout, dtype, count }: FrameShape) -> usize {
        geometry::static_len(layout, Fields::of(dtype), count)
    }

    fn bound(&self, FrameShape { layout, dtype, count }: FrameShape) -> usize {
        geometry::bound(layout, Fields::of(dtype), count)
    }

    fn encode(
        &self,
        layout: Layout,
        dtype: DType,
        values: &[u8],
        static_out: &mut [u8],
        dynamic_out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let shape = frame::check_buffers(self, layout, dtype, values, static_out, dynamic_out)?;
        let dynamic_out = &mut dynamic_out[..self.bound(shape) - static_out.len()];
        let row = usize::try_from(self.row).unwrap_or(usize::MAX);
        let columns = columns::choose(levels::active(), Fields::of(dtype), values, row);
        let with_columns = match &columns {
            Some(vector) => self.frame(shape, values, vector, static_out, dynamic_out),
            None => None,
        };
        let dynamic_len = with_columns.or_else(|| self.frame(shape, values, &[], static_out, dynamic_out));
        Ok(dynamic_len.expect("without columns there is room for every block"))
    }
}

impl Tiered {
    /// Writes a frame with these offsets of columns, none if empty; returns the length of the dynamic section. Fails if the
    /// offsets take more room than they save, or no block uses them.
    fn frame(
        self,
        shape: FrameShape,
        values: &[u8],
        vector: &[u8],
        static_out: &mut [u8],
        dynamic_out: &mut [u8],
    ) -> Option<usize> {
        let FrameShape { layout, dtype, count } = shape;
        let fields = Fields::of(dtype);
        let front_len = geometry::front_len(layout, count);
        let Writer { front, mut bodies, mut dynamic, front_dynamic_len: mut dynamic_len } =
            Writer::new(layout, front_len, static_out, dynamic_out);
        let columns = match vector {
            [] => None,
            mut vector => Columns::read(count, &mut vector).map(|(columns, _)| columns).ok(),
        };
        dynamic.split_off_mut(..vector.len())?.copy_from_slice(vector);
        dynamic_len += vector.len();
        let table = front[HEADER_LEN..].as_chunks_mut::<ENTRY>().0;
        let kernel = levels::active();
        let streaming = StreamingStore::of_large(kernel, values.len());
        let mut encoder = Encoder::new(kernel, layout, fields, columns, streaming);
        let mut used = vector.is_empty();
        for (values, entry) in values.chunks(BLOCK * fields.width()).zip(table) {
            let static_len = static_len(layout, fields, values);
            let (body, further) = bodies.split_at_mut(static_len);
            let (chosen, len) = encoder.block(values, body, dynamic)?;
            used |= chosen.columns;
            *entry = chosen.to_bytes();
            bodies = further;
            dynamic = &mut dynamic[len..];
            dynamic_len += len;
        }
        let sum = encoder.checksum.wrapping_add(checksum::of_front(&front[HEADER_LEN..], HEADER_LEN));
        let sum = sum.wrapping_add(checksum::of_front(vector, front_len));
        frame::seal(TAG, shape, 0, dynamic_len, sum, front);
        used.then_some(dynamic_len)
    }
}

/// See [`crate::registry::Entry::pieces`]: the first tier of a coded block is in front of its rests.
pub(crate) const PIECES: Pieces = Pieces {
    piece: BLOCK,
    front_len: |count| geometry::front_len(Layout::Split, count),
    static_body: |count| static_body(Fields::of(DType::Bf16), count),
    rest_at: plane_bytes,
    tails,
};

fn tails(front: &[u8], mut dynamic: &[u8], count: usize) -> Result<Tails, DecodeError> {
    let table = front[HEADER_LEN..].as_chunks::<ENTRY>().0;
    let table = &table[..count.div_ceil(BLOCK)];
    let mut first = 0;
    if table.iter().any(entry::has_columns) {
        first = Columns::read(count, &mut dynamic)?.1.len();
    }
    let tail = |(block, bytes): (usize, &[u8; ENTRY])| {
        let count = (count - block * BLOCK).min(BLOCK);
        let entry = Entry::from_bytes(*bytes, Layout::Split, Fields::of(DType::Bf16), count)
            .map_err(|fault| DecodeError::Block { block, fault })?;
        let (planes, escapes) = tail_bytes(&entry.counts);
        let bases = entry.form.bases_len(count).next_multiple_of(ALIGN);
        Ok((entry.form != Form::Stored).then_some(bases + planes + escapes))
    };
    Ok(Tails { first, lens: table.iter().enumerate().map(tail).collect::<Result<_, _>>()? })
}

/// See [`crate::registry::Entry::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let (layout, fields) = (body.layout, Fields::of(body.dtype));
    let count = out.len() / fields.width();
    let mut sections = Reader::new(body, geometry::front_len(layout, count))?;
    let (front, mut bodies) = (sections.front, sections.bodies);
    let blocks = count.div_ceil(BLOCK);
    let (table, padding) = front[HEADER_LEN..].split_at(ENTRY * blocks);
    if padding.iter().any(|byte| *byte != 0) {
        return Err(DecodeError::Padding);
    }
    let kernel = levels::active();
    let table = table.as_chunks().0;
    let mut sum = checksum::of_front(&front[HEADER_LEN..], HEADER_LEN);
    let mut columns = None;
    if table.iter().any(entry::has_columns) {
        let (read, vector) = Columns::read(count, &mut sections.dynamic)?;
        sum = sum.wrapping_add(checksum::of_front(vector, front.len()));
        columns = Some(read);
    }
    let streaming = StreamingStore::of_large(kernel, out.len());
    let mut decoder = Decoder::new(kernel, layout, fields, columns, streaming);
    for (number, (out, entry)) in out.chunks_mut(BLOCK * fields.width()).zip(table).enumerate() {
        let fault = |fault| DecodeError::Block { block: number, fault };
        let entry = Entry::from_bytes(*entry, layout, fields, out.len() / fields.width()).map_err(fault)?;
        let (body, further) = bodies.split_at(static_len(layout, fields, out));
        let block = decoder.block(entry, number * BLOCK, body, &mut sections.dynamic, out);
        sum = sum.wrapping_add(block.map_err(fault)?);
        bodies = further;
    }
    sections.finish()?;
    Ok(sum)
}

/// Bytes of a block's part of the static section.
fn static_len(layout: Layout, fields: Fields, values: &[u8]) -> usize {
    match layout {
        Layout::Split => static_body(fields, values.len() / fields.width()),
        Layout::Compact => 0,
    }
}
