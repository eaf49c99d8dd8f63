//! Codes of four bits, 64 at a time: a table of 256 bytes is four vectors, and a look-up is two permutations.

use std::arch::x86_64::*;

use crate::kernel::WORD_VALUES;
use crate::kernel::codes::{self, CodeTable, ENTRIES};
use zipwire_codec::simd::avx512::vector::{EVEN, Vectors, load, load_half, load_quarter, store};

#[target_feature(enable = "avx512bw,avx512vbmi")]
pub(in crate::simd) fn pack_codes(
    exponents: &[u8],
    table: &CodeTable,
    codes: &mut [u8],
    escaped: &mut [u64],
    streaming: bool,
) {
    if streaming {
        pack::<true>(exponents, table, codes, escaped);
    } else {
        pack::<false>(exponents, table, codes, escaped);
    }
}

#[target_feature(enable = "avx512bw,avx512vbmi")]
fn pack<const PAST: bool>(exponents: &[u8], table: &CodeTable, codes: &mut [u8], escaped: &mut [u64]) {
    let [first, second, third, fourth] = table.marked().as_chunks().0 else {
        unreachable!("256 bytes are four times 64")
    };
    let (first, second, third, fourth) = (load(first), load(second), load(third), load(fourth));
    // Codes of a step in the lower bytes of 16 bits each, and its escapes.
    let step = |exponents: &[u8; WORD_VALUES]| {
        let exponents = load(exponents);
        let below = _mm512_permutex2var_epi8(first, exponents, second);
        let above = _mm512_permutex2var_epi8(third, exponents, fourth);
        let marked = _mm512_mask_blend_epi8(_mm512_movepi8_mask(exponents), below, above);
        let places = _mm512_and_si512(marked, _mm512_set1_epi8(15));
        let pairs = _mm512_maddubs_epi16(places, _mm512_set1_epi16(0x1001));
        (pairs, _mm512_testn_epi8_mask(marked, marked))
    };
    let (twos, tail) = exponents.as_chunks::<{ 2 * WORD_VALUES }>();
    let (vectors, codes_tail) = codes.split_at_mut(WORD_VALUES * twos.len());
    let (of_twos, escaped_tail) = escaped.split_at_mut(2 * twos.len());
    // SAFETY: `PAST` only at the wish of `StreamingStore`, which fences.
    let mut vectors = unsafe { Vectors::<PAST>::new(vectors) };
    for (exponents, escaped) in twos.iter().zip(of_twos.as_chunks_mut().0) {
        let [low, high] = exponents.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
        let (low, escaped_low) = step(low);
        let (high, escaped_high) = step(high);
        *escaped = [escaped_low, escaped_high];
        vectors.write(_mm512_permutex2var_epi8(low, load(&EVEN), high));
    }
    vectors.finish();
    codes::pack_codes(tail, table, codes_tail, escaped_tail, false);
}

#[target_feature(enable = "avx512bw,avx512vbmi")]
pub(in crate::simd) fn unpack_codes(codes: &[u8], book: &[u8; ENTRIES], exponents: &mut [u8]) {
    let vector = _mm512_broadcast_i32x4(load_quarter(book));
    let (steps, tail) = exponents.as_chunks_mut::<WORD_VALUES>();
    let (full, codes_tail) = codes.split_at(WORD_VALUES / 2 * steps.len());
    for (exponents, codes) in steps.iter_mut().zip(full.as_chunks().0) {
        let pairs = _mm512_cvtepu8_epi16(load_half(codes));
        let places = _mm512_or_si512(pairs, _mm512_slli_epi16::<4>(pairs));
        let places = _mm512_and_si512(places, _mm512_set1_epi8(15));
        store(exponents, _mm512_shuffle_epi8(vector, places));
    }
    codes::unpack_codes(codes_tail, book, tail);
}
