//! Codes of four bits, 64 at a time: a look-up per window of the table on the way in, one look-up on the way out.

use std::arch::aarch64::*;

use crate::kernel::WORD_VALUES;
use crate::kernel::codes::{self, CodeTable, ENTRIES};
use zipwire_codec::simd::neon::vector::{load, store, word};

/// Bits of a looked-up byte above the code: all ones where there is a code.
const PRESENT: u8 = 0xf0;

#[target_feature(enable = "neon")]
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
#[target_feature(enable = "neon")]
fn pack<const WINDOWS: usize>(exponents: &[u8], table: &CodeTable, codes: &mut [u8], escaped: &mut [u64]) {
    let zero = vdupq_n_u8(0);
    let mut windows = [(zero, zero); WINDOWS];
    for (vectors, window) in windows.iter_mut().zip(table.windows()) {
        let marked = load(&window.marked);
        let present = vandq_u8(vcgtq_u8(marked, zero), vdupq_n_u8(PRESENT));
        *vectors = (vdupq_n_u8(window.start), vorrq_u8(marked, present));
    }
    let windows = &windows[..table.windows().len()];
    // What is 16 or more behind the start of a window is looked up as 0.
    let marked_of = |exponents| {
        windows.iter().fold(zero, |found, (start, marked)| {
            vorrq_u8(found, vqtbl1q_u8(*marked, vsubq_u8(exponents, *start)))
        })
    };
    let select = vreinterpretq_u8_u32(vdupq_n_u32(u32::from_le_bytes([16, 32, 64, 128])));

    let (steps, tail) = exponents.as_chunks::<WORD_VALUES>();
    let (full, codes_tail) = codes.split_at_mut(WORD_VALUES / 2 * steps.len());
    let (escaped, escaped_tail) = escaped.split_at_mut(steps.len());
    for ((exponents, codes), escaped) in steps.iter().zip(full.as_chunks_mut::<32>().0).zip(escaped) {
        let [a, b, c, d] = exponents.as_chunks().0 else { unreachable!("64 bytes are four times 16") };
        let marked = [a, b, c, d].map(|exponents| marked_of(load(exponents)));
        let [a, b, c, d] = marked;
        // A bit for each byte that is not there: sums of two bytes, and of four, are in the high half of each.
        let absent = marked.map(|marked| vbicq_u8(select, marked));
        let absent = vpaddq_u8(vpaddq_u8(absent[0], absent[1]), vpaddq_u8(absent[2], absent[3]));
        let (even, odd) = (vuzp1q_u8(absent, absent), vuzp2q_u8(absent, absent));
        *escaped = word(vget_low_u8(vsriq_n_u8::<4>(odd, even)));
        let [low, high] = codes.as_chunks_mut().0 else { unreachable!("32 bytes are twice 16") };
        store(low, vsliq_n_u8::<4>(vuzp1q_u8(a, b), vuzp2q_u8(a, b)));
        store(high, vsliq_n_u8::<4>(vuzp1q_u8(c, d), vuzp2q_u8(c, d)));
    }
    codes::pack_codes(tail, table, codes_tail, escaped_tail, false);
}

#[target_feature(enable = "neon")]
pub(in crate::simd) fn unpack_codes(codes: &[u8], book: &[u8; ENTRIES], exponents: &mut [u8]) {
    let (steps, tail) = exponents.as_chunks_mut::<32>();
    let (full, codes_tail) = codes.split_at(16 * steps.len());
    let (book_of, low_half) = (load(book), vdupq_n_u8(15));
    for (exponents, codes) in steps.iter_mut().zip(full.as_chunks().0) {
        let codes = load(codes);
        let first = vqtbl1q_u8(book_of, vandq_u8(codes, low_half));
        let second = vqtbl1q_u8(book_of, vshrq_n_u8::<4>(codes));
        let [low, high] = exponents.as_chunks_mut().0 else { unreachable!("32 bytes are twice 16") };
        store(low, vzip1q_u8(first, second));
        store(high, vzip2q_u8(first, second));
    }
    codes::unpack_codes(codes_tail, book, tail);
}
