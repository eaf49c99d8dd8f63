//! The split layout: tile table, escape index and bodies of known length first; escapes, and what stored tiles have
//! left over, in the dynamic section.

use std::ops::Range;

use super::geometry::{SPLIT_ENTRY, has_codes, static_body};
use super::mode::Tile;
use super::search::Search;
use super::{Window7, tile_sum};
use crate::header::HEADER_LEN;
use crate::kernel::{self, Coded, CodedMut, INDEX_GROUP, TILE};
use crate::sections::{self, Reader};
use crate::tile::Mode;
use crate::{DecodeError, TileFault};

/// Writes tile table, escape index, padding, `bodies` and the dynamic section; returns the latter's length and the
/// checksum of the values.
pub(super) fn encode(
    codec: &Window7,
    values: &[u8],
    front: &mut [u8],
    bodies: &mut [u8],
    dynamic: &mut [u8],
) -> (usize, u32) {
    let kernel = kernel::active();
    let index_at = index_range(values.len() / 2);
    let (table, index_bytes) = front[..index_at.end].split_at_mut(index_at.start);
    let table = table[HEADER_LEN..].as_chunks_mut::<SPLIT_ENTRY>().0;
    let indexes = index_bytes.chunks_mut(2 * TILE / INDEX_GROUP);
    let bodies = bodies.chunks_mut(static_body(TILE));
    let (mut position, mut sum, mut last_start) = (0, 0u32, None);
    for (number, (((values, entry), index_bytes), body)) in
        values.chunks(2 * TILE).zip(table).zip(indexes).zip(bodies).enumerate()
    {
        sum = sum.wrapping_add(tile_sum(kernel, number, values));
        let tile = choose(codec, Search::new(kernel, values, last_start), values);
        *entry = tile.to_split();
        let dynamic = &mut dynamic[position..];
        position += if tile.mode == Mode::Coded {
            last_start = Some(tile.start);
            let escapes = usize::from(tile.escapes);
            let (rest, codes) = body.split_at_mut(values.len() / 2);
            let escapes_out = &mut dynamic[..escapes];
            let starts = &[tile.start; TILE / INDEX_GROUP];
            let coded = CodedMut { starts, rest, codes, escapes: escapes_out };
            let index = (kernel.pack)(values, coded);
            for (bytes, offset) in index_bytes.as_chunks_mut::<2>().0.iter_mut().zip(index) {
                *bytes = offset.to_le_bytes();
            }
            escapes
        } else {
            sections::store(values, body, dynamic)
        };
    }
    (position, sum)
}

/// Reads what [`encode`] writes, and returns the checksum of the values.
pub(super) fn decode(mut reader: Reader<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let (kernel, front) = (kernel::active(), reader.front);
    let index_at = index_range(out.len() / 2);
    if front[index_at.end..].iter().any(|byte| *byte != 0) {
        return Err(DecodeError::Padding);
    }
    let table = front[HEADER_LEN..index_at.start].as_chunks::<SPLIT_ENTRY>().0;
    let indexes = front[index_at].chunks(2 * TILE / INDEX_GROUP);
    let bodies = reader.bodies.chunks(static_body(TILE));
    let mut sum = 0u32;
    for (number, (((out, entry), index_bytes), body)) in
        out.chunks_mut(2 * TILE).zip(table).zip(indexes).zip(bodies).enumerate()
    {
        let fault = |fault| DecodeError::Tile { tile: number, fault };
        let tile = Tile::from_split(*entry, out.len() / 2).map_err(fault)?;
        let index = if tile.mode == Mode::Coded {
            let escapes = reader.dynamic.split_off(..usize::from(tile.escapes));
            let escapes = escapes.ok_or(fault(TileFault::Overrun))?;
            let (rest, codes) = body.split_at(out.len() / 2);
            let starts = &[tile.start; TILE / INDEX_GROUP];
            (kernel.unpack)(Coded { starts, rest, codes, escapes }, out).map_err(fault)?
        } else {
            sections::restore(body, &mut reader.dynamic, out).ok_or(fault(TileFault::Overrun))?;
            [0; TILE / INDEX_GROUP]
        };
        let stored = index_bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        if stored.zip(index).any(|(stored, computed)| stored != computed) {
            return Err(fault(TileFault::EscapeIndex));
        }
        sum = sum.wrapping_add(tile_sum(kernel, number, out));
    }
    reader.finish()?;
    Ok(sum)
}

/// Coded if that is shorter than stored.
fn choose(codec: &Window7, mut search: Search<'_>, values: &[u8]) -> Tile {
    let count = values.len() / 2;
    if has_codes(count) {
        let (start, escapes) = codec.window(values, 0, &mut search);
        if static_body(count) + escapes < 2 * count {
            return Tile { mode: Mode::Coded, start, escapes: escapes as u16, coded: count as u16 };
        }
    }
    Tile::uncoded(Mode::Stored)
}

/// Where the escape index is in the front matter of `count` values; the tile table is before it, padding behind it.
fn index_range(count: usize) -> Range<usize> {
    let start = HEADER_LEN + SPLIT_ENTRY * count.div_ceil(TILE);
    start..start + 2 * count.div_ceil(INDEX_GROUP)
}
