//! The split layout: tile table, escape index and bodies of known length first; windows that groups have of their own,
//! escapes, and what stored tiles have left over, in the dynamic section.

use std::ops::Range;

use super::coder::{self, Coder, Out};
use super::tile::{Fields, SPLIT_ENTRY, Tile, has_codes, static_body};
use super::tile_sum;
use crate::checksum::fold;
use crate::frame::HEADER_LEN;
use crate::kernel::{INDEX_GROUP, Kernel, TILE};
use crate::scale::Estimator;
use crate::sections::{self, Reader, Tails, Writer};
use crate::streaming_store::StreamingStore;
use crate::tile::Mode;
use crate::{DType, DecodeError, TileFault};

/// Writes tile table, escape index, bodies and the dynamic section; returns the latter's length and the checksum of the
/// values.
pub(super) fn encode(
    kernel: &'static Kernel,
    scale: Estimator,
    dtype: DType,
    values: &[u8],
    Writer { front, bodies, dynamic, .. }: &mut Writer<'_>,
) -> (usize, u32) {
    let width = dtype.width();
    let fields = Fields::of(kernel, dtype);
    let mut coder = Coder::new(kernel, scale);
    let index_at = index_range(values.len() / width);
    let (table, index_bytes) = front[..index_at.end].split_at_mut(index_at.start);
    let table = table[HEADER_LEN..].as_chunks_mut::<SPLIT_ENTRY>().0;
    let indexes = index_bytes.chunks_mut(2 * TILE / INDEX_GROUP);
    let bodies = bodies.chunks_mut(static_body(dtype, TILE));
    let (mut position, mut sum) = (0, 0u32);
    let (mut room, mut starts) = ([0; 2 * TILE], [0; TILE / INDEX_GROUP]);
    let mut streaming = StreamingStore::of_large(kernel, values.len());
    for (number, (((values, entry), index_bytes), body)) in
        values.chunks(width * TILE).zip(table).zip(indexes).zip(bodies).enumerate()
    {
        let count = values.len() / width;
        let mut of_tile = None;
        let dynamic = &mut dynamic[position..];
        if has_codes(count) {
            let (lower, coded) = body.split_at_mut(fields.lower_width() * count);
            let word = fields.word(number);
            let mut out = Out::new(&mut streaming, coded, count);
            let choice = coder.code(fields.upper(values, &mut room), word, &mut out, &mut starts);
            of_tile = word.map(|_| fold(choice.sum));
            let escapes_at = choice.starts.len();
            let len = escapes_at + choice.escapes.len();
            if static_body(dtype, count) + len < values.len() {
                fields.write_lower(values, lower);
                Out::flush(&streaming, coded);
                dynamic[..escapes_at].copy_from_slice(choice.starts);
                dynamic[escapes_at..len].copy_from_slice(choice.escapes);
                for (bytes, offset) in index_bytes.as_chunks_mut::<2>().0.iter_mut().zip(choice.index) {
                    *bytes = offset.to_le_bytes();
                }
                *entry = Tile::coded(Mode::Coded, &choice, count).to_split();
                position += len;
                sum = sum.wrapping_add(of_tile.unwrap_or_else(|| tile_sum(kernel, dtype, number, values)));
                continue;
            }
        }
        *entry = Tile::uncoded(Mode::Stored).to_split();
        StreamingStore::settle(&streaming);
        position += sections::store(values, body, dynamic);
        sum = sum.wrapping_add(of_tile.unwrap_or_else(|| tile_sum(kernel, dtype, number, values)));
    }
    (position, sum)
}

/// Reads what [`encode`] writes, and returns the checksum of the values.
pub(super) fn decode(
    kernel: &'static Kernel,
    dtype: DType,
    mut reader: Reader<'_>,
    out: &mut [u8],
) -> Result<u32, DecodeError> {
    let (width, front) = (dtype.width(), reader.front);
    let fields = Fields::of(kernel, dtype);
    let index_at = index_range(out.len() / width);
    if front[index_at.end..].iter().any(|byte| *byte != 0) {
        return Err(DecodeError::Padding);
    }
    let table = front[HEADER_LEN..index_at.start].as_chunks::<SPLIT_ENTRY>().0;
    let indexes = front[index_at].chunks(2 * TILE / INDEX_GROUP);
    let bodies = reader.bodies.chunks(static_body(dtype, TILE));
    let (mut sum, mut room, mut streaming) = (0u32, [0; 2 * TILE], fields.streaming(out.len()));
    for (number, (((to, entry), index_bytes), body)) in
        out.chunks_mut(width * TILE).zip(table).zip(indexes).zip(bodies).enumerate()
    {
        let fault = |fault| DecodeError::Tile { tile: number, fault };
        let count = to.len() / width;
        let tile = Tile::from_split(*entry, count).map_err(fault)?;
        let direct = tile.mode == Mode::Coded && StreamingStore::is_direct(&streaming);
        let out = if direct { &mut *to } else { StreamingStore::strip_for(&mut streaming, to) };
        let mut index = [0; TILE / INDEX_GROUP];
        let mut of_tile = None;
        if tile.mode == Mode::Coded {
            let part = reader.dynamic.split_off(..tile.windows() + usize::from(tile.escapes));
            let (starts, escapes) = part.ok_or(fault(TileFault::Overrun))?.split_at(tile.windows());
            let (lower, coded) = body.split_at(fields.lower_width() * count);
            let (rest, codes) = coded.split_at(count);
            let unpack = |out: &mut [u8]| {
                let word = fields.word(number);
                let parts = (rest, codes, escapes);
                let unpacked = coder::unpack(kernel, tile.start, starts, parts, word, direct, out)?;
                index = unpacked.index;
                of_tile = word.map(|_| fold(unpacked.sum));
                Ok(())
            };
            fields.join(lower, out, &mut room, unpack).map_err(fault)?;
        } else {
            sections::restore(body, &mut reader.dynamic, out).ok_or(fault(TileFault::Overrun))?;
        }
        let stored = index_bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        if stored.zip(index).any(|(stored, computed)| stored != computed) {
            return Err(fault(TileFault::EscapeIndex));
        }
        sum = sum.wrapping_add(of_tile.unwrap_or_else(|| tile_sum(kernel, dtype, number, out)));
        if !direct {
            StreamingStore::flush(&streaming, to);
        }
    }
    reader.finish()?;
    Ok(sum)
}

/// See [`crate::sections::Pieces::tails`].
pub(super) fn tails(front: &[u8], _: &[u8], count: usize) -> Result<Tails, DecodeError> {
    let table = front[HEADER_LEN..index_range(count).start].as_chunks::<SPLIT_ENTRY>().0;
    let tail = |(number, entry): (usize, &[u8; SPLIT_ENTRY])| {
        let tile = Tile::from_split(*entry, (count - number * TILE).min(TILE))
            .map_err(|fault| DecodeError::Tile { tile: number, fault })?;
        Ok((tile.mode == Mode::Coded).then(|| tile.windows() + usize::from(tile.escapes)))
    };
    Ok(Tails { first: 0, lens: table.iter().enumerate().map(tail).collect::<Result<_, _>>()? })
}

/// Range of the escape index in the front matter of `count` values; the tile table is before it, padding behind it.
fn index_range(count: usize) -> Range<usize> {
    let start = HEADER_LEN + SPLIT_ENTRY * count.div_ceil(TILE);
    start..start + 2 * count.div_ceil(INDEX_GROUP)
}
