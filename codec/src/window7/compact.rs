//! The compact layout: tile table and bodies, nothing else. Exact zeros are taken out where that pays.

use super::geometry::{COMPACT_ENTRY, code_bytes, compact_index};
use super::mode::Tile;
use super::search::Search;
use super::{Window7, tile_sum};
use crate::header::HEADER_LEN;
use crate::kernel::{self, Coded, CodedMut, Kernel, TILE};
use crate::sections::Reader;
use crate::tile::{Mode, check_mask, mask_len};
use crate::{DecodeError, TileFault};

/// Writes tile table and `bodies`; returns the length of the latter and the checksum of the values.
pub(super) fn encode(codec: &Window7, values: &[u8], front: &mut [u8], bodies: &mut [u8]) -> (usize, u32) {
    let kernel = kernel::active();
    let table = front[HEADER_LEN..].as_chunks_mut::<COMPACT_ENTRY>().0;
    let mut kept = [0; 2 * TILE];
    let (mut position, mut sum, mut last_start) = (0, 0u32, None);
    for (number, (values, entry)) in values.chunks(2 * TILE).zip(table).enumerate() {
        sum = sum.wrapping_add(tile_sum(kernel, number, values));
        let tile = choose(codec, kernel, values, last_start);
        *entry = tile.to_compact();
        let body_len = body_len(&tile, values.len() / 2);
        let body = &mut bodies[position..][..body_len];
        position += body_len;
        if tile.coded > 0 {
            last_start = Some(tile.start);
        }
        match tile.mode {
            Mode::Zero => {}
            Mode::Stored => body.copy_from_slice(values),
            Mode::Coded => pack(&tile, values, body),
            Mode::Masked => {
                let (mask, body) = body.split_at_mut(mask_len(values.len() / 2));
                let coded = (kernel.drop_zeros)(values, mask, &mut kept);
                pack(&tile, &kept[..2 * coded], body);
            }
        }
    }
    (position, sum)
}

/// Reads what [`encode`] writes, and returns the checksum of the values.
pub(super) fn decode(mut reader: Reader<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let kernel = kernel::active();
    let table = reader.front[HEADER_LEN..].as_chunks::<COMPACT_ENTRY>().0;
    let mut kept = [0; 2 * TILE];
    let mut sum = 0u32;
    for (number, (out, entry)) in out.chunks_mut(2 * TILE).zip(table).enumerate() {
        let fault = |fault| DecodeError::Tile { tile: number, fault };
        let count = out.len() / 2;
        let tile = Tile::from_compact(*entry, count).map_err(fault)?;
        let body = reader.dynamic.split_off(..body_len(&tile, count)).ok_or(fault(TileFault::Overrun))?;
        match tile.mode {
            Mode::Zero => out.fill(0),
            Mode::Stored => out.copy_from_slice(body),
            Mode::Coded => unpack(&tile, body, out).map_err(fault)?,
            Mode::Masked => {
                let (mask, body) = body.split_at(mask_len(count));
                check_mask(mask, count, tile.coded).map_err(fault)?;
                let kept = &mut kept[..2 * usize::from(tile.coded)];
                unpack(&tile, body, kept).map_err(fault)?;
                (kernel.restore_zeros)(mask, kept, out);
            }
        }
        sum = sum.wrapping_add(tile_sum(kernel, number, out));
    }
    reader.finish()?;
    Ok(sum)
}

/// The shortest form. `last_start` is the window of the tile before.
fn choose(codec: &Window7, kernel: &Kernel, values: &[u8], last_start: Option<u8>) -> Tile {
    let count = values.len() / 2;
    let mut search = Search::new(kernel, values, last_start);
    let zeros = search.zeros();
    if zeros == count {
        return Tile::uncoded(Mode::Zero);
    }
    let mut candidate = |mode, coded: usize, zeros: usize| {
        let (start, escapes) = codec.window(values, zeros, &mut search);
        Tile { mode, start, escapes: escapes as u16, coded: coded as u16 }
    };
    let coded = candidate(Mode::Coded, count, 0);
    let masked = (zeros > 0).then(|| candidate(Mode::Masked, count - zeros, zeros));
    // Of equal lengths the first wins.
    [Some(Tile::uncoded(Mode::Stored)), Some(coded), masked]
        .into_iter()
        .flatten()
        .min_by_key(|tile| body_len(tile, count))
        .expect("there are always two candidates")
}

/// Bytes of the body of a tile of `count` values.
fn body_len(tile: &Tile, count: usize) -> usize {
    let (coded, escapes) = (usize::from(tile.coded), usize::from(tile.escapes));
    let coded_len = coded + code_bytes(coded) + compact_index(coded, escapes) + escapes;
    match tile.mode {
        Mode::Zero => 0,
        Mode::Stored => 2 * count,
        Mode::Coded => coded_len,
        Mode::Masked => mask_len(count) + coded_len,
    }
}

/// Writes rest, codes, escape index and escapes.
fn pack(tile: &Tile, values: &[u8], body: &mut [u8]) {
    let coded = values.len() / 2;
    let (rest, body) = body.split_at_mut(coded);
    let (codes, body) = body.split_at_mut(code_bytes(coded));
    let (index_bytes, escapes) = body.split_at_mut(compact_index(coded, usize::from(tile.escapes)));
    let index = (kernel::active().pack)(values, CodedMut { starts: &[tile.start; 16], rest, codes, escapes });
    for (bytes, offset) in index_bytes.as_chunks_mut::<2>().0.iter_mut().zip(&index[1..]) {
        *bytes = offset.to_le_bytes();
    }
}

/// Reads what [`pack`] writes.
fn unpack(tile: &Tile, body: &[u8], out: &mut [u8]) -> Result<(), TileFault> {
    let coded = out.len() / 2;
    let (rest, body) = body.split_at(coded);
    let (codes, body) = body.split_at(code_bytes(coded));
    let (index_bytes, escapes) = body.split_at(compact_index(coded, usize::from(tile.escapes)));
    let index = (kernel::active().unpack)(Coded { starts: &[tile.start; 16], rest, codes, escapes }, out)?;
    let stored = index_bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
    if stored.zip(&index[1..]).any(|(stored, computed)| stored != *computed) {
        return Err(TileFault::EscapeIndex);
    }
    Ok(())
}
