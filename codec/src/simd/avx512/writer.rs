//! Vectors written one after the other, also past the caches, wherever that begins.

use std::arch::x86_64::*;

use super::vector::{VECTOR_BYTES, load, store, store_part};

/// Bytes of a cache line, and of a vector.
const LINE: usize = 64;

/// The numbers of the bytes of a vector.
static NUMBERS: [u8; VECTOR_BYTES] = numbers();

const fn numbers() -> [u8; VECTOR_BYTES] {
    let mut numbers = [0; VECTOR_BYTES];
    let mut i = 0;
    while i < VECTOR_BYTES {
        numbers[i] = i as u8;
        i += 1;
    }
    numbers
}

/// Writer of vectors, whole cache lines past the caches if `PAST`: only at the wish of
/// [`crate::streaming_store::StreamingStore`], as such stores are in no order with others. To be finished.
pub(super) struct Vectors<'a, const PAST: bool> {
    /// Vectors, or cache lines.
    slots: std::slice::IterMut<'a, [u8; LINE]>,
    /// Bytes before the first line and behind the last one; none unless `PAST`.
    head: &'a mut [u8],
    tail: &'a mut [u8],
    /// The last vector, of which the part behind `head.len()` is not written yet.
    last: __m512i,
    /// Shuffle that picks a line from that vector and the next one.
    line: __m512i,
    begun: bool,
}

impl<'a, const PAST: bool> Vectors<'a, PAST> {
    /// For as many vectors as `out` has room for.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    pub(super) fn new(out: &'a mut [u8]) -> Self {
        assert!(out.len().is_multiple_of(LINE), "vectors are written whole");
        let head_len = if PAST { out.as_ptr().addr().wrapping_neg() % LINE } else { 0 };
        let (head, out) = out.split_at_mut(head_len.min(out.len()));
        let (slots, tail) = out.as_chunks_mut();
        let line = _mm512_add_epi8(load(&NUMBERS), _mm512_set1_epi8(head.len() as i8));
        let last = _mm512_setzero_si512();
        Self { slots: slots.iter_mut(), head, tail, last, line, begun: false }
    }

    /// Writes the next vector.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    pub(super) fn write(&mut self, vector: __m512i) {
        if !PAST {
            return store(self.slots.next().expect("there is room for all vectors"), vector);
        }
        if self.begun {
            self.stream(vector);
        } else {
            store_part(self.head, vector);
            self.begun = true;
        }
        self.last = vector;
    }

    /// Writes what is left of the last vector.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    pub(super) fn finish(mut self) {
        if PAST && self.begun {
            let left = _mm512_permutexvar_epi8(self.line, self.last);
            if self.tail.is_empty() {
                self.stream(_mm512_setzero_si512());
            } else {
                store_part(self.tail, left);
            }
        }
    }

    /// Writes the line that ends in `next`.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    fn stream(&mut self, next: __m512i) {
        let line = _mm512_permutex2var_epi8(self.last, self.line, next);
        let out = self.slots.next().expect("there is a line for each vector but the last one");
        // SAFETY: the reference is valid for writes of 64 bytes; it is a multiple of 64 bytes behind the first address
        // that is such a multiple itself. `StreamingStore`, which alone asks for this, waits for these stores before the
        // memory is written again (`settle`), and before it is anyone else's (`drop`).
        unsafe { _mm512_stream_si512(std::ptr::from_mut(out).cast(), line) }
    }
}
