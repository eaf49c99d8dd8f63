//! `codebook16`: the sixteen most frequent exponents as 4-bit codes, all others as a sparse list, after SplitZip.
//!
//! Codes and rests, sign and mantissa, have a fixed length and are decoded without looking at anything else; an exponent
//! that has no code is an escape, whose position and exponent correct it afterwards. The frame carries its book of
//! sixteen exponents: those of a sample of its own values, or a [`Codebook`] that was calibrated before.
//!
//! It is not an entropy coder, and its size hardly depends on the values: BF16 takes 12 bits each and FP8 E5M2 takes 7.
//! FP8 E4M3 has sixteen exponents in all: a code takes as much as the exponent, and nothing but zeros is saved.

mod book;
mod escapes;
mod fields;
mod front;
mod tiles;
mod usage;

pub use book::Codebook;
pub use usage::BookUsage;

use crate::error::in_tile;
use crate::kernel::TILE;
use crate::tile::Mode;
use fields::Fields;
use front::Front;
use front::{ENTRY, Entry, TABLE, static_body};
use tiles::{Decoder, Encoder};
use zipwire_codec::checksum::{self, PART_BYTES, WORD};
use zipwire_codec::frame::{self, HEADER_LEN};
use zipwire_codec::options::{self, Choice, Value};
use zipwire_codec::sections::{Body, Pieces, TableFns, Tails, Writer};
use zipwire_codec::streaming_store::StreamingStore;
use zipwire_codec::{Checked, EncodeChecked};
use zipwire_codec::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, Table, TableUsage};

/// Tag in frame headers.
pub(crate) const TAG: u8 = 3;

/// Sixteen exponents as codes of 4 bits, all others as a sparse list (SplitZip): BF16, F8_E4M3 and F8_E5M2.
///
/// The specs are `codebook16` and, with a book that many frames share, `codebook16:table=ID`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codebook16 {
    /// The book of all frames; none if each has its own.
    book: Option<Codebook>,
    /// Whether frames name it instead of carrying it.
    shared: bool,
}

impl Codebook16 {
    pub(crate) const ID: &str = "codebook16";

    /// A book for each frame, from a sample of its own values.
    pub const fn new() -> Self {
        Self { book: None, shared: false }
    }

    /// One book for all frames, which carry it. The codec then supports the type of the book only.
    #[must_use]
    pub const fn book(self, book: Codebook) -> Self {
        Self { book: Some(book), shared: false }
    }

    /// One book for all frames, which name it by [`Codebook::id`] and leave its place in them empty: they are read by a
    /// [`zipwire_codec::Decoder`] that has [`Codebook::table`].
    ///
    /// They are as long as others, as lengths depend on no option: a book is 16 bytes. What is gained is that a frame of
    /// another book than both ends agreed on is an error.
    #[must_use]
    pub const fn shared_book(self, book: Codebook) -> Self {
        Self { book: Some(book), shared: true }
    }
}

impl EncodeChecked for Codebook16 {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        let Checked { shape, values, static_out, dynamic_out } = frame;
        let FrameShape { layout, dtype, .. } = shape;
        let fields = Fields::of(dtype).ok_or(EncodeError::Unsupported { codec: Self::ID, dtype })?;
        let book = match self.book {
            Some(book) => book,
            None => book::of_frame(dtype, values)?,
        };
        let front_len = front::front_len(layout, shape.count);
        let Writer { front, mut bodies, mut dynamic, front_dynamic_len: mut dynamic_len } =
            Writer::new(layout, front_len, static_out, dynamic_out);
        if !self.shared {
            front[HEADER_LEN..TABLE].copy_from_slice(book.exponents());
        }
        let mut entries = front[TABLE..].as_chunks_mut::<ENTRY>().0.iter_mut();
        let kernel = crate::kernel::active();
        let streaming = StreamingStore::of_large(kernel, values.len());
        let mut encoder = Encoder::new(kernel, layout, fields, book.exponents(), streaming);
        let mut sum = 0u32;
        for (number, block) in values.chunks(PART_BYTES).enumerate() {
            let word = (number * PART_BYTES / WORD) as u64;
            let mut of_block = None;
            for (values, entry) in block.chunks(TILE * fields.width()).zip(&mut entries) {
                let (body, further) = bodies.split_at_mut(static_len(layout, fields, values));
                let (chosen, len) = encoder.tile(values, word, body, dynamic);
                *entry = chosen.to_bytes();
                bodies = further;
                dynamic = &mut dynamic[len..];
                dynamic_len += len;
                // What can be summed is a block of its own.
                of_block = encoder.sum;
            }
            let of_block =
                of_block.unwrap_or_else(|| checksum::of_values_at(kernel, block, number * PART_BYTES));
            sum = sum.wrapping_add(of_block);
        }
        let table = if self.shared { book.id() } else { 0 };
        frame::seal(TAG, shape, table, dynamic_len, sum, front);
        Ok(dynamic_len)
    }
}

