//! Values to sign-mantissa bytes, codes and escapes, and back; exponents counted around a window by ten comparisons with 32 values each,
//! instead of 32 counters in memory. The layout of the codes is that of [`crate::kernel::window`].

use std::arch::x86_64::*;

use super::super::escapes::{Exponents, put_escapes, take_escapes};
use crate::error::TileFault;
use crate::kernel::window::{
    CODES, COUNTS, EDGES, WINDOWS, WindowBounds, neighbours, pack_groups, unpack_groups,
};
use crate::kernel::{CODE_GROUP, Coded, CodedMut, ESCAPE, Packed, TILE, Unpacked};
use crate::scale::WINDOW;
use zipwire_codec::simd::avx2::fields::join_32;
use zipwire_codec::simd::avx2::sums;
use zipwire_codec::simd::avx2::vector::{
    AHEAD, bits, exponents, load, prefetch, prefetch_far, store, sum_epi64, swap_middle,
};

/// Counts of [`EDGES`].
type Edges = [__m256i; EDGES.len()];

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(in crate::simd) fn pack(values: &[u8], coded: CodedMut<'_>) -> Packed {
    let sum = coded.word.map_or(0, |word| sums::mixed(values, word));
    let CodedMut { rest, codes, .. } = coded;
    let (rests, rest) = rest.as_chunks_mut::<CODE_GROUP>();
    let (group_codes, codes) = codes.split_at_mut(CODES * rests.len());
    let mut full = rests.iter_mut().zip(group_codes.as_chunks_mut::<CODES>().0);
    let coded = CodedMut { rest, codes, ..coded };
    let packed = pack_groups(values, coded, |values, starts, escapes, index, edges| {
        let (rest, codes) = full.next().expect("there is room for all groups");
        // Counters of bytes: a group has 32 vectors of codes.
        let mut counts = [_mm256_setzero_si256(); EDGES.len()];
        let escaped = pack_group(values, starts, rest, codes, &mut counts);
        for (edge, counts) in edges.iter_mut().zip(counts) {
            *edge += sum_epi64(_mm256_sad_epu8(counts, _mm256_setzero_si256())) as u32;
        }
        take_escapes(values, &escaped, escapes, index);
    });
    Packed { sum, ..packed }
}

/// Writes rest and codes of a group; returns a bit for each value that is an escape.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn pack_group(
    values: &[u8; 2 * CODE_GROUP],
    starts: [u8; WINDOWS],
    rest: &mut [u8; CODE_GROUP],
    codes: &mut [u8; CODES],
    edges: &mut Edges,
) -> [u64; CODE_GROUP / 64] {
    let mut escaped = [0; CODE_GROUP / 64];
    let values = values.as_chunks::<128>().0;
    let rest = rest.as_chunks_mut::<64>().0;
    let codes = codes.as_chunks_mut::<32>().0;
    // Eight lanes at a time: the same 64 values of each of the four rows.
    for column in 0..4 {
        let mut words = [_mm256_setzero_si256(); 4];
        for (row, words) in words.iter_mut().enumerate() {
            let number = 4 * row + column;
            (*words, escaped[number]) = pack_64(&values[number], starts[row / 2], &mut rest[number], edges);
        }
        for plane in 0..3 {
            let spare = _mm256_and_si256(words[3], _mm256_set1_epi32(0x1111_1111 << plane));
            let spare = _mm256_sllv_epi32(spare, _mm256_set1_epi32(3 - plane));
            store(&mut codes[4 * plane as usize + column], _mm256_or_si256(words[plane as usize], spare));
        }
    }
    escaped
}

