//! Codes of four bits, 64 at a time: exponents are looked up in a table of 256 on the way in, codes in one of 16 on the
//! way out.

use std::arch::x86_64::*;

use super::vector::{load, load_part, store_part};
use crate::kernel::codes::{CodeTable, ENTRIES, PRESENT};

const STEP: usize = 64;

/// See [`crate::kernel::Kernel::pack_codes`].
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2")]
pub(super) fn pack_codes(exponents: &[u8], table: &CodeTable, codes: &mut [u8], escaped: &mut [u64]) {
    let [a, b, c, d] = table.marked().as_chunks().0 else { unreachable!("256 bytes are four times 64") };
    let (a, b, c, d) = (load(a), load(b), load(c), load(d));
    let present = _mm512_set1_epi8(PRESENT.cast_signed());
    let step = |exponents, valid: u64, codes: &mut [u8], escaped: &mut u64| {
        let upper = _mm512_movepi8_mask(exponents);
        let low = _mm512_permutex2var_epi8(a, exponents, b);
        let high = _mm512_permutex2var_epi8(c, exponents, d);
        let marked = _mm512_maskz_mov_epi8(valid, _mm512_mask_mov_epi8(low, upper, high));
        *escaped = _mm512_testn_epi8_mask(marked, present) & valid;
        let places = _mm512_andnot_si512(present, marked);
        let pairs = _mm512_maddubs_epi16(places, _mm512_set1_epi16(0x1001));
        store_part(codes, _mm512_zextsi256_si512(_mm512_cvtepi16_epi8(pairs)));
    };
    let chunks = exponents.chunks(STEP).zip(codes.chunks_mut(STEP / 2)).zip(escaped);
    for ((exponents, codes), escaped) in chunks {
        match exponents.first_chunk() {
            Some(exponents) => step(load(exponents), u64::MAX, codes, escaped),
            None => step(load_part(exponents), super::vector::first_bits(exponents.len()), codes, escaped),
        }
    }
}

/// See [`crate::kernel::Kernel::unpack_codes`].
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2")]
pub(super) fn unpack_codes(codes: &[u8], book: &[u8; ENTRIES], exponents: &mut [u8]) {
    let book = _mm512_broadcast_i32x4(_mm512_castsi512_si128(load_part(book)));
    let low_halves = _mm512_set1_epi8(15);
    for (exponents, codes) in exponents.chunks_mut(STEP).zip(codes.chunks(STEP / 2)) {
        let pairs = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(load_part(codes)));
        // The first code of a pair stays in the lower byte, the second one moves to the upper one.
        let places = _mm512_and_si512(_mm512_or_si512(pairs, _mm512_slli_epi16::<4>(pairs)), low_halves);
        store_part(exponents, _mm512_shuffle_epi8(book, places));
    }
}
