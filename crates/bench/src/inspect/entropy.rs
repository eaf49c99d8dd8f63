//! Order-0 entropies of the parts of values.

use super::float::{Format, Parts};

/// Shortest row or column whose own entropy is estimated; shorter ones say too little.
const SHORTEST_GROUP: usize = 64;

/// Counts of the values of one part: how often each symbol of some bits occurs.
#[derive(Clone, Debug)]
pub struct Histogram(Vec<u64>);

impl Histogram {
    /// No symbols yet, of `bits` bits each.
    pub fn new(bits: u32) -> Self {
        Self(vec![0; 1 << bits])
    }

    /// Counts a symbol. Panics if it has more bits than the histogram.
    pub fn add(&mut self, symbol: u32) {
        self.0[symbol as usize] += 1;
    }

    /// How often each symbol occurred.
    pub fn counts(&self) -> &[u64] {
        &self.0
    }

    /// Symbols counted.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Bits per symbol; 0 of nothing.
    pub fn entropy(&self) -> f64 {
        let total = self.total() as f64;
        let present = self.0.iter().filter(|&&count| count > 0).map(|&count| count as f64 / total);
        present.map(|share| share * libm::log2(share.recip())).sum()
    }

    /// The same, corrected for the bias of small samples (Miller 1955): (symbols - 1) / (2 total ln 2) bits.
    fn entropy_corrected(&self) -> f64 {
        let symbols = self.0.iter().filter(|&&count| count > 0).count();
        let correction =
            symbols.saturating_sub(1) as f64 / (2.0 * self.total() as f64 * std::f64::consts::LN_2);
        self.entropy() + correction
    }

    /// Share of the `count` most frequent symbols.
    pub fn coverage(&self, count: usize) -> f64 {
        let mut counts = self.0.clone();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts.iter().take(count).sum::<u64>() as f64 / self.total() as f64
    }
}

/// Order-0 bits per value with sign, exponent and mantissa coded apart; mantissas of more than 10 bits by bytes, as the
/// top 7 bits, the middle and the low byte.
#[derive(Clone, Debug)]
pub(super) struct Order0 {
    format: Format,
    pub(super) exponent: Histogram,
    sign: Histogram,
    mantissa: Vec<Histogram>,
}

impl Order0 {
    pub(super) fn new(format: Format) -> Self {
        let planes: &[u32] = if format.mantissa_bits > 10 { &[7, 8, 8] } else { &[format.mantissa_bits] };
        Self {
            format,
            exponent: Histogram::new(format.exponent_bits),
            sign: Histogram::new(1),
            mantissa: planes.iter().map(|&bits| Histogram::new(bits)).collect(),
        }
    }

    pub(super) fn add(&mut self, Parts { sign, exponent, mantissa }: Parts) {
        self.exponent.add(exponent);
        self.sign.add(sign);
        match self.mantissa.as_mut_slice() {
            [all] => all.add(mantissa),
            planes => {
                planes[0].add(mantissa >> 16);
                planes[1].add(mantissa >> 8 & 0xff);
                planes[2].add(mantissa & 0xff);
            }
        }
    }

    /// Size over raw size with the exponent coded and the rest stored.
    pub(super) fn limit_exponent(&self) -> f64 {
        (f64::from(1 + self.format.mantissa_bits) + self.exponent.entropy()) / f64::from(self.format.bits())
    }

    /// Size over raw size with all parts coded.
    pub(super) fn limit(&self) -> f64 {
        let mantissa: f64 = self.mantissa.iter().map(Histogram::entropy).sum();
        (self.sign.entropy() + self.exponent.entropy() + mantissa) / f64::from(self.format.bits())
    }
}

/// Mean entropy of the exponents inside one row, and inside one column, of a matrix; `None` where they are too short.
pub(super) fn inside_groups(exponents: &[u8], columns: usize, bits: u32) -> (Option<f64>, Option<f64>) {
    let rows = exponents.len().checked_div(columns).unwrap_or(0);
    let mean = |groups: usize, len: usize, symbol: &dyn Fn(usize, usize) -> u8| {
        (groups > 0 && len >= SHORTEST_GROUP).then(|| {
            let entropy = |group| {
                let mut histogram = Histogram::new(bits);
                (0..len).for_each(|index| histogram.add(u32::from(symbol(group, index))));
                histogram.entropy_corrected()
            };
            (0..groups).map(entropy).sum::<f64>() / groups as f64
        })
    };
    (
        mean(rows, columns, &|row, column| exponents[row * columns + column]),
        mean(columns, rows, &|column, row| exponents[row * columns + column]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: &[u64]) -> Histogram {
        Histogram(counts.to_vec())
    }

    #[test]
    fn entropies_of_known_distributions() {
        assert_eq!(histogram(&[5, 0]).entropy(), 0.0);
        assert_eq!(histogram(&[3, 3, 3, 3]).entropy(), 2.0);
        assert_eq!(histogram(&[2, 1, 1]).entropy(), 1.5);
        assert_eq!(histogram(&[0, 0]).entropy(), 0.0);
        let corrected = histogram(&[2, 1, 1]).entropy_corrected();
        assert!((corrected - (1.5 + 2.0 / (8.0 * std::f64::consts::LN_2))).abs() < 1e-12);
    }

    #[test]
    fn coverage_is_the_share_of_the_most_frequent() {
        let histogram = histogram(&[1, 5, 0, 2, 2]);
        assert_eq!([1, 2, 16].map(|count| histogram.coverage(count)), [0.5, 0.7, 1.0]);
    }

    #[test]
    fn rows_of_one_exponent_each_have_no_entropy_inside() {
        let exponents: Vec<u8> = (0..64).flat_map(|row| [row % 4; 64]).collect();
        let (rows, columns) = inside_groups(&exponents, 64, 8);
        assert_eq!(rows, Some(0.0));
        assert!((columns.expect("columns are long enough") - 2.0).abs() < 0.05);
        assert_eq!(inside_groups(&exponents, 16, 8).0, None);
        assert_eq!(inside_groups(&[], 0, 8), (None, None));
    }
}