/// Writes the rest of 64 values; returns their eight nibble words and a bit for each escape.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn pack_64(values: &[u8; 128], start: u8, rest: &mut [u8; 64], edges: &mut Edges) -> (__m256i, u64) {
    let [first, second] = values.as_chunks::<64>().0 else { unreachable!("128 bytes are twice 64") };
    prefetch_far(first, AHEAD);
    prefetch_far(second, AHEAD);
    let [a, b, c, d] = values.as_chunks().0 else { unreachable!("128 bytes are four times 32") };
    let (a, b, c, d) = (load(a), load(b), load(c), load(d));

    // The sign is the highest bit of the upper byte, the mantissa all others of the lower one; their sum has no carry.
    let mask = _mm256_set1_epi16(0x807f_u16.cast_signed());
    let rest_of = |values| _mm256_maddubs_epi16(_mm256_and_si256(values, mask), _mm256_set1_epi8(1));
    let [low, high] = rest.as_chunks_mut().0 else { unreachable!("64 bytes are twice 32") };
    store(low, swap_middle(_mm256_packus_epi16(rest_of(a), rest_of(b))));
    store(high, swap_middle(_mm256_packus_epi16(rest_of(c), rest_of(d))));

    let escape = _mm256_set1_epi8(ESCAPE.cast_signed());
    let code_of = |exponents| {
        let codes = _mm256_sub_epi8(exponents, _mm256_set1_epi8(start.cast_signed()));
        _mm256_min_epu8(codes, escape)
    };
    let (low, high) = (code_of(exponents(a, b)), code_of(exponents(c, d)));
    for (counts, code) in edges.iter_mut().zip(EDGES) {
        // A comparison that holds is -1.
        let equal = |codes| _mm256_cmpeq_epi8(codes, _mm256_set1_epi8(code.cast_signed()));
        *counts = _mm256_sub_epi8(*counts, _mm256_add_epi8(equal(low), equal(high)));
    }
    let escaped = |codes| u64::from(bits(swap_middle(_mm256_cmpeq_epi8(codes, escape))));
    let escaped = escaped(low) | escaped(high) << 32;

    // Of each eight codes the even ones, then the odd ones; of these, pairs to bytes.
    let order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
    let nibbles = |codes| _mm256_maddubs_epi16(_mm256_shuffle_epi8(codes, order), _mm256_set1_epi16(0x1001));
    // Both times packing has left what belongs together in different halves.
    let words = _mm256_packus_epi16(nibbles(low), nibbles(high));
    (_mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)), escaped)
}

/// Distance from one tile's rest to the next one's in the split layout, and about that in the compact one.
const BODY: usize = TILE + TILE / CODE_GROUP * CODES;

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(in crate::simd) fn unpack(coded: Coded<'_>, out: &mut [u8]) -> Result<Unpacked, TileFault> {
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

/// Pairs of vectors that can be counted in bytes.
const BATCH_PAIRS: usize = 128;

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(in crate::simd) fn window_bounds(values: &[u8], start: u8) -> Option<WindowBounds> {
    let (blocks, tail) = values.as_chunks::<64>();
    let mut sums = [0; COUNTS];
    for blocks in blocks.chunks(BATCH_PAIRS) {
        add_blocks(blocks, start, &mut sums);
    }
    if !tail.is_empty() {
        // Filled up with an exponent in the middle of the window, which is in none of the counts.
        let mut padded = [0; 64];
        padded.as_chunks_mut().0.fill((u16::from(start + WINDOW as u8 / 2) << 7).to_le_bytes());
        padded[..tail.len()].copy_from_slice(tail);
        add_blocks(&[padded], start, &mut sums);
    }
    Some(WindowBounds::of_counts(start, values.len() / 2, sums))
}

/// Adds the counts of at most [`BATCH_PAIRS`] blocks.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn add_blocks(blocks: &[[u8; 64]], start: u8, sums: &mut [u32; COUNTS]) {
    // Comparisons are of signed numbers.
    let biased = |exponent: u8| _mm256_set1_epi8((exponent ^ 0x80).cast_signed());
    let zero = biased(0);
    let (first, last) = (biased(start), biased(start + (WINDOW - 1) as u8));
    let around = neighbours(start).map(biased);
    // A comparison that holds is -1.
    let mut counts = [_mm256_setzero_si256(); COUNTS];
    for block in blocks {
        prefetch(block, 2 * TILE);
        let [low, high] = block.as_chunks().0 else { unreachable!("64 bytes are twice 32") };
        let exponents = _mm256_xor_si256(exponents(load(low), load(high)), zero);
        counts[0] = _mm256_sub_epi8(counts[0], _mm256_cmpeq_epi8(exponents, zero));
        counts[1] = _mm256_sub_epi8(counts[1], _mm256_cmpgt_epi8(first, exponents));
        counts[2] = _mm256_sub_epi8(counts[2], _mm256_cmpgt_epi8(exponents, last));
        for (count, exponent) in counts[3..].iter_mut().zip(around) {
            *count = _mm256_sub_epi8(*count, _mm256_cmpeq_epi8(exponents, exponent));
        }
    }
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += sum_epi64(_mm256_sad_epu8(count, _mm256_setzero_si256())) as u32;
    }
}
