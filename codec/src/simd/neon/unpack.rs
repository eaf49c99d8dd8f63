//! The inverse of packing.

use std::arch::aarch64::*;

use super::super::escapes::{Exponents, put_escapes};
use super::pack::middle_exchanged;
use super::sums;
use super::vector::{bits, join_16, load, store, store_values};
use crate::TileFault;
use crate::kernel::window::{CODES, WINDOWS, unpack_groups};
use crate::kernel::{CODE_GROUP, Coded, ESCAPE, Unpacked};

/// Vectors of codes in a plane of a group, which are nibble words of 32 values each.
const COLUMNS: usize = CODES / 3 / 16;

/// See [`crate::kernel::Kernel::unpack`].
#[target_feature(enable = "neon")]
pub(super) fn unpack(coded: Coded<'_>, out: &mut [u8]) -> Result<Unpacked, TileFault> {
    let mut exponents = [0; CODE_GROUP + 32];
    let (groups, tail) = out.as_chunks_mut::<{ 2 * CODE_GROUP }>();
    let mut full = groups.iter_mut();
    let index = unpack_groups(coded, full.len(), tail, |starts, rest, codes, escapes, index| {
        let escaped = unpack_codes(starts, codes, &mut exponents);
        put_escapes(&escaped, escapes, &mut exponents, index);
        join(rest, &exponents, full.next().expect("there is room for all groups"));
    })?;
    Ok(Unpacked { index, sum: coded.word.map_or(0, |word| sums::mixed(out, word)) })
}

/// Writes the exponents that the codes give; returns a bit for each value that is an escape.
#[inline]
#[target_feature(enable = "neon")]
fn unpack_codes(
    starts: [u8; WINDOWS],
    codes: &[u8; CODES],
    exponents: &mut Exponents,
) -> [u64; CODE_GROUP / 64] {
    let mut escaped = [0; CODE_GROUP / 64];
    let codes = codes.as_chunks::<16>().0;
    let exponents = exponents.as_chunks_mut::<64>().0;
    // Two vectors of words of each row at a time, which are of 64 values.
    for column in 0..COLUMNS / 2 {
        let rows = [0, 1].map(|half| {
            let at = 2 * column + half;
            let (low, middle, high) =
                (load(&codes[at]), load(&codes[COLUMNS + at]), load(&codes[2 * COLUMNS + at]));
            let last = vbslq_u8(vdupq_n_u8(0x22), vshrq_n_u8::<2>(middle), vshrq_n_u8::<1>(high));
            let last = vbslq_u8(vdupq_n_u8(0x11), vshrq_n_u8::<3>(low), last);
            [low, middle, high, last]
        });
        for (row, (first, second)) in rows[0].into_iter().zip(rows[1]).enumerate() {
            let number = COLUMNS / 2 * row + column;
            escaped[number] = unpack_64([first, second], starts[row / 2], &mut exponents[number]);
        }
    }
    escaped
}

/// Writes the exponents of 16 nibble words, of whose nibbles three bits count; returns a bit for each escape.
#[inline]
#[target_feature(enable = "neon")]
fn unpack_64(words: [uint8x16_t; 2], start: u8, exponents: &mut [u8; 64]) -> u64 {
    let (starts, escape) = (vdupq_n_u8(start), vdupq_n_u8(ESCAPE));
    let [(a, b), (c, d)] = words.map(|words| {
        let pairs = vqtbl1q_u8(vandq_u8(words, vdupq_n_u8(0x77)), middle_exchanged());
        let even = vreinterpretq_u16_u8(vandq_u8(pairs, vdupq_n_u8(0x0f)));
        let odd = vreinterpretq_u16_u8(vshrq_n_u8::<4>(pairs));
        (vreinterpretq_u8_u16(vzip1q_u16(even, odd)), vreinterpretq_u8_u16(vzip2q_u16(even, odd)))
    });
    for (codes, exponents) in [a, b, c, d].into_iter().zip(exponents.as_chunks_mut().0) {
        store(exponents, vaddq_u8(codes, starts));
    }
    bits([a, b, c, d].map(|codes| vceqq_u8(codes, escape)))
}

/// Writes the values of a group.
#[inline]
#[target_feature(enable = "neon")]
fn join(rest: &[u8; CODE_GROUP], exponents: &Exponents, out: &mut [u8; 2 * CODE_GROUP]) {
    let (rest, exponents) = (rest.as_chunks().0, exponents.as_chunks().0);
    for ((rest, exponents), out) in rest.iter().zip(exponents).zip(out.as_chunks_mut().0) {
        store_values(out, join_16(load(rest), load(exponents)));
    }
}
