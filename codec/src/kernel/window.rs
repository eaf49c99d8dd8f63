//! Values to sign-mantissa bytes, 3-bit codes and escapes, and back.
//!
//! Eight consecutive values give a *nibble word*: their codes in natural order are the nibbles 0, 4, 1, 5, 2, 6, 3, 7,
//! so the even values are in the low half. A group of `32 * lanes` values has `4 * lanes` nibble words in four rows.
//! A code takes three bits of its nibble; the words of the last row lose theirs to the spare bits of the other three.

use super::{Coded, CodedMut, ESCAPE, EscapeIndex, GROUP, INDEX_GROUP, TILE};
use crate::TileFault;

/// A one in each of the four 16-bit lanes of a word.
const ONES: u64 = 0x0001_0001_0001_0001;
/// Nibble words of a group.
const WORDS: usize = GROUP / 8;
/// Bytes of the codes of a group.
const CODES: usize = GROUP / 8 * 3;

/// See [`super::Kernel::pack`].
pub(super) fn pack(values: &[u8], coded: CodedMut<'_>) -> EscapeIndex {
    let mut index = [0; TILE / INDEX_GROUP];
    let mut escapes = Escapes { count: 0, exponents: coded.escapes };
    let groups = values.chunks(2 * GROUP).zip(coded.rest.chunks_mut(GROUP));
    let groups = groups.zip(coded.codes.chunks_mut(CODES)).zip(index.chunks_mut(GROUP / INDEX_GROUP));
    for (((values, rest), codes), index) in groups {
        if values.len() == 2 * GROUP {
            pack_group(values, coded.start, rest, codes, &mut escapes, index);
        } else {
            // Absent values have code 0, that of the first exponent of the window.
            let mut padded_rest = [0; GROUP];
            let mut padded = [0; 2 * GROUP];
            padded.as_chunks_mut::<2>().0.fill((u16::from(coded.start) << 7).to_le_bytes());
            padded[..values.len()].copy_from_slice(values);
            let count = rest.len().next_multiple_of(32);
            let (padded, padded_rest) = (&padded[..2 * count], &mut padded_rest[..count]);
            pack_group(padded, coded.start, padded_rest, codes, &mut escapes, index);
            rest.copy_from_slice(&padded_rest[..rest.len()]);
        }
    }
    index
}

/// See [`super::Kernel::unpack`].
pub(super) fn unpack(coded: Coded<'_>, out: &mut [u8]) -> Result<EscapeIndex, TileFault> {
    let mut index = [0; TILE / INDEX_GROUP];
    let mut escapes = Escapes { count: 0, exponents: coded.escapes };
    let groups = out.chunks_mut(2 * GROUP).zip(coded.rest.chunks(GROUP));
    let groups = groups.zip(coded.codes.chunks(CODES)).zip(index.chunks_mut(GROUP / INDEX_GROUP));
    for (((out, rest), codes), index) in groups {
        let words = if out.len() == 2 * GROUP {
            unpack_group(coded.start, rest, codes, &mut escapes, out, index)
        } else {
            let mut padded_rest = [0; GROUP];
            let mut padded = [0; 2 * GROUP];
            padded_rest[..rest.len()].copy_from_slice(rest);
            let count = rest.len().next_multiple_of(32);
            let (padded, padded_rest) = (&mut padded[..2 * count], &padded_rest[..count]);
            let words = unpack_group(coded.start, padded_rest, codes, &mut escapes, padded, index);
            out.copy_from_slice(&padded[..out.len()]);
            words
        };
        if (rest.len()..rest.len().next_multiple_of(32)).any(|absent| code_of(&words, absent) != 0) {
            return Err(TileFault::Padding);
        }
    }
    if escapes.count != escapes.exponents.len() {
        return Err(TileFault::EscapeCount { expected: escapes.exponents.len(), found: escapes.count });
    }
    Ok(index)
}

/// The escapes of a tile, and how many of them the groups so far have had.
struct Escapes<T> {
    count: usize,
    exponents: T,
}

/// A group of a multiple of 32 values; `index` has the one or two entries of the group.
#[inline]
fn pack_group(
    values: &[u8],
    start: u8,
    rest: &mut [u8],
    codes: &mut [u8],
    escapes: &mut Escapes<&mut [u8]>,
    index: &mut [u16],
) {
    let mut words = [0; WORDS];
    let mut escaped = [0; WORDS];
    let shift = ONES * (256 - u64::from(start));
    let eights = values.as_chunks::<16>().0.iter().zip(rest.as_chunks_mut::<8>().0);
    for ((values, rest), (word, escaped)) in eights.zip(words.iter_mut().zip(&mut escaped)) {
        let values = u128::from_le_bytes(*values);
        let low = split_four(values as u64, shift);
        let high = split_four((values >> 64) as u64, shift);
        *rest = (u64::from(low.rest) | u64::from(high.rest) << 32).to_le_bytes();
        *word = low.codes | high.codes << 8;
        *escaped = low.escaped | high.escaped << 4;
    }

    let lanes = rest.len() / 32;
    let (rows, last) = words[..4 * lanes].split_at(3 * lanes);
    for (plane, row) in rows.chunks(lanes).enumerate() {
        let (spare, distance) = (0x1111_1111 << plane, 3 - plane);
        let out = &mut codes.as_chunks_mut::<4>().0[plane * lanes..];
        for ((out, word), last) in out.iter_mut().zip(row).zip(last) {
            *out = (word | (last & spare) << distance).to_le_bytes();
        }
    }

    for_each_escape(&escaped, &mut escapes.count, index, |position, number| {
        escapes.exponents[number] = values[2 * position] >> 7 | values[2 * position + 1] << 1;
    });
}

