//! Loads and stores, and the few sequences that several kernels need.

use std::arch::x86_64::*;

/// How far ahead of their use values are asked for: a block of `tiered`, so that the next one is summed from the cache.
pub const AHEAD: usize = 1 << 16;
/// How far ahead of their use values are asked for again, from the second cache into the first one, in loops so long that a
/// processor does not look far enough ahead of itself.
pub const NEAR: usize = 1 << 11;

/// Bytes of a vector: 64 values of 16 bits are two vectors.
pub const VECTOR_BYTES: usize = 64;

/// The positions of the even bytes of two vectors.
pub static EVEN: [u8; VECTOR_BYTES] = every_second(0);
/// The positions of the odd bytes of two vectors.
pub static ODD: [u8; VECTOR_BYTES] = every_second(1);
/// The positions that bring the first halves of two vectors together, byte by byte.
static FIRST: [u8; VECTOR_BYTES] = alternating(0);
/// The positions that bring the second halves of two vectors together, byte by byte.
static SECOND: [u8; VECTOR_BYTES] = alternating(32);

const fn every_second(first: u8) -> [u8; VECTOR_BYTES] {
    let mut positions = [0; VECTOR_BYTES];
    let mut i = 0;
    while i < VECTOR_BYTES {
        positions[i] = 2 * i as u8 + first;
        i += 1;
    }
    positions
}

const fn alternating(first: u8) -> [u8; VECTOR_BYTES] {
    let mut positions = [0; VECTOR_BYTES];
    let mut i = 0;
    while i < VECTOR_BYTES {
        positions[i] = first + i as u8 / 2 + if i % 2 == 1 { 64 } else { 0 };
        i += 1;
    }
    positions
}

/// The bytes as a vector.
#[inline]
#[target_feature(enable = "avx512bw")]
pub fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the reference is valid for reads of 64 bytes, and the load asks for no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// The bytes as half a vector.
#[inline]
#[target_feature(enable = "avx512bw")]
pub fn load_half(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: the reference is valid for reads of 32 bytes, and the load asks for no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// The bytes as a vector, with zeros behind them; at most 64.
#[inline]
#[target_feature(enable = "avx512bw")]
pub fn load_part(bytes: &[u8]) -> __m512i {
    // SAFETY: the mask marks no more bytes than the slice has, others are not read.
    unsafe { _mm512_maskz_loadu_epi8(first_bits(bytes.len()), bytes.as_ptr().cast()) }
}

/// The bytes as a quarter of a vector.
#[inline]
#[target_feature(enable = "avx512bw")]
pub fn load_quarter(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the reference is valid for reads of 16 bytes, and the load asks for no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Writes a vector.
#[inline]
#[target_feature(enable = "avx512bw")]
pub fn store(bytes: &mut [u8; 64], vector: __m512i) {
    // SAFETY: the reference is valid for writes of 64 bytes, and the store asks for no alignment.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
}

/// Writes the front of a vector, at most 64 bytes.
#[inline]
#[target_feature(enable = "avx512bw")]
pub fn store_part(bytes: &mut [u8], vector: __m512i) {
    // SAFETY: the mask marks no more bytes than the slice has, others are not written.
    unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), first_bits(bytes.len()), vector) }
}

/// A bit for each of the first `count` bytes, at most 64.
#[inline]
pub fn first_bits(count: usize) -> u64 {
    debug_assert!(count <= 64);
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// Asks for the cache line that lies `distance` bytes behind the start of `bytes`, which a later call may need.
#[inline]
#[target_feature(enable = "avx512bw")]
#[allow(unused_unsafe, reason = "safe in recent versions of Rust")]
pub fn prefetch<const BYTES: usize>(bytes: &[u8; BYTES], distance: usize) {
    // SAFETY: a prefetch reads nothing and never faults, whatever the address, and `wrapping_add` allows any.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(distance).cast()) }
}

/// Prefetches like [`prefetch`], but only into the second cache: for bytes needed a while later.
#[inline]
#[target_feature(enable = "avx512bw")]
#[allow(unused_unsafe, reason = "safe in recent versions of Rust")]
pub fn prefetch_far<const BYTES: usize>(bytes: &[u8; BYTES], distance: usize) {
    // SAFETY: a prefetch reads nothing and never faults, whatever the address, and `wrapping_add` allows any.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(bytes.as_ptr().wrapping_add(distance).cast()) }
}

/// Bytes chosen by a mask of bits: those of `first` where the bits of `mask` are set, else those of `second`.
#[inline]
#[target_feature(enable = "avx512bw")]
pub fn select(mask: __m512i, first: __m512i, second: __m512i) -> __m512i {
    // mask ? first : second, as a truth table.
    _mm512_ternarylogic_epi32::<0b1100_1010>(mask, first, second)
}

/// Rests and exponents of 64 values, a byte each: the sign is the highest bit of the rest, the mantissa all others.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2")]
pub fn split_64(low: __m512i, high: __m512i) -> (__m512i, __m512i) {
    // Rotated by the sign, the upper byte is the exponent and the lower one mantissa and sign.
    let (low, high) = (_mm512_shldi_epi16::<1>(low, low), _mm512_shldi_epi16::<1>(high, high));
    let exponents = _mm512_permutex2var_epi8(low, load(&ODD), high);
    let rests = _mm512_permutex2var_epi8(low, load(&EVEN), high);
    let mantissas = _mm512_srli_epi16::<1>(rests);
    (select(_mm512_set1_epi8(0x7f), mantissas, _mm512_slli_epi16::<7>(rests)), exponents)
}

/// The inverse of [`split_64`].
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2")]
pub fn join_64(rests: __m512i, exponents: __m512i) -> (__m512i, __m512i) {
    let mantissas = _mm512_add_epi8(rests, rests);
    let rests = select(_mm512_set1_epi8(1), _mm512_srli_epi16::<7>(rests), mantissas);
    let low = _mm512_permutex2var_epi8(rests, load(&FIRST), exponents);
    let high = _mm512_permutex2var_epi8(rests, load(&SECOND), exponents);
    (_mm512_shrdi_epi16::<1>(low, low), _mm512_shrdi_epi16::<1>(high, high))
}

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
/// Vectors may begin anywhere: lines are then put together from two of them.
pub struct Vectors<'a, const PAST: bool> {
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
    ///
    /// # Safety
    /// If `PAST`, [`crate::streaming_store::StreamingStore`] has asked for it, or something else fences before the memory is anyone else's.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    pub unsafe fn new(out: &'a mut [u8]) -> Self {
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
    pub fn write(&mut self, vector: __m512i) {
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
    pub fn finish(mut self) {
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
        // that is such a multiple itself. Whoever made this waits for these stores before the
        // memory is written again (`settle`), and before it is anyone else's (`drop`).
        unsafe { _mm512_stream_si512(std::ptr::from_mut(out).cast(), line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_by_hand() {
        assert_eq!((EVEN[1], ODD[63]), (2, 127));
        assert_eq!(FIRST[..4], [0, 64, 1, 65]);
        assert_eq!(SECOND[62..], [63, 127]);
        assert_eq!([0, 1, 63, 64].map(first_bits), [0, 1, u64::MAX >> 1, u64::MAX]);
    }
}
