//! Loads, stores, and the few sequences that several kernels need.

use std::arch::x86_64::*;

/// How far ahead of their use values are asked for where they come from memory, in bytes.
pub const AHEAD: usize = 1 << 14;

/// The bytes as a vector.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: the reference is valid for reads of 32 bytes, and the load asks for no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// The bytes as half a vector.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_half(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the reference is valid for reads of 16 bytes, and the load asks for no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Writes a vector.
#[inline]
#[target_feature(enable = "avx2")]
pub fn store(bytes: &mut [u8; 32], vector: __m256i) {
    // SAFETY: the reference is valid for writes of 32 bytes, and the store asks for no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

/// Writes half a vector.
#[inline]
#[target_feature(enable = "avx2")]
pub fn store_half(bytes: &mut [u8; 16], vector: __m128i) {
    // SAFETY: the reference is valid for writes of 16 bytes, and the store asks for no alignment.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), vector) }
}

/// Eight bytes from `position` on, in the lower half.
///
/// # Safety
/// `bytes` has at least `position + 8` bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn load_8_at(bytes: &[u8], position: usize) -> __m128i {
    debug_assert!(position + 8 <= bytes.len());
    // SAFETY: the caller promises that these eight bytes are in the slice, and the load asks for no alignment.
    unsafe { _mm_loadl_epi64(bytes.as_ptr().add(position).cast()) }
}

/// Writes the lower half to the eight bytes from `position` on.
///
/// # Safety
/// `bytes` has at least `position + 8` bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn store_8_at(bytes: &mut [u8], position: usize, vector: __m128i) {
    debug_assert!(position + 8 <= bytes.len());
    // SAFETY: the caller promises that these eight bytes are in the slice, and the store asks for no alignment.
    unsafe { _mm_storel_epi64(bytes.as_mut_ptr().add(position).cast(), vector) }
}

/// Asks for the cache line that lies `distance` bytes behind the start of `bytes`, which the next call may need.
#[inline]
#[target_feature(enable = "avx2")]
#[allow(unused_unsafe, reason = "safe in recent versions of Rust")]
pub fn prefetch<const BYTES: usize>(bytes: &[u8; BYTES], distance: usize) {
    // SAFETY: a prefetch reads nothing and never faults, whatever the address, and `wrapping_add` allows any.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(distance).cast()) }
}

/// Prefetches like [`prefetch`], but only into the second cache: for bytes needed a while later. It leaves the buffers between the first
/// cache and the next one to stores past the caches.
#[inline]
#[target_feature(enable = "avx2")]
#[allow(unused_unsafe, reason = "safe in recent versions of Rust")]
pub fn prefetch_far<const BYTES: usize>(bytes: &[u8; BYTES], distance: usize) {
    // SAFETY: a prefetch reads nothing and never faults, whatever the address, and `wrapping_add` allows any.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(bytes.as_ptr().wrapping_add(distance).cast()) }
}

/// Exponents of 32 values, a byte each. Each half of the result has eight of the first 16 values and eight of the others.
#[inline]
#[target_feature(enable = "avx2")]
pub fn exponents(first: __m256i, second: __m256i) -> __m256i {
    let exponent = |values| _mm256_srli_epi16::<8>(_mm256_add_epi16(values, values));
    _mm256_packus_epi16(exponent(first), exponent(second))
}

/// Exchanges the two quarters in the middle: undoes what packing does to the order of values, and prepares for
/// unpacking.
#[inline]
#[target_feature(enable = "avx2")]
pub fn swap_middle(vector: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(vector)
}

/// A bit for each byte that is all ones, or at least has its highest bit.
#[inline]
#[target_feature(enable = "avx2")]
pub fn bits(vector: __m256i) -> u32 {
    _mm256_movemask_epi8(vector).cast_unsigned()
}

/// Sum of the four 64-bit parts.
#[inline]
#[target_feature(enable = "avx2")]
pub fn sum_epi64(vector: __m256i) -> u64 {
    let half = _mm_add_epi64(_mm256_castsi256_si128(vector), _mm256_extracti128_si256::<1>(vector));
    _mm_cvtsi128_si64(_mm_add_epi64(half, _mm_unpackhi_epi64(half, half))).cast_unsigned()
}
