//! The best window of a tile, found with as little counting as possible.
//!
//! Tiles that follow each other mostly have the same best window. Where the kernel can count around a window faster
//! than make a histogram, this one is tried first, then neighbours that the counts show to be better. The result never
//! depends on where the search begins.

use crate::kernel::Kernel;
use crate::kernel::near::{Near, Verdict};
use crate::scale;

/// Windows that are tried before all exponents are counted.
const STEPS: usize = 3;

/// Exponents of a tile, counted when they are asked for.
pub(super) struct Search<'a> {
    kernel: &'a Kernel,
    values: &'a [u8],
    /// Where the search begins.
    first: Option<u8>,
    near: Option<Near>,
    histogram: Option<[u32; 256]>,
}

impl<'a> Search<'a> {
    /// Begins at `first`, the best window of the tile before.
    pub(super) fn new(kernel: &'a Kernel, values: &'a [u8], first: Option<u8>) -> Self {
        Self { kernel, values, first, near: None, histogram: None }
    }

    /// How often each exponent occurs.
    pub(super) fn histogram(&mut self) -> &mut [u32; 256] {
        self.histogram.get_or_insert_with(|| (self.kernel.histogram)(self.values))
    }

    /// How many values are +0.
    pub(super) fn zeros(&mut self) -> usize {
        // Most tiles have no exponent 0, and the counts that `best` needs say so.
        let exponents = match (self.kernel.near, self.first) {
            (Some(count), Some(start)) => self.near.insert(count(self.values, start)).zeros,
            _ => self.histogram()[0],
        };
        if exponents == 0 { 0 } else { (self.kernel.zeros)(self.values) }
    }

    /// The best start for the values without `zeros` that are +0, the lowest of equals, and how many of them are outside.
    pub(super) fn best(&mut self, zeros: usize) -> (u8, usize) {
        if let (Some(count), Some(mut start), None) = (self.kernel.near, self.first, self.histogram) {
            for _ in 0..STEPS {
                let near = match self.near {
                    Some(near) if near.start == start => near,
                    _ => *self.near.insert(count(self.values, start)),
                };
                match near.without_zeros(zeros as u32).verdict() {
                    Verdict::Best(outside) => return (start, outside),
                    Verdict::Better(other) => start = other,
                    Verdict::Unknown => break,
                }
            }
        }
        let mut histogram = *self.histogram();
        histogram[0] -= zeros as u32;
        let start = scale::best_start(&histogram);
        let outside = self.values.len() / 2 - zeros - scale::covered(&histogram, start) as usize;
        (start, outside)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::kernel::{self, TILE};

    #[test]
    fn the_result_is_that_of_the_histogram_wherever_the_search_begins() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(6);
        for case in 0..300 {
            let count = [1, 5, 100, TILE][case % 4];
            let (centre, zero_share) = (rng.random_range(0..250), [0.0, 0.3, 0.9][case % 3]);
            let values: Vec<u8> = (0..count)
                .flat_map(|_| {
                    let exponent = (centre + rng.random::<u32>().trailing_zeros()).min(255) as u16;
                    let zero = rng.random::<f64>() < zero_share;
                    (if zero { 0 } else { exponent << 7 | rng.random_range(1..128u16) }).to_le_bytes()
                })
                .collect();
            let all_zeros = (kernel::PORTABLE.zeros)(&values);
            for zeros in [0, all_zeros] {
                let expected = Search::new(&kernel::PORTABLE, &values, None).best(zeros);
                for kernel in kernel::all() {
                    for first in (0..=scale::LAST_START).step_by(1 + case % 7) {
                        let mut search = Search::new(kernel, &values, Some(first));
                        assert_eq!(search.zeros(), all_zeros);
                        assert_eq!(search.best(zeros), expected, "from {first}, level {}", kernel.level);
                    }
                }
            }
        }
    }
}
