//! Copies past the caches, a cache line at a time.

use std::arch::x86_64::*;

use super::vector::{load, load_part, store_part};

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
