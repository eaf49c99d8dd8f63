//! How often each exponent, or each byte, occurs: comparisons with the frequent ones, counted in bytes, and counters in memory for the others.

use std::arch::x86_64::*;

use super::vector::{load, store};
use crate::kernel::{TILE, four, sums};

/// Values of a step.
const STEP: usize = 64;
/// Consecutive exponents that are compared with.
const WINDOW: usize = 16;
/// How far the window reaches above the highest exponent of the first step.
const ABOVE: u8 = 3;

// A counter of a byte has a value of each step at most.
const _: () = assert!(TILE / STEP <= u8::MAX as usize);

/// See [`crate::kernel::Kernel::histogram`].
#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn histogram(values: &[u8]) -> [u32; 256] {
    assert!(values.len() <= 2 * TILE, "counters of a byte are for a tile");
    let (steps, tail) = values.as_chunks();
    // What begins like noise is counted in memory.
    let Some(start) = steps.first().and_then(|step| window(exponents(step))) else {
        return sums::histogram(values);
    };
    let mut counts = sums::histogram(tail);
    add(steps.iter().map(|step| exponents(step)), start, &mut counts);
    counts
}

/// See [`crate::kernel::Kernel::byte_counts`].
#[target_feature(enable = "avx512bw,popcnt")]
pub(super) fn byte_counts(bytes: &[u8]) -> [u32; 256] {
    assert!(bytes.len() <= TILE, "counters of a byte are for a tile");
    let (steps, tail) = bytes.as_chunks();
    let Some(start) = steps.first().and_then(|step| window(load(step))) else {
        return four::byte_counts(bytes);
    };
    let mut counts = four::byte_counts(tail);
    add(steps.iter().map(|step| load(step)), start, &mut counts);
    counts
}

/// The first exponent of a window, if few of a step are outside of it.
#[target_feature(enable = "avx512bw,popcnt")]
fn window(exponents: __m512i) -> Option<u8> {
    /// Exponents outside of it, at most: these take longer than counting them all in memory.
    const FEW: u32 = 4;
    let mut bytes = [0; STEP];
    store(&mut bytes, exponents);
    let highest = bytes.into_iter().max().unwrap_or(0);
    let start = highest.saturating_add(ABOVE).saturating_sub(WINDOW as u8 - 1);
    let numbers = _mm512_sub_epi8(exponents, _mm512_set1_epi8(start.cast_signed()));
    let outside = _mm512_cmpge_epu8_mask(numbers, _mm512_set1_epi8(WINDOW as i8));
    (outside.count_ones() <= FEW).then_some(start)
}

/// Adds the counts of at most a tile of exponents.
#[inline]
#[target_feature(enable = "avx512bw")]
fn add(steps: impl Iterator<Item = __m512i>, start: u8, counts: &mut [u32; 256]) {
    let one = _mm512_set1_epi8(1);
    let of_window: [__m512i; WINDOW] = std::array::from_fn(|i| _mm512_set1_epi8(i as i8));
    let mut counters = [_mm512_setzero_si512(); WINDOW];
    for exponents in steps {
        let numbers = _mm512_sub_epi8(exponents, _mm512_set1_epi8(start.cast_signed()));
        for (counter, number) in counters.iter_mut().zip(of_window) {
            *counter = _mm512_mask_add_epi8(*counter, _mm512_cmpeq_epi8_mask(numbers, number), *counter, one);
        }
        let mut others = _mm512_cmpge_epu8_mask(numbers, _mm512_set1_epi8(WINDOW as i8));
        if others != 0 {
            let mut bytes = [0; STEP];
            store(&mut bytes, numbers);
            while others != 0 {
                let number = bytes[others.trailing_zeros() as usize % STEP];
                counts[usize::from(number.wrapping_add(start))] += 1;
                others &= others - 1;
            }
        }
    }
    for (number, counter) in (0..).zip(counters) {
        let found = _mm512_reduce_add_epi64(_mm512_sad_epu8(counter, _mm512_setzero_si512()));
        counts[usize::from(start.wrapping_add(number))] += found as u32;
    }
}

/// The exponents of the values of a step, in another order.
#[inline]
#[target_feature(enable = "avx512bw")]
fn exponents(step: &[u8; 2 * STEP]) -> __m512i {
    let [low, high] = step.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
    let exponent = |values| _mm512_srli_epi16::<8>(_mm512_add_epi16(values, values));
    _mm512_packus_epi16(exponent(load(low)), exponent(load(high)))
}
