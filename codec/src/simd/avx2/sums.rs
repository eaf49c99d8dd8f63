//! The checksum, four words at a time, and copies past the caches, half a cache line at a time.

use std::arch::x86_64::*;

use super::vector::{AHEAD, load, prefetch_far, sum_epi64};
use crate::checksum::{FOLD, KEY_STEP, WORD, fold, key};
use crate::kernel::sums;

/// Vectors that are mixed side by side, so that none waits for the multiplication of another.
const VECTORS: usize = 2;

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn checksum(bytes: &[u8], index: u64) -> u32 {
    fold(mixed(bytes, index))
}

/// The sum of words before it is folded.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub fn mixed(bytes: &[u8], index: u64) -> u64 {
    let (blocks, tail) = bytes.as_chunks::<{ 32 * VECTORS }>();
    let key_of = |index: u64| _mm256_set1_epi64x(key(index).cast_signed());
    let step = |words: u64| KEY_STEP.wrapping_mul(words).cast_signed();
    let numbers = _mm256_setr_epi64x(0, step(1), step(2), step(3));
    let mut keys = [0, 4].map(|words| _mm256_add_epi64(key_of(index.wrapping_add(words)), numbers));
    let next = _mm256_set1_epi64x(step(4 * VECTORS as u64));
    let mut sums = [_mm256_setzero_si256(); VECTORS];
    for block in blocks {
        for ((vector, key), sum) in block.as_chunks::<32>().0.iter().zip(&mut keys).zip(&mut sums) {
            let x = _mm256_xor_si256(load(vector), *key);
            let product = _mm256_mul_epu32(x, _mm256_srli_epi64::<32>(x));
            let product = _mm256_add_epi64(product, x);
            let folded = _mm256_xor_si256(product, _mm256_srli_epi64::<{ FOLD as i32 }>(product));
            *sum = _mm256_add_epi64(*sum, folded);
            *key = _mm256_add_epi64(*key, next);
        }
    }
    let sum = sum_epi64(_mm256_add_epi64(sums[0], sums[1]));
    let words = (bytes.len() - tail.len()) / WORD;
    sum.wrapping_add(sums::mixed(tail, index.wrapping_add(words as u64)))
}

/// Bytes of a vector.
const VECTOR: usize = 32;
/// Bytes of a cache line.
const LINE: usize = 64;

/// See [`crate::kernel::Kernel::copy_past`]. These stores are not in order with others.
#[target_feature(enable = "avx2")]
pub(super) fn copy_past(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy is as long as what is copied");
    let ahead = (to.as_ptr().addr().wrapping_neg() % VECTOR).min(to.len());
    let (first, from) = from.split_at(ahead);
    let (start, to) = to.split_at_mut(ahead);
    start.copy_from_slice(first);
    let (vectors, from_tail) = from.as_chunks::<VECTOR>();
    let (out, to_tail) = to.as_chunks_mut::<VECTOR>();
    for (vector, out) in vectors.iter().zip(out) {
        // SAFETY: the reference is valid for writes of 32 bytes; it is a multiple of 32 bytes behind the first address
        // that is such a multiple itself. `StreamingStore`, which alone calls this, waits for these stores before the memory is
        // written again (`settle`), and before it is anyone else's (`drop`).
        unsafe { _mm256_stream_si256(std::ptr::from_mut(out).cast(), load(vector)) }
    }
    to_tail.copy_from_slice(from_tail);
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn copy_sum(from: &[u8], to: &mut [u8], word: u64, streaming: bool) -> u64 {
    /// Bytes that are summed and copied in turn: so few that reads and writes of memory go on side by side.
    const PART: usize = 256;
    assert_eq!(from.len(), to.len(), "a copy is as long as what is copied");
    // Parts are cut where lines of what is written are.
    let ahead = (to.as_ptr().addr().wrapping_neg() % LINE).min(to.len());
    let (start, to) = to.split_at_mut(ahead);
    start.copy_from_slice(&from[..ahead]);
    let mut parts = from[ahead..].chunks(PART).zip(to.chunks_mut(PART));
    let mut sum = 0u64;
    for (words, index) in from.chunks(PART).zip((0..).step_by(PART / WORD)) {
        words.as_chunks::<LINE>().0.iter().for_each(|line| prefetch_far(line, AHEAD));
        sum = sum.wrapping_add(mixed(words, word.wrapping_add(index)));
        match parts.next() {
            Some((from, to)) if streaming => copy_past(from, to),
            Some((from, to)) => to.copy_from_slice(from),
            None => {}
        }
    }
    sum
}

#[target_feature(enable = "avx2")]
#[allow(unused_unsafe, reason = "safe in recent versions of Rust")]
pub(super) fn fence() {
    // SAFETY: the instruction is of SSE, and touches no memory.
    unsafe {
        _mm_sfence();
    }
}
