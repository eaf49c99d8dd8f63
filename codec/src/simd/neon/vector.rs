//! Loads, stores, and the few sequences that several kernels need.

use std::arch::aarch64::*;

/// The bytes as a vector.
#[inline]
#[target_feature(enable = "neon")]
pub fn load(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the reference is valid for reads of 16 bytes, and the load asks for no alignment.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

/// Writes a vector.
#[inline]
#[target_feature(enable = "neon")]
pub fn store(bytes: &mut [u8; 16], vector: uint8x16_t) {
    // SAFETY: the reference is valid for writes of 16 bytes, and the store asks for no alignment.
    unsafe { vst1q_u8(bytes.as_mut_ptr(), vector) }
}

/// Writes half a vector.
#[inline]
#[target_feature(enable = "neon")]
pub fn store_half(bytes: &mut [u8; 8], half: uint8x8_t) {
    *bytes = word(half).to_le_bytes();
}

/// The lower bytes of 16 BF16 values, and the upper ones.
#[inline]
#[target_feature(enable = "neon")]
pub fn load_values(values: &[u8; 32]) -> uint8x16x2_t {
    // SAFETY: the reference is valid for reads of 32 bytes, and the load asks for no alignment beyond that of bytes.
    unsafe { vld2q_u8(values.as_ptr()) }
}

/// Writes 16 values: their lower bytes, and the upper ones.
#[inline]
#[target_feature(enable = "neon")]
pub fn store_values(values: &mut [u8; 32], bytes: uint8x16x2_t) {
    // SAFETY: the reference is valid for writes of 32 bytes, and the store asks for no alignment beyond that of bytes.
    unsafe { vst2q_u8(values.as_mut_ptr(), bytes) }
}

/// Eight bytes from `position` on.
///
/// # Safety
/// `bytes` has at least `position + 8` bytes.
#[inline]
#[target_feature(enable = "neon")]
pub unsafe fn load_8_at(bytes: &[u8], position: usize) -> uint8x8_t {
    debug_assert!(position + 8 <= bytes.len());
    // SAFETY: the caller promises that these eight bytes are in the slice, and the load asks for no alignment.
    unsafe { vld1_u8(bytes.as_ptr().add(position)) }
}

/// Writes the eight bytes from `position` on.
///
/// # Safety
/// `bytes` has at least `position + 8` bytes.
#[inline]
#[target_feature(enable = "neon")]
pub unsafe fn store_8_at(bytes: &mut [u8], position: usize, half: uint8x8_t) {
    debug_assert!(position + 8 <= bytes.len());
    // SAFETY: the caller promises that these eight bytes are in the slice, and the store asks for no alignment.
    unsafe { vst1_u8(bytes.as_mut_ptr().add(position), half) }
}

/// Half a vector as a word, the first byte lowest.
#[inline]
#[target_feature(enable = "neon")]
pub fn word(half: uint8x8_t) -> u64 {
    vget_lane_u64::<0>(vreinterpret_u64_u8(half))
}

/// Exponents of 16 values, a byte each.
#[inline]
#[target_feature(enable = "neon")]
pub fn exponents(values: uint8x16x2_t) -> uint8x16_t {
    // The highest bit of the lower byte moves in below the others.
    vsriq_n_u8::<7>(vaddq_u8(values.1, values.1), values.0)
}

/// Sign and mantissa of 16 values, a byte each.
#[inline]
#[target_feature(enable = "neon")]
pub fn rests(values: uint8x16x2_t) -> uint8x16_t {
    vbslq_u8(vdupq_n_u8(0x80), values.1, values.0)
}

/// The inverse of [`rests`] and [`exponents`].
#[inline]
#[target_feature(enable = "neon")]
pub fn join_16(rests: uint8x16_t, exponents: uint8x16_t) -> uint8x16x2_t {
    uint8x16x2_t(vsliq_n_u8::<7>(rests, exponents), vsriq_n_u8::<1>(rests, exponents))
}

/// A bit for each of 64 bytes, the first one lowest, which are all ones or 0.
#[inline]
#[target_feature(enable = "neon")]
pub fn bits([a, b, c, d]: [uint8x16_t; 4]) -> u64 {
    let select = load(&[1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128]);
    // Sums of neighbours: of two bytes, of four, of eight.
    let first = vpaddq_u8(vandq_u8(a, select), vandq_u8(b, select));
    let second = vpaddq_u8(vandq_u8(c, select), vandq_u8(d, select));
    let all = vpaddq_u8(first, second);
    word(vget_low_u8(vpaddq_u8(all, all)))
}
