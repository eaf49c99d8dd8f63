//! Histogram of inter-token latencies with bounded memory.

/// Distinct times kept before equal ones are merged.
const LIMIT: usize = 1 << 20;

/// Inter-token latencies in seconds, and how often each was seen.
///
/// Memory is bounded: when there are more than a million entries, equal ones are merged, and if that does not halve them, all are rounded to
/// fewer and fewer bits until it does. [`Self::error`] bounds the error of that.
#[derive(Clone, Debug)]
pub(crate) struct LatencyHistogram {
    list: Vec<(f64, u64)>,
    limit: usize,
    /// Bits of mantissas that are rounded off.
    rounded_bits: u32,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

impl LatencyHistogram {
    fn new(limit: usize) -> Self {
        Self { list: Vec::new(), limit, rounded_bits: 0 }
    }

    pub(crate) fn push(&mut self, seconds: f64, count: u64) {
        if self.list.len() == self.limit {
            self.merge();
        }
        self.list.push((round(seconds, self.rounded_bits), count));
    }

    pub(crate) fn list(&self) -> &[(f64, u64)] {
        &self.list
    }

    /// How far each time may be from what was measured, relative to it; 0 where nothing was rounded.
    pub(crate) fn error(&self) -> f64 {
        if self.rounded_bits == 0 { 0.0 } else { ((1_u64 << self.rounded_bits) as f64) * f64::EPSILON }
    }

    fn merge(&mut self) {
        self.list.sort_by(|a, b| a.0.total_cmp(&b.0));
        loop {
            self.list.dedup_by(|next, kept| {
                let is_equal = next.0.to_bits() == kept.0.to_bits();
                kept.1 += if is_equal { next.1 } else { 0 };
                is_equal
            });
            if self.list.len() <= self.limit / 2 || self.rounded_bits == f64::MANTISSA_DIGITS - 1 {
                return;
            }
            self.rounded_bits += 1;
            for (seconds, _) in &mut self.list {
                *seconds = round(*seconds, self.rounded_bits);
            }
        }
    }
}

/// The nearest number whose last bits are zero. Larger numbers stay larger or become equal, so what is sorted stays so.
fn round(seconds: f64, bits: u32) -> f64 {
    if bits == 0 {
        return seconds;
    }
    let half = 1_u64 << (bits - 1);
    // What a mantissa carries over goes to the exponent, which is right.
    f64::from_bits((seconds.to_bits() + half) & !((1 << bits) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ones_are_merged_and_nothing_is_rounded() {
        let mut histogram = LatencyHistogram::new(8);
        (0..1000).for_each(|index| histogram.push(f64::from(index % 4) * 0.1, 1 + index as u64 % 2));
        assert!(histogram.list().len() <= 8);
        assert_eq!(histogram.error(), 0.0);
        assert_eq!(histogram.list().iter().map(|(_, count)| count).sum::<u64>(), 1500);
    }

    #[test]
    fn different_ones_are_rounded_by_no_more_than_is_said() {
        let value = |index: u32| 1e-3 * f64::from(1 + index * 7919 % 10_007);
        let mut histogram = LatencyHistogram::new(4096);
        (0..10_000).for_each(|index| histogram.push(value(index), 1));
        let (mut kept, mut exact): (Vec<f64>, Vec<f64>) = (Vec::new(), (0..10_000).map(value).collect());
        for &(seconds, count) in histogram.list() {
            (0..count).for_each(|_| kept.push(seconds));
        }
        kept.sort_by(f64::total_cmp);
        exact.sort_by(f64::total_cmp);
        assert!(
            histogram.list().len() <= 4096 && histogram.error() > 0.0 && histogram.error() < 4e-3,
            "{}",
            histogram.error()
        );
        for (kept, exact) in kept.iter().zip(&exact) {
            assert!((kept - exact).abs() <= histogram.error() * exact, "{kept} for {exact}");
        }
    }
}
