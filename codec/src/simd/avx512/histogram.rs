//! How often each exponent, or each byte, occurs: comparisons with the frequent ones, counted in bytes, and counters in memory for the others.

use std::arch::x86_64::*;

use super::vector::{VECTOR_BYTES, load, store};
use crate::kernel::{TILE, four, sums};

/// Consecutive exponents that are compared with.
const WINDOW: usize = 16;
/// How far the window reaches above the highest exponent of the first step.
const ABOVE: u8 = 3;

// A counter of a byte has a value of each step at most.
const _: () = assert!(TILE / VECTOR_BYTES <= u8::MAX as usize);

/// See [`crate::kernel::Kernel::histogram`].
#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn histogram(values: &[u8]) -> [u32; 256] {
    assert!(values.len() <= 2 * TILE, "counters of a byte are for a tile");
    let (steps, tail) = values.as_chunks();
    // What begins like noise is counted in memory.
    let Some(start) = steps.first().and_then(|step| window::<false>(exponents(step))) else {
        return sums::histogram(values);
    };
    let mut counts = sums::histogram(tail);
    add::<false>(steps.iter().map(|step| exponents(step)), start, &mut counts);
    counts
}

/// See [`crate::kernel::Kernel::byte_counts`].
#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn byte_counts(bytes: &[u8]) -> [u32; 256] {
    assert!(bytes.len() <= TILE, "counters of a byte are for a tile");
    let (steps, tail) = bytes.as_chunks();
    let Some(first) = steps.first() else { return four::byte_counts(bytes) };
    let (first, steps) = (load(first), steps.iter().map(|step| load(step)));
    let mut counts = four::byte_counts(tail);
    if let Some(start) = window::<false>(first) {
        add::<false>(steps, start, &mut counts);
    } else if let Some(start) = window::<true>(first) {
        add::<true>(steps, start, &mut counts);
    } else {
        return four::byte_counts(bytes);
    }
    counts
}

/// The first exponent, or byte, of a window, if few of a step are outside of it. With `SIGNS` the highest bit of a byte is a sign: there are two windows
/// of half the length, one with and one without that bit.
#[target_feature(enable = "avx512bw,popcnt")]
fn window<const SIGNS: bool>(step: __m512i) -> Option<u8> {
    /// The most bytes outside of a window: more take longer than counting all in memory.
    const FEW: u32 = 4;
    let mut bytes = [0; VECTOR_BYTES];
    store(&mut bytes, step);
    let (above, len) = if SIGNS { (ABOVE / 2, WINDOW as u8 / 2) } else { (ABOVE, WINDOW as u8) };
    let highest = bytes.into_iter().map(|byte| if SIGNS { byte & !SIGN } else { byte }).max().unwrap_or(0);
    let start = highest.saturating_add(above).saturating_sub(len - 1);
    let outside = _mm512_cmpge_epu8_mask(numbers::<SIGNS>(step, start), _mm512_set1_epi8(WINDOW as i8));
    (outside.count_ones() <= FEW).then_some(start)
}

/// The sign of a value in its highest byte.
const SIGN: u8 = 1 << 7;

/// The number of each byte in the window that begins at `start`, or in the two windows; [`WINDOW`] or more outside.
#[inline]
#[target_feature(enable = "avx512bw")]
fn numbers<const SIGNS: bool>(bytes: __m512i, start: u8) -> __m512i {
    let start = _mm512_set1_epi8(start.cast_signed());
    if !SIGNS {
        return _mm512_sub_epi8(bytes, start);
    }
    let half = _mm512_set1_epi8(WINDOW as i8 / 2);
    let signs = _mm512_movepi8_mask(bytes);
    let within = _mm512_sub_epi8(_mm512_and_si512(bytes, _mm512_set1_epi8((!SIGN).cast_signed())), start);
    let outside = _mm512_cmpge_epu8_mask(within, half);
    let numbers = _mm512_mask_add_epi8(within, signs, within, half);
    _mm512_mask_blend_epi8(outside, numbers, _mm512_set1_epi8(-1))
}

/// The byte with a number.
fn byte<const SIGNS: bool>(number: u8, start: u8) -> u8 {
    if !SIGNS {
        return start.wrapping_add(number);
    }
    let (sign, within) = (number / (WINDOW as u8 / 2), number % (WINDOW as u8 / 2));
    // A window may reach beyond the highest byte without a sign: there it counts nothing.
    (start.wrapping_add(within) & !SIGN) | (sign * SIGN)
}

/// Adds the counts of at most a tile of exponents, or of bytes.
#[inline]
#[target_feature(enable = "avx512bw")]
fn add<const SIGNS: bool>(steps: impl Iterator<Item = __m512i>, start: u8, counts: &mut [u32; 256]) {
    let one = _mm512_set1_epi8(1);
    let of_window: [__m512i; WINDOW] = std::array::from_fn(|i| _mm512_set1_epi8(i as i8));
    let mut counters = [_mm512_setzero_si512(); WINDOW];
    for step in steps {
        let numbers = numbers::<SIGNS>(step, start);
        for (counter, number) in counters.iter_mut().zip(of_window) {
            *counter = _mm512_mask_add_epi8(*counter, _mm512_cmpeq_epi8_mask(numbers, number), *counter, one);
        }
        let mut others = _mm512_cmpge_epu8_mask(numbers, _mm512_set1_epi8(WINDOW as i8));
        if others != 0 {
            let mut bytes = [0; VECTOR_BYTES];
            store(&mut bytes, step);
            while others != 0 {
                counts[usize::from(bytes[others.trailing_zeros() as usize % VECTOR_BYTES])] += 1;
                others &= others - 1;
            }
        }
    }
    for (number, counter) in (0..).zip(counters) {
        let found = _mm512_reduce_add_epi64(_mm512_sad_epu8(counter, _mm512_setzero_si512()));
        counts[usize::from(byte::<SIGNS>(number, start))] += found as u32;
    }
}

/// The exponents of the values of a step, in another order.
#[inline]
#[target_feature(enable = "avx512bw")]
fn exponents(step: &[u8; 2 * VECTOR_BYTES]) -> __m512i {
    let [low, high] = step.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
    let exponent = |values| _mm512_srli_epi16::<8>(_mm512_add_epi16(values, values));
    _mm512_packus_epi16(exponent(load(low)), exponent(load(high)))
}
