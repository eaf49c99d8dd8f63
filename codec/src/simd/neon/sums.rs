//! The checksum, eight words at a time.

use std::arch::aarch64::*;

use super::vector::load;
use crate::checksum::{FOLD, KEY_STEP, WORD, fold, key};
use crate::kernel::sums;

/// Vectors of two words that are mixed side by side.
const VECTORS: usize = 4;

#[target_feature(enable = "neon")]
pub(super) fn checksum(bytes: &[u8], index: u64) -> u32 {
    fold(mixed(bytes, index))
}

#[target_feature(enable = "neon")]
pub(super) fn copy_sum(from: &[u8], to: &mut [u8], word: u64, _streaming: bool) -> u64 {
    to.copy_from_slice(from);
    mixed(from, word)
}

/// The sum of words before it is folded.
#[inline]
#[target_feature(enable = "neon")]
pub fn mixed(bytes: &[u8], index: u64) -> u64 {
    let (blocks, tail) = bytes.as_chunks::<{ 16 * VECTORS }>();
    let keys_of = |lane: u64| {
        let key = |word| vcreate_u64(key(index.wrapping_add(2 * lane + word)));
        vcombine_u64(key(0), key(1))
    };
    let mut keys = [keys_of(0), keys_of(1), keys_of(2), keys_of(3)];
    let next = vdupq_n_u64(KEY_STEP.wrapping_mul(2 * VECTORS as u64));
    let mut sums = [vdupq_n_u64(0); VECTORS];
    for block in blocks {
        let vectors = block.as_chunks::<16>().0;
        // Two vectors at a time.
        for at in [0, 2] {
            let x = veorq_u64(vreinterpretq_u64_u8(load(&vectors[at])), keys[at]);
            let y = veorq_u64(vreinterpretq_u64_u8(load(&vectors[at + 1])), keys[at + 1]);
            // The lower halves of all four words, and the upper ones: their products are added to the words.
            let low = vuzp1q_u32(vreinterpretq_u32_u64(x), vreinterpretq_u32_u64(y));
            let high = vuzp2q_u32(vreinterpretq_u32_u64(x), vreinterpretq_u32_u64(y));
            let x = vmlal_u32(x, vget_low_u32(low), vget_low_u32(high));
            let y = vmlal_high_u32(y, low, high);
            sums[at] = vaddq_u64(sums[at], folded(x));
            sums[at + 1] = vaddq_u64(sums[at + 1], folded(y));
            keys[at] = vaddq_u64(keys[at], next);
            keys[at + 1] = vaddq_u64(keys[at + 1], next);
        }
    }
    let [a, b, c, d] = sums;
    let sum = vaddvq_u64(vaddq_u64(vaddq_u64(a, b), vaddq_u64(c, d)));
    let words = (bytes.len() - tail.len()) / WORD;
    sum.wrapping_add(sums::mixed(tail, index.wrapping_add(words as u64)))
}

/// Products with their upper bits on top of the lower ones, as [`crate::checksum::mix`] has it.
#[inline]
#[target_feature(enable = "neon")]
fn folded(products: uint64x2_t) -> uint64x2_t {
    veorq_u64(products, vshrq_n_u64::<{ FOLD as i32 }>(products))
}
