//! A proof that a window is the best, from less than a histogram.
//!
//! A window is compared with those one further by exact counts, and with all others by bounds: a window that lies
//! `k >= 2` further up loses at least the two lowest exponents, and wins at most all values above. Where the bounds do
//! not decide, a histogram has to.

use crate::scale::{LAST_START, WINDOW};

/// Counts that a kernel makes, see [`WindowBounds::of_counts`].
pub(crate) const COUNTS: usize = 9;

/// The exponents in and around the window from `start` that are counted one by one, modulo 256.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "for kernels that count by comparing")
)]
pub(crate) fn neighbours(start: u8) -> [u8; COUNTS - 3] {
    [start.wrapping_sub(1), start, start + 1, start + 5, start + 6, start.wrapping_add(7)]
}

/// Exponents of a tile, counted in and around a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowBounds {
    /// First exponent of the window.
    pub(crate) start: u8,
    /// Number of values.
    pub(crate) values: u32,
    /// Values with exponent 0, in the window or not.
    pub(crate) zeros: u32,
    /// Values with exponents below the window.
    pub(crate) below: u32,
    /// Values with exponents above the window.
    pub(crate) above: u32,
    /// Values with exponent `start - 1`, `start` and `start + 1`; none where there is no such exponent.
    pub(crate) low: [u32; 3],
    /// Values with exponent `start + 5`, `start + 6` and `start + 7`; none where there is no such exponent.
    pub(crate) high: [u32; 3],
}

/// Conclusion from [`WindowBounds`] about its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No other window covers more values, and none that begins lower covers as many. So many are outside.
    Best(usize),
    /// The window that begins here is better.
    Better(u8),
    /// The counts do not decide.
    Unknown,
}

impl WindowBounds {
    /// The counts of values with exponent 0, below the window, above it, and with each of [`neighbours`].
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        allow(dead_code, reason = "for kernels that count by comparing")
    )]
    pub(crate) fn of_counts(start: u8, values: usize, counts: [u32; COUNTS]) -> Self {
        let [zeros, below, above, before, first, second, sixth, last, behind] = counts;
        Self {
            start,
            values: values as u32,
            zeros,
            below,
            above,
            // There is no exponent -1, and no 256: these comparisons were with 255 and 0.
            low: [if start == 0 { 0 } else { before }, first, second],
            high: [sixth, last, if start == LAST_START { 0 } else { behind }],
        }
    }

    /// The counts of a tile of `values` values that is packed with one window and has these escapes.
    pub(crate) fn of_packed(start: u8, values: usize, edges: [u32; 4], escapes: &[u8]) -> Self {
        let equal = |exponent: u8| escapes.iter().map(|escape| u32::from(*escape == exponent)).sum();
        let [first, second, sixth, last] = edges;
        let below = escapes.iter().map(|escape| u32::from(*escape < start)).sum();
        Self {
            start,
            values: values as u32,
            zeros: if start == 0 { first } else { equal(0) },
            below,
            above: escapes.len() as u32 - below,
            low: [start.checked_sub(1).map_or(0, equal), first, second],
            high: [sixth, last, start.checked_add(WINDOW as u8).map_or(0, equal)],
        }
    }

    /// Whether the window is the best.
    pub(crate) fn verdict(&self) -> Verdict {
        let Self { start, low: [before, first, second], high: [sixth, last, behind], .. } = *self;
        // Of equal windows the lowest wins.
        if start > 0 && before >= last {
            return Verdict::Better(start - 1);
        }
        if start < LAST_START && behind > first {
            return Verdict::Better(start + 1);
        }
        let outside = self.below + self.above;
        let covered = self.values - outside;
        // Exponent 0 is frequent where values are exactly zero, and only the window from 0 has it. That window loses
        // everything if it does not overlap with this one.
        let lowest_loses = if start >= 7 { covered } else { sixth + last };
        let lower_lose = start < 2 || (self.below - self.zeros < sixth + last && self.below < lowest_loses);
        let higher_lose = self.above <= first + second;
        if lower_lose && higher_lose { Verdict::Best(outside as usize) } else { Verdict::Unknown }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::scale::{best_start, covered};

    /// The definition.
    pub(crate) fn bounds_of(histogram: &[u32; 256], start: u8) -> WindowBounds {
        let first = usize::from(start);
        let count = |exponent: Option<usize>| exponent.and_then(|e| histogram.get(e)).copied().unwrap_or(0);
        WindowBounds {
            start,
            values: histogram.iter().sum(),
            zeros: histogram[0],
            below: histogram[..first].iter().sum(),
            above: histogram[first + WINDOW..].iter().sum(),
            low: [first.checked_sub(1), Some(first), Some(first + 1)].map(count),
            high: [first + 5, first + 6, first + 7].map(|exponent| count(Some(exponent))),
        }
    }

    #[test]
    fn a_verdict_is_true_of_every_window_of_any_histogram() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(5);
        let mut decided = 0;
        for case in 0..if cfg!(miri) { 30 } else { 20_000 } {
            let mut histogram = [0u32; 256];
            let (centre, width) = (rng.random_range(0..256), rng.random_range(1..14));
            for _ in 0..rng.random_range(0..60) {
                let spread = rng.random_range(0..width) + rng.random_range(0..width);
                histogram[(centre + spread).min(255)] += rng.random_range(0..4);
            }
            histogram[0] += [0, 0, 9, 90][case % 4];
            histogram[255] += [0, 0, 0, 0, 1, 60][case % 6];
            let best = best_start(&histogram);
            let total: u32 = histogram.iter().sum();
            for start in (0..=LAST_START).step_by(if cfg!(miri) { 83 } else { 1 }) {
                match bounds_of(&histogram, start).verdict() {
                    Verdict::Best(outside) => {
                        decided += 1;
                        assert_eq!(start, best, "{histogram:?}");
                        assert_eq!(outside as u32, total - covered(&histogram, start));
                    }
                    Verdict::Better(other) => {
                        let gain =
                            i64::from(covered(&histogram, other)) - i64::from(covered(&histogram, start));
                        assert!(gain > 0 || (gain == 0 && other < start), "{start} {other} {histogram:?}");
                    }
                    Verdict::Unknown => {}
                }
            }
        }
        assert!(cfg!(miri) || decided > 5000, "only {decided} of 20000 are decided");
    }

    #[test]
    fn packing_counts_what_the_definition_says() {
        let histogram: [u32; 256] = std::array::from_fn(|exponent| 7 + exponent as u32 % 5);
        let values: u32 = histogram.iter().sum();
        for start in (0..=LAST_START).step_by(if cfg!(miri) { 83 } else { 1 }) {
            let window = usize::from(start)..usize::from(start) + WINDOW;
            let escapes: Vec<u8> = (0..=255)
                .filter(|exponent| !window.contains(&usize::from(*exponent)))
                .flat_map(|exponent| vec![exponent; histogram[usize::from(exponent)] as usize])
                .collect();
            let edges = crate::kernel::window::EDGES.map(|code| histogram[usize::from(start + code)]);
            let window_bounds = WindowBounds::of_packed(start, values as usize, edges, &escapes);
            assert_eq!(window_bounds, bounds_of(&histogram, start), "{start}");
        }
    }
}
