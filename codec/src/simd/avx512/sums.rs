//! The checksum, eight words at a time.

use std::arch::x86_64::*;

use super::vector::load;
use crate::checksum::{FOLD, STEP, WORD, fold, key};
use crate::kernel::sums;

/// Vectors that are mixed side by side, so that none waits for the multiplication of another.
const LANES: usize = 4;

/// See [`crate::kernel::Kernel::checksum`].
#[target_feature(enable = "avx512bw")]
pub(super) fn checksum(bytes: &[u8], index: u64) -> u32 {
    let (blocks, tail) = bytes.as_chunks::<{ 64 * LANES }>();
    let key_of = |index: u64| _mm512_set1_epi64(key(index).cast_signed());
    let step = |words: u64| STEP.wrapping_mul(words).cast_signed();
    let numbers = _mm512_setr_epi64(0, step(1), step(2), step(3), step(4), step(5), step(6), step(7));
    let mut keys = [0, 8, 16, 24].map(|words| _mm512_add_epi64(key_of(index.wrapping_add(words)), numbers));
    let next = _mm512_set1_epi64(step(8 * LANES as u64));
    let mut sums = [_mm512_setzero_si512(); LANES];
    for block in blocks {
        for ((vector, key), sum) in block.as_chunks::<64>().0.iter().zip(&mut keys).zip(&mut sums) {
            let x = _mm512_xor_si512(load(vector), *key);
            let product = _mm512_mul_epu32(x, _mm512_srli_epi64::<32>(x));
            let product = _mm512_add_epi64(product, x);
            let folded = _mm512_xor_si512(product, _mm512_srli_epi64::<FOLD>(product));
            *sum = _mm512_add_epi64(*sum, folded);
            *key = _mm512_add_epi64(*key, next);
        }
    }
    let [a, b, c, d] = sums;
    let sum = _mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d)));
    let words = (bytes.len() - tail.len()) / WORD;
    fold(sum.cast_unsigned().wrapping_add(sums::mixed(tail, index.wrapping_add(words as u64))))
}
