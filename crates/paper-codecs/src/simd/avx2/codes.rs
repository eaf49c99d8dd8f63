//! Codes of four bits, 64 at a time: a shuffle per window of the table on the way in, one shuffle on the way out.

use std::arch::x86_64::*;

use crate::kernel::WORD_VALUES;
use crate::kernel::codes::{self, CodeTable, ENTRIES};
use zipwire_codec::simd::avx2::vector::{bits, load, load_half, store, swap_middle};

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(in crate::simd) fn pack_codes(
    exponents: &[u8],
    table: &CodeTable,
    codes: &mut [u8],
    escaped: &mut [u64],
    _streaming: bool,
) {
    // One window is the common case, and then nothing of it is loaded again.
    match table.windows() {
        [_] => pack::<1>(exponents, table, codes, escaped),
        [_, _] => pack::<2>(exponents, table, codes, escaped),
        [_, _, _] => pack::<3>(exponents, table, codes, escaped),
        _ => pack::<ENTRIES>(exponents, table, codes, escaped),
    }
}

/// For tables of at most `WINDOWS` windows.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn pack<const WINDOWS: usize>(exponents: &[u8], table: &CodeTable, codes: &mut [u8], escaped: &mut [u64]) {
    let zero = _mm256_setzero_si256();
    let mut windows = [(zero, zero); WINDOWS];
    for (vectors, window) in windows.iter_mut().zip(table.windows()) {
        let start = _mm256_set1_epi8(window.start.cast_signed());
        *vectors = (start, _mm256_broadcastsi128_si256(load_half(&window.marked)));
    }
    let windows = &windows[..table.windows().len()];
    // What is 16 or more gets its highest bit from this, and is looked up as 0; what is less keeps its low half.
    let guard = _mm256_set1_epi8(0x70);
    let marked_of = |exponents| {
        windows.iter().fold(zero, |found, (start, marked)| {
            let place = _mm256_adds_epu8(_mm256_sub_epi8(exponents, *start), guard);
            _mm256_or_si256(found, _mm256_shuffle_epi8(*marked, place))
        })
    };
    let low_half = _mm256_set1_epi8(15);
    let pairs = |marked| _mm256_maddubs_epi16(_mm256_and_si256(marked, low_half), _mm256_set1_epi16(0x1001));

    let (steps, tail) = exponents.as_chunks::<WORD_VALUES>();
    let (full, codes_tail) = codes.split_at_mut(WORD_VALUES / 2 * steps.len());
    let (escaped, escaped_tail) = escaped.split_at_mut(steps.len());
    for ((exponents, codes), escaped) in steps.iter().zip(full.as_chunks_mut().0).zip(escaped) {
        let [low, high] = exponents.as_chunks().0 else { unreachable!("64 bytes are twice 32") };
        let (low, high) = (marked_of(load(low)), marked_of(load(high)));
        let absent = |marked| u64::from(bits(_mm256_cmpeq_epi8(marked, zero)));
        *escaped = absent(low) | absent(high) << 32;
        store(codes, swap_middle(_mm256_packus_epi16(pairs(low), pairs(high))));
    }
    codes::pack_codes(tail, table, codes_tail, escaped_tail, false);
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(in crate::simd) fn unpack_codes(codes: &[u8], book: &[u8; ENTRIES], exponents: &mut [u8]) {
    let (steps, tail) = exponents.as_chunks_mut::<WORD_VALUES>();
    let (full, codes_tail) = codes.split_at(WORD_VALUES / 2 * steps.len());
    let vector = _mm256_broadcastsi128_si256(load_half(book));
    let low_half = _mm256_set1_epi8(15);
    for (exponents, codes) in steps.iter_mut().zip(full.as_chunks().0) {
        let codes = swap_middle(load(codes));
        let first = _mm256_shuffle_epi8(vector, _mm256_and_si256(codes, low_half));
        let second = _mm256_shuffle_epi8(vector, _mm256_and_si256(_mm256_srli_epi16::<4>(codes), low_half));
        let [low, high] = exponents.as_chunks_mut().0 else { unreachable!("64 bytes are twice 32") };
        store(low, _mm256_unpacklo_epi8(first, second));
        store(high, _mm256_unpackhi_epi8(first, second));
    }
    codes::unpack_codes(codes_tail, book, tail);
}
