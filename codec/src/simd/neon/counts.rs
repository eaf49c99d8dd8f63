//! Exponents counted around a window: by look-ups and comparisons of 16 values, instead of counters in memory.

use std::arch::aarch64::*;

use super::vector::{exponents, load, load_values};
use crate::kernel::window_bounds::{COUNTS, WindowBounds, neighbours};
use crate::scale::WINDOW;

/// Vectors whose counts fit into nibbles.
const VECTORS: usize = 15;
/// So many times as many vectors can be counted in bytes.
const TIMES: usize = 17;

/// See [`crate::kernel::Kernel::window_bounds`].
#[target_feature(enable = "neon")]
pub(super) fn window_bounds(values: &[u8], start: u8) -> Option<WindowBounds> {
    let (vectors, tail) = values.as_chunks::<32>();
    let mut sums = [0; COUNTS];
    for vectors in vectors.chunks(VECTORS * TIMES) {
        add_vectors(vectors, start, &mut sums);
    }
    if !tail.is_empty() {
        // Filled up with an exponent in the middle of the window, which is in none of the counts.
        let mut padded = [0; 32];
        padded.as_chunks_mut().0.fill((u16::from(start + WINDOW as u8 / 2) << 7).to_le_bytes());
        padded[..tail.len()].copy_from_slice(tail);
        add_vectors(&[padded], start, &mut sums);
    }
    Some(WindowBounds::of_counts(start, values.len() / 2, sums))
}

/// Adds the counts of at most `VECTORS * TIMES` vectors.
#[inline]
#[target_feature(enable = "neon")]
fn add_vectors(vectors: &[[u8; 32]], start: u8, sums: &mut [u32; COUNTS]) {
    let zero = vdupq_n_u8(0);
    let (first, last) = (vdupq_n_u8(start), vdupq_n_u8(start + (WINDOW - 1) as u8));
    // Each of the neighbours is in a nibble of its own, by its distance from the lowest of them.
    let around = neighbours(start);
    let lowest = vdupq_n_u8(around[0]);
    let mut addends = [[0; 16]; 3];
    for (number, exponent) in around.into_iter().enumerate() {
        addends[number / 2][usize::from(exponent.wrapping_sub(around[0]))] = [0x01, 0x10][number % 2];
    }
    let [a, b, c] = &addends;
    let addends = [load(a), load(b), load(c)];
    let mut counts = [zero; COUNTS];
    for vectors in vectors.chunks(VECTORS) {
        let mut nibbles = [zero; 3];
        for values in vectors {
            let exponents = exponents(load_values(values));
            // A comparison that holds is -1.
            counts[0] = vsubq_u8(counts[0], vceqzq_u8(exponents));
            counts[1] = vsubq_u8(counts[1], vcltq_u8(exponents, first));
            counts[2] = vsubq_u8(counts[2], vcgtq_u8(exponents, last));
            let places = vsubq_u8(exponents, lowest);
            for (nibbles, addends) in nibbles.iter_mut().zip(addends) {
                *nibbles = vaddq_u8(*nibbles, vqtbl1q_u8(addends, places));
            }
        }
        for (counts, nibbles) in counts[3..].as_chunks_mut::<2>().0.iter_mut().zip(nibbles) {
            counts[0] = vaddq_u8(counts[0], vandq_u8(nibbles, vdupq_n_u8(0x0f)));
            counts[1] = vsraq_n_u8::<4>(counts[1], nibbles);
        }
    }
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += u32::from(vaddlvq_u8(count));
    }
}
