//! The best window of a tile or of a part of it, found with as little counting as possible.
//!
//! Values that follow each other mostly have the same best window. Where the kernel can count around a window faster
//! than make a histogram, this one is tried first, then neighbours that the counts show to be better. The result never
//! depends on where the search begins.

use crate::kernel::Kernel;
use crate::kernel::window_bounds::Verdict;
use crate::scale;

/// Windows that are tried before all exponents are counted.
const SEARCH_STEPS: usize = 3;

/// The best start for at most a tile of BF16 values, the lowest of equals, and how many of them are outside of its
/// window. The search begins at `first`.
pub(super) fn best(kernel: &Kernel, values: &[u8], first: Option<u8>) -> (u8, usize) {
    if let Some(mut start) = first {
        for _ in 0..SEARCH_STEPS {
            let Some(bounds) = (kernel.window_bounds)(values, start) else { break };
            match bounds.verdict() {
                Verdict::Best(outside) => return (start, outside),
                Verdict::Better(other) => start = other,
                Verdict::Unknown => break,
            }
        }
    }
    let histogram = (kernel.histogram)(values);
    let start = scale::best_start(&histogram);
    (start, values.len() / 2 - scale::covered(&histogram, start) as usize)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::kernel::{PORTABLE, TILE};
    use crate::levels;

    #[test]
    fn the_result_is_that_of_the_histogram_wherever_the_search_begins() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(6);
        for case in 0..if cfg!(miri) { 7 } else { 300 } {
            let count = [1, 5, 100, TILE][case % 4];
            let (centre, zero_share) = (rng.random_range(0..250), [0.0, 0.3, 0.9][case % 3]);
            let values: Vec<u8> = (0..count)
                .flat_map(|_| {
                    let exponent = (centre + rng.random::<u32>().trailing_zeros()).min(255) as u16;
                    let zero = rng.random::<f64>() < zero_share;
                    (if zero { 0 } else { exponent << 7 | rng.random_range(1..128u16) }).to_le_bytes()
                })
                .collect();
            let expected = best(&PORTABLE, &values, None);
            for kernel in levels::all() {
                for first in (0..=scale::LAST_START).step_by(1 + case % 7) {
                    let found = best(kernel, &values, Some(first));
                    assert_eq!(found, expected, "from {first}, level {}", kernel.level);
                }
            }
        }
    }
}
