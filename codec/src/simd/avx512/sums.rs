//! The checksum, eight words at a time.

use std::arch::x86_64::*;

use super::vector::load;
use crate::checksum::{FOLD, KEY_STEP, WORD, fold, key};
use crate::kernel::sums;

/// Vectors that are mixed side by side, so that none waits for the multiplication of another.
const SUM_VECTORS: usize = 4;

/// The sum of vectors' words, in as many lanes as there are vectors at a time.
pub(super) struct Mixer<const VECTORS: usize> {
    keys: [__m512i; VECTORS],
    /// Step of the keys from vector to vector.
    next: __m512i,
    sums: [__m512i; VECTORS],
}

impl<const VECTORS: usize> Mixer<VECTORS> {
    /// Before the word at `index`.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub(super) fn new(index: u64) -> Self {
        let step = |words: u64| KEY_STEP.wrapping_mul(words).cast_signed();
        let numbers = _mm512_setr_epi64(0, step(1), step(2), step(3), step(4), step(5), step(6), step(7));
        let mut keys = [numbers; VECTORS];
        for (vector, keys) in keys.iter_mut().enumerate() {
            let first = key(index.wrapping_add(8 * vector as u64));
            *keys = _mm512_add_epi64(_mm512_set1_epi64(first.cast_signed()), numbers);
        }
        Self {
            keys,
            next: _mm512_set1_epi64(step(8 * VECTORS as u64)),
            sums: [_mm512_setzero_si512(); VECTORS],
        }
    }

    /// Adds the next words.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub(super) fn add(&mut self, vectors: [__m512i; VECTORS]) {
        for ((vector, key), sum) in vectors.iter().zip(&mut self.keys).zip(&mut self.sums) {
            let x = _mm512_xor_si512(*vector, *key);
            let product = _mm512_mul_epu32(x, _mm512_srli_epi64::<32>(x));
            let product = _mm512_add_epi64(product, x);
            let folded = _mm512_xor_si512(product, _mm512_srli_epi64::<FOLD>(product));
            *sum = _mm512_add_epi64(*sum, folded);
            *key = _mm512_add_epi64(*key, self.next);
        }
    }

    /// The sum, not folded.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub(super) fn sum(&self) -> u64 {
        let mut sum = _mm512_setzero_si512();
        for lane in self.sums {
            sum = _mm512_add_epi64(sum, lane);
        }
        _mm512_reduce_add_epi64(sum).cast_unsigned()
    }
}

/// See [`crate::kernel::Kernel::checksum`].
#[target_feature(enable = "avx512bw")]
pub(super) fn checksum(bytes: &[u8], index: u64) -> u32 {
    let (blocks, tail) = bytes.as_chunks::<{ 64 * SUM_VECTORS }>();
    let mut mixer = Mixer::<SUM_VECTORS>::new(index);
    for block in blocks {
        let [a, b, c, d] = block.as_chunks().0 else { unreachable!("256 bytes are four times 64") };
        mixer.add([load(a), load(b), load(c), load(d)]);
    }
    let words = (bytes.len() - tail.len()) / WORD;
    fold(mixer.sum().wrapping_add(sums::mixed(tail, index.wrapping_add(words as u64))))
}
