//! Copies past the caches, half a cache line at a time.

use std::arch::x86_64::*;

use super::vector::load;

/// Bytes of a vector.
const VECTOR: usize = 32;

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

/// See [`crate::kernel::Kernel::fence`].
#[target_feature(enable = "avx2")]
pub(super) fn fence() {
    _mm_sfence();
}
