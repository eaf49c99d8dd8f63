//! Copies past the caches, a cache line at a time.

use std::arch::x86_64::*;

use super::sums::Mixer;
use super::vector::{AHEAD, load, load_part, prefetch_far, store_part};
use super::writer::Vectors;
use crate::checksum::WORD;
use crate::kernel::sums;

/// Bytes of a cache line.
const LINE: usize = 64;

/// See [`crate::kernel::Kernel::copy_past`]. These stores are not in order with others.
#[target_feature(enable = "avx512bw")]
pub(super) fn copy_past(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy is as long as what is copied");
    let ahead = (to.as_ptr().addr().wrapping_neg() % LINE).min(to.len());
    let (first, from) = from.split_at(ahead);
    let (start, to) = to.split_at_mut(ahead);
    store_part(start, load_part(first));
    let (lines, from_tail) = from.as_chunks::<LINE>();
    let (out, to_tail) = to.as_chunks_mut::<LINE>();
    for (line, out) in lines.iter().zip(out) {
        // SAFETY: the reference is valid for writes of 64 bytes; it is a multiple of 64 bytes behind the first address
        // that is such a multiple itself. `StreamingStore`, which alone calls this, waits for these stores before the memory is
        // written again (`settle`), and before it is anyone else's (`drop`).
        unsafe { _mm512_stream_si512(std::ptr::from_mut(out).cast(), load(line)) }
    }
    store_part(to_tail, load_part(from_tail));
}

/// See [`crate::kernel::Kernel::copy_sum`].
#[target_feature(enable = "avx512bw,avx512vbmi")]
pub(super) fn copy_sum(from: &[u8], to: &mut [u8], word: u64, streaming: bool) -> u64 {
    if streaming { copy_mixed::<true>(from, to, word) } else { copy_mixed::<false>(from, to, word) }
}

#[target_feature(enable = "avx512bw,avx512vbmi")]
fn copy_mixed<const PAST: bool>(from: &[u8], to: &mut [u8], word: u64) -> u64 {
    assert_eq!(from.len(), to.len(), "a copy is as long as what is copied");
    let (pairs, tail) = from.as_chunks::<{ 2 * LINE }>();
    let (to, to_tail) = to.split_at_mut(from.len() - tail.len());
    let mut to = Vectors::<PAST>::new(to);
    let mut mixer = Mixer::<2>::new(word);
    for pair in pairs {
        let [first, second] = pair.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
        prefetch_far(first, AHEAD);
        prefetch_far(second, AHEAD);
        let (first, second) = (load(first), load(second));
        mixer.add([first, second]);
        to.write(first);
        to.write(second);
    }
    to.finish();
    to_tail.copy_from_slice(tail);
    let words = 2 * LINE / WORD * pairs.len();
    mixer.sum().wrapping_add(sums::mixed(tail, word.wrapping_add(words as u64)))
}
