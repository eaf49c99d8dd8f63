//! `codebook16`: the sixteen most frequent exponents as 4-bit codes, all others as a sparse list, after SplitZip.
//!
//! Codes and rests, sign and mantissa, have a fixed length and are decoded without looking at anything else; an exponent
//! that has no code is an escape, whose position and exponent correct it afterwards. The frame carries its book of
//! sixteen exponents: those of a sample of its own values, or a [`Codebook`] that was calibrated before.
//!
//! It is not an entropy coder, and its size hardly depends on the values: BF16 takes 12 bits each and FP8 E5M2 takes 7.
//! FP8 E4M3 has sixteen exponents in all: a code takes as much as the exponent, and nothing but zeros is saved.

mod book;
mod decode;
mod encode;
mod entry;
mod escapes;
mod fields;
mod front;
mod geometry;
mod usage;

use crate::apart::{Pieces, Tails};
use crate::checksum::{self, BLOCK_BYTES};
use crate::frame::{self, Body};
use crate::header::HEADER_LEN;
use crate::kernel::{self, TILE};
use crate::past::Past;
use crate::sections::Writer;
use crate::tile::Mode;
use crate::{Codec, DType, DecodeError, EncodeError, Layout};
pub use book::Codebook;
use decode::Decoder;
use encode::Encoder;
use entry::{ENTRY, Entry};
use fields::Fields;
use front::Front;
use geometry::{TABLE, static_body};
pub use usage::BookUsage;

/// The codec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codebook16 {
    /// The book of all frames; none if each has its own.
    book: Option<Codebook>,
}

impl Codebook16 {
    const ID: &str = "codebook16";

    /// A book for each frame, from a sample of its own values.
    pub(crate) const DEFAULT: Self = Self { book: None };
}

impl Codec for Codebook16 {
    fn id(&self) -> &'static str {
        Self::ID
    }

    fn supports(&self, dtype: DType) -> bool {
        Fields::of(dtype).is_some() && self.book.is_none_or(|book| book.dtype() == dtype)
    }

    fn static_len(&self, layout: Layout, dtype: DType, count: usize) -> usize {
        Fields::of(dtype).map_or(0, |fields| geometry::static_len(layout, fields, count))
    }

    fn bound(&self, layout: Layout, dtype: DType, count: usize) -> usize {
        Fields::of(dtype).map_or(0, |fields| geometry::bound(layout, fields, count))
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
        let fields = Fields::of(dtype).ok_or(EncodeError::Unsupported { codec: Self::ID, dtype })?;
        let book = match self.book {
            Some(book) => book,
            None => Codebook::calibrate(dtype, [&book::sample(dtype, values)[..]])?,
        };
        let front_len = geometry::front_len(layout, count);
        let Writer { front, mut bodies, mut dynamic, front_dynamic_len: mut dynamic_len } =
            Writer::new(layout, front_len, static_out, dynamic_out);
        front[HEADER_LEN..TABLE].copy_from_slice(book.exponents());
        let mut entries = front[TABLE..].as_chunks_mut::<ENTRY>().0.iter_mut();
        let kernel = kernel::active();
        let past = Past::of_large(kernel, values.len());
        let mut encoder = Encoder::new(kernel, layout, fields, book.exponents(), past);
        let mut sum = 0u32;
        for (number, block) in values.chunks(BLOCK_BYTES).enumerate() {
            sum = sum.wrapping_add(checksum::of_values_at(kernel, block, number * BLOCK_BYTES));
            for (values, entry) in block.chunks(TILE * fields.width()).zip(&mut entries) {
                let (body, further) = bodies.split_at_mut(static_len(layout, fields, values));
                let (chosen, len) = encoder.tile(values, body, dynamic);
                *entry = chosen.to_bytes();
                bodies = further;
                dynamic = &mut dynamic[len..];
                dynamic_len += len;
            }
        }
        let sum = sum.wrapping_add(checksum::of_front(&front[HEADER_LEN..], HEADER_LEN));
        frame::seal(self, (layout, dtype, count), dynamic_len, sum, front);
        Ok(dynamic_len)
    }
}

/// See [`crate::registry::Entry::pieces`]: a coded tile begins with its rests.
pub(crate) const PIECES: Pieces = Pieces {
    piece: TILE,
    front_len: |count| geometry::front_len(Layout::Split, count),
    static_body: |count| static_body(Fields::Bf16, count),
    rest_at: |_| 0,
    tails,
};

fn tails(front: &[u8], _: &[u8], count: usize) -> Result<Tails, DecodeError> {
    let table = front[TABLE..].as_chunks::<ENTRY>().0.iter().take(count.div_ceil(TILE));
    let tail = |(tile, entry): (usize, &[u8; ENTRY])| {
        let count = (count - tile * TILE).min(TILE);
        let entry = Entry::from_bytes(*entry, Layout::Split, Fields::Bf16, count)
            .map_err(|fault| DecodeError::Tile { tile, fault })?;
        let escapes = || entry.positions.len(usize::from(entry.coded), usize::from(entry.escapes));
        Ok((entry.mode == Mode::Coded).then(escapes))
    };
    Ok(Tails { first: 0, lens: table.enumerate().map(tail).collect::<Result<_, _>>()? })
}

/// See [`crate::registry::Entry::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let layout = body.layout;
    let mut front = Front::read(body, out.len() / body.dtype.width())?;
    let (fields, mut bodies) = (front.fields, front.sections.bodies);
    let book = front.book;
    let kernel = kernel::active();
    let mut decoder = Decoder::new(kernel, layout, fields, book.exponents());
    let mut past = Past::of_large(kernel, out.len());
    let (mut tile, mut sum) = (0, 0u32);
    for (number, out) in out.chunks_mut(BLOCK_BYTES).enumerate() {
        let block = Past::strip_for(&mut past, out);
        for out in block.chunks_mut(TILE * fields.width()) {
            let entry = front.entry(tile)?;
            let (body, further) = bodies.split_at(static_len(layout, fields, out));
            let fault = |fault| DecodeError::Tile { tile, fault };
            decoder.tile(entry, body, &mut front.sections.dynamic, out).map_err(fault)?;
            bodies = further;
            tile += 1;
        }
        sum = sum.wrapping_add(checksum::of_values_at(kernel, block, number * BLOCK_BYTES));
        Past::flush(&past, out);
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
const _: () = assert!(BLOCK_BYTES == 2 * TILE);