/// The inverse of [`pack_group`]; returns the nibble words. Escapes that are missing count, but change nothing.
#[inline]
fn unpack_group(
    start: u8,
    rest: &[u8],
    codes: &[u8],
    escapes: &mut Escapes<&[u8]>,
    out: &mut [u8],
    index: &mut [u16],
) -> [u32; WORDS] {
    let lanes = rest.len() / 32;
    let mut words = [0; WORDS];
    let (rows, last) = words[..4 * lanes].split_at_mut(3 * lanes);
    for (plane, row) in rows.chunks_mut(lanes).enumerate() {
        let (spare, distance) = (0x1111_1111 << plane, 3 - plane);
        let codes = &codes.as_chunks::<4>().0[plane * lanes..];
        for ((word, last), code) in row.iter_mut().zip(&mut *last).zip(codes) {
            let code = u32::from_le_bytes(*code);
            *word = code & 0x7777_7777;
            *last |= (code >> distance) & spare;
        }
    }

    let mut escaped = [0; WORDS];
    let shift = ONES * u64::from(start);
    let eights = out.as_chunks_mut::<16>().0.iter_mut().zip(rest.as_chunks::<8>().0);
    for ((out, rest), (word, escaped)) in eights.zip(words.iter().zip(&mut escaped)) {
        let rest = u64::from_le_bytes(*rest);
        let low = merge_four(rest as u32, *word, shift);
        let high = merge_four((rest >> 32) as u32, word >> 8, shift);
        *out = (u128::from(low) | u128::from(high) << 64).to_le_bytes();
        *escaped = escaped_of(*word);
    }

    for_each_escape(&escaped, &mut escapes.count, index, |position, number| {
        if let Some(exponent) = escapes.exponents.get(number) {
            out[2 * position] = (rest[position] & 0x7f) | (exponent << 7);
            out[2 * position + 1] = (rest[position] & 0x80) | (exponent >> 1);
        }
    });
    words
}

/// Calls `visit(position in the group, number in the tile)` for each escape of a group, counts them, and writes the
/// group's entries of the escape index. `escaped` has a bit for each value.
#[inline(always)]
fn for_each_escape(
    escaped: &[u8; WORDS],
    count: &mut usize,
    index: &mut [u16],
    mut visit: impl FnMut(usize, usize),
) {
    const STEPS: usize = INDEX_GROUP / 64;
    let mut number = *count;
    for (i, chunk) in escaped.as_chunks::<8>().0.iter().enumerate() {
        if let (0, Some(entry)) = (i % STEPS, index.get_mut(i / STEPS)) {
            *entry = number as u16;
        }
        let mut bits = u64::from_le_bytes(*chunk);
        while bits != 0 {
            visit(64 * i + bits.trailing_zeros() as usize, number);
            number += 1;
            bits &= bits - 1;
        }
    }
    *count = number;
}

/// The code of the value at `position`.
fn code_of(words: &[u32; WORDS], position: usize) -> u32 {
    let nibble = position % 8 / 2 + position % 2 * 4;
    words[position / 8] >> (4 * nibble) & 7
}

/// Four values, taken apart.
struct Four {
    /// Sign and mantissa, a byte each.
    rest: u32,
    /// Codes in the nibbles 0, 4, 1, 5.
    codes: u32,
    /// A bit for each value outside the window.
    escaped: u8,
}

/// `shift` has 256 less the first exponent of the window in each lane.
#[inline(always)]
fn split_four(values: u64, shift: u64) -> Four {
    let rest = values & (ONES * 0x7f) | values >> 8 & (ONES * 0x80);
    let rest = (rest | rest >> 8) & 0x0000_ffff_0000_ffff;
    let distance = ((values >> 7 & (ONES * 0xff)) + shift) & (ONES * 0xff);
    let escaped = (distance + ONES * 249) >> 8 & ONES;
    let codes = (distance | (escaped * u64::from(ESCAPE))) & (ONES * 7);
    Four {
        rest: (rest | rest >> 16) as u32,
        codes: (codes | codes >> 28) as u32,
        // Moves bits 0, 16, 32, 48 to 48, 49, 50, 51.
        escaped: (escaped.wrapping_mul(0x0001_0002_0004_0008) >> 48) as u8,
    }
}

/// Four values from their `rest` bytes and the nibbles 0, 4, 1, 5 of `codes`; `shift` has the first exponent of the
/// window in each lane. An escape gives a value that is not valid yet.
#[inline(always)]
fn merge_four(rest: u32, codes: u32, shift: u64) -> u64 {
    let codes = u64::from(codes & 0x0007_0007) | u64::from(codes & 0x0070_0070) << 28;
    let rest = (u64::from(rest) | u64::from(rest) << 16) & 0x0000_ffff_0000_ffff;
    let rest = (rest | rest << 8) & (ONES * 0xff);
    (rest & (ONES * 0x80)) << 8 | rest & (ONES * 0x7f) | (codes + shift) << 7
}

/// A bit for each value of a nibble word that is an escape, in natural order.
#[inline(always)]
fn escaped_of(word: u32) -> u8 {
    let nibbles = word & word >> 1 & word >> 2 & 0x1111_1111;
    let pairs = (nibbles | nibbles >> 15) & 0x3333;
    let fours = (pairs | pairs >> 2) & 0x0f0f;
    (fours | fours >> 4) as u8
}