impl Codec for Codebook16 {
    fn id(&self) -> &'static str {
        Self::ID
    }

    fn supports(&self, dtype: DType) -> bool {
        Fields::of(dtype).is_some() && self.book.is_none_or(|book| book.dtype() == dtype)
    }

    fn static_len(&self, FrameShape { layout, dtype, count }: FrameShape) -> usize {
        Fields::of(dtype).map_or(0, |fields| front::static_len(layout, fields, count))
    }

    fn bound(&self, FrameShape { layout, dtype, count }: FrameShape) -> usize {
        Fields::of(dtype).map_or(0, |fields| front::bound(layout, fields, count))
    }
}

/// `table`: the book that frames name.
pub(crate) const OPTIONS: &[Choice] = &[options::TABLE];

/// See [`zipwire_codec::registry::Entry::tables`].
pub(crate) const TABLES: TableFns = TableFns { train, build: build_with, usage };

fn build_with(_: &[Value], table: &Table) -> Result<Box<dyn Codec>, DecodeError> {
    Ok(Box::new(Codebook16::new().shared_book(Codebook::read(table)?)))
}

/// See [`TableFns::train`]. A book is the same in all layouts.
fn train(_: &[Value], _: Layout, dtype: DType, samples: &[&[u8]]) -> Result<Option<Table>, EncodeError> {
    let book = Codebook::calibrate(dtype, samples.iter().copied())?;
    Ok(samples.iter().any(|values| !values.is_empty()).then(|| book.table()))
}

/// See [`TableFns::usage`].
fn usage(body: &Body<'_>, count: usize) -> Result<TableUsage, DecodeError> {
    let BookUsage { coded, escapes, stored, .. } = BookUsage::of_body(body, count)?;
    let [coded, escapes, others] = [coded, escapes, stored].map(|values| values as u64);
    Ok(TableUsage { coded, escapes, others })
}

/// See [`zipwire_codec::registry::Entry::pieces`]: a coded tile begins with its rests.
pub(crate) const PIECES: Pieces = Pieces {
    piece: TILE,
    front_len: |count| front::front_len(Layout::Split, count),
    static_body: |count| static_body(Fields::Bf16, count),
    rest_at: |_| 0,
    tails,
};

fn tails(front: &[u8], _: &[u8], count: usize) -> Result<Tails, DecodeError> {
    let table = front[TABLE..].as_chunks::<ENTRY>().0.iter().take(count.div_ceil(TILE));
    let tail = |(tile, entry): (usize, &[u8; ENTRY])| {
        let count = (count - tile * TILE).min(TILE);
        let entry = Entry::from_bytes(*entry, Layout::Split, Fields::Bf16, count)
            .map_err(|fault| in_tile(Codebook16::ID, tile, fault))?;
        let escapes = || entry.positions.len(usize::from(entry.coded), usize::from(entry.escapes));
        Ok((entry.mode == Mode::Coded).then(escapes))
    };
    Ok(Tails { first: 0, lens: table.enumerate().map(tail).collect::<Result<_, DecodeError>>()? })
}

/// See [`zipwire_codec::registry::Of::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let layout = body.layout;
    let mut front = Front::read(body, out.len() / body.dtype.width())?;
    let (fields, mut bodies) = (front.fields, front.sections.bodies);
    let book = front.book;
    let kernel = crate::kernel::active();
    let mut decoder = Decoder::new(kernel, layout, fields, book.exponents());
    let mut streaming = StreamingStore::of_large(kernel, out.len());
    let (mut tile, mut sum) = (0, 0u32);
    for (number, out) in out.chunks_mut(PART_BYTES).enumerate() {
        if fields == Fields::Bf16 {
            let entry = front.entry(tile)?;
            if entry.mode == Mode::Coded {
                let (body, further) = bodies.split_at(static_len(layout, fields, out));
                let (dynamic, word) = (&mut front.sections.dynamic, (number * PART_BYTES / WORD) as u64);
                let found = decoder.pass(entry, body, dynamic, word, &mut streaming, out);
                sum = sum.wrapping_add(found.map_err(|fault| in_tile(Codebook16::ID, tile, fault))?);
                bodies = further;
                tile += 1;
                continue;
            }
        }
        let block = StreamingStore::strip_for(&mut streaming, out);
        for out in block.chunks_mut(TILE * fields.width()) {
            let entry = front.entry(tile)?;
            let (body, further) = bodies.split_at(static_len(layout, fields, out));
            let fault = |fault| in_tile(Codebook16::ID, tile, fault);
            decoder.tile(entry, body, &mut front.sections.dynamic, out).map_err(fault)?;
            bodies = further;
            tile += 1;
        }
        sum = sum.wrapping_add(checksum::of_values_at(kernel, block, number * PART_BYTES));
        StreamingStore::flush(&streaming, out);
    }
    sum = sum.wrapping_add(checksum::of_front(&front.sections.front[HEADER_LEN..], HEADER_LEN));
    front.sections.finish()?;
    Ok(sum)
}

/// Bytes of a tile's part of the static section.
fn static_len(layout: Layout, fields: Fields, values: &[u8]) -> usize {
    match layout {
        Layout::Split => static_body(fields, values.len() / fields.width()),
        Layout::Compact => 0,
    }
}

// Both kinds of tiles divide a block of the checksum.
const _: () = assert!(PART_BYTES == 2 * TILE);
