//! The inverse of packing.

use std::arch::x86_64::*;

use super::super::escapes::{Exponents, put_escapes};
use super::fields::join_32;
use super::sums;
use super::vector::{bits, load, prefetch, store, swap_middle};
use crate::TileFault;
use crate::kernel::window::{CODES, WINDOWS, unpack_groups};
use crate::kernel::{CODE_GROUP, Coded, ESCAPE, TILE, Unpacked};

/// Distance from one tile's rest to the next one's in the split layout, and about that in the compact one.
const BODY: usize = TILE + TILE / CODE_GROUP * CODES;

/// See [`crate::kernel::Kernel::unpack`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
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
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn unpack_codes(
    starts: [u8; WINDOWS],
    codes: &[u8; CODES],
    exponents: &mut Exponents,
) -> [u64; CODE_GROUP / 64] {
    let mut escaped = [0; CODE_GROUP / 64];
    let codes = codes.as_chunks::<32>().0;
    let exponents = exponents.as_chunks_mut::<64>().0;
    // Eight lanes at a time: the same 64 values of each of the four rows.
    for column in 0..4 {
        let (low, middle, high) = (
            swap_middle(load(&codes[column])),
            swap_middle(load(&codes[4 + column])),
            swap_middle(load(&codes[8 + column])),
        );
        let last = _mm256_or_si256(
            _mm256_or_si256(
                _mm256_and_si256(_mm256_srli_epi32::<3>(low), _mm256_set1_epi32(0x1111_1111)),
                _mm256_and_si256(_mm256_srli_epi32::<2>(middle), _mm256_set1_epi32(0x2222_2222)),
            ),
            _mm256_and_si256(_mm256_srli_epi32::<1>(high), _mm256_set1_epi32(0x4444_4444)),
        );
        let own = _mm256_set1_epi32(0x7777_7777);
        let words =
            [_mm256_and_si256(low, own), _mm256_and_si256(middle, own), _mm256_and_si256(high, own), last];
        for (row, words) in words.into_iter().enumerate() {
            let number = 4 * row + column;
            escaped[number] = unpack_64(words, starts[row / 2], &mut exponents[number]);
        }
    }
    escaped
}

/// Writes the exponents of eight nibble words, of which those in the middle quarters are exchanged; returns a bit for
/// each escape.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn unpack_64(words: __m256i, start: u8, exponents: &mut [u8; 64]) -> u64 {
    let nibble = _mm256_set1_epi8(0x0f);
    let even = _mm256_and_si256(words, nibble);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<4>(words), nibble);
    // The nibbles in order are the even values, then the odd ones.
    let order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15));
    let low = _mm256_shuffle_epi8(_mm256_unpacklo_epi8(even, odd), order);
    let high = _mm256_shuffle_epi8(_mm256_unpackhi_epi8(even, odd), order);
    let start = _mm256_set1_epi8(start.cast_signed());
    let [first, second] = exponents.as_chunks_mut().0 else { unreachable!("64 bytes are twice 32") };
    store(first, _mm256_add_epi8(low, start));
    store(second, _mm256_add_epi8(high, start));
    let escape = _mm256_set1_epi8(ESCAPE.cast_signed());
    let escaped = |codes| u64::from(bits(_mm256_cmpeq_epi8(codes, escape)));
    escaped(low) | escaped(high) << 32
}

/// Writes the values of a group.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn join(rest: &[u8; CODE_GROUP], exponents: &Exponents, out: &mut [u8; 2 * CODE_GROUP]) {
    let rest = rest.as_chunks::<32>().0;
    let exponents = exponents.as_chunks::<32>().0;
    let out = out.as_chunks_mut::<64>().0;
    for ((rest, exponents), out) in rest.iter().zip(exponents).zip(out) {
        prefetch(out, 2 * TILE);
        prefetch(rest, BODY);
        join_32(load(rest), load(exponents), 0, out);
    }
}
