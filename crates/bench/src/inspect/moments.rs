//! Scale, shape and order-0 entropies of the distribution of values, and the sign, exponent and mantissa of one.

use zipwire_codec::DType;

/// Running sums over finite values, in the order in which they come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    count: u64,
    zeros: u64,
    sum: f64,
    magnitude: f64,
    square: f64,
    fourth: f64,
}

impl Moments {
    pub(super) fn add(&mut self, value: f64) {
        let square = value * value;
        self.count += 1;
        self.zeros += u64::from(value == 0.0);
        self.sum += value;
        self.magnitude += value.abs();
        self.square += square;
        self.fourth += square * square;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn zeros(&self) -> u64 {
        self.zeros
    }

    /// Mean of |x|; `None` where no value is finite.
    pub(super) fn mean_abs(&self) -> Option<f64> {
        (self.count > 0).then(|| self.mean(self.magnitude))
    }

    /// Standard deviation about the mean; `None` where no value is finite.
    pub(super) fn std(&self) -> Option<f64> {
        let mean = self.mean(self.sum);
        (self.count > 0).then(|| (self.mean(self.square) - mean * mean).max(0.0).sqrt())
    }

    /// Root of the mean square.
    fn rms(&self) -> f64 {
        self.mean(self.square).sqrt()
    }

    /// E[x^4] / E[x^2]^2, 3 for a Gaussian; `None` where all values are zero.
    pub(super) fn kurtosis(&self) -> Option<f64> {
        let square = self.mean(self.square);
        let kurtosis = self.mean(self.fourth) / (square * square);
        kurtosis.is_finite().then_some(kurtosis)
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.count as f64
    }
}

/// Largest difference between the distribution of |x| and that of a Gaussian of the same mean square about zero, at the
/// powers of two where exponents change: a Kolmogorov-Smirnov distance, from 0 to 1. `None` where all values are zero.
pub(super) fn normal_distance(format: Format, exponents: &Histogram, moments: &Moments) -> Option<f64> {
    let sigma = moments.rms();
    if !(sigma.is_finite() && sigma > 0.0) {
        return None;
    }
    let total: u64 = exponents.counts().iter().sum();
    let mut below = 0;
    let mut farthest = 0.0_f64;
    for (exponent, &count) in (0..).zip(exponents.counts()) {
        below += count;
        let upper = libm::scalbn(1.0, format.power(exponent) + i32::from(exponent > 0));
        let gaussian = libm::erf(upper / sigma / std::f64::consts::SQRT_2);
        farthest = farthest.max((below as f64 / total as f64 - gaussian).abs());
    }
    Some(farthest)
}

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

/// How a type lays out its bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub(super) exponent_bits: u32,
    pub(super) mantissa_bits: u32,
}

/// One value in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) sign: u32,
    pub(super) exponent: u32,
    pub(super) mantissa: u32,
}

impl Format {
    pub(super) fn of(dtype: DType) -> Self {
        let (exponent_bits, mantissa_bits) = match dtype {
            DType::Bf16 => (8, 7),
            DType::F16 => (5, 10),
            DType::F32 => (8, 23),
            DType::F8E4M3 => (4, 3),
            DType::F8E5M2 => (5, 2),
        };
        Self { exponent_bits, mantissa_bits }
    }

    pub(super) fn bits(self) -> u32 {
        1 + self.exponent_bits + self.mantissa_bits
    }

    pub(super) fn split(self, bits: u32) -> Parts {
        let mask = |count: u32| (1 << count) - 1;
        Parts {
            sign: bits >> (self.exponent_bits + self.mantissa_bits) & 1,
            exponent: bits >> self.mantissa_bits & mask(self.exponent_bits),
            mantissa: bits & mask(self.mantissa_bits),
        }
    }

    /// Power of two of the lowest value with this exponent.
    fn power(self, exponent: u32) -> i32 {
        exponent.max(1).cast_signed() - (1 << (self.exponent_bits - 1)) + 1
    }

    /// The number that the parts encode; `None` for infinities and NaN.
    pub(super) fn value(self, Parts { sign, exponent, mantissa }: Parts) -> Option<f64> {
        let top = exponent == (1 << self.exponent_bits) - 1;
        // E4M3 has one NaN and no infinity; its other top values are finite.
        let is_e4m3 = self.exponent_bits == 4;
        if top && (!is_e4m3 || mantissa == (1 << self.mantissa_bits) - 1) {
            return None;
        }
        let implicit = if exponent == 0 { 0 } else { 1 << self.mantissa_bits };
        let scale = self.power(exponent) - self.mantissa_bits.cast_signed();
        let magnitude = libm::scalbn(f64::from(mantissa + implicit), scale);
        Some(if sign == 1 { -magnitude } else { magnitude })
    }
}

/// The bit patterns of little-endian values; a tail that is no whole value is left out.
pub(super) fn patterns(dtype: DType, bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(dtype.width()).map(|value| {
        let mut pattern = [0; 4];
        pattern[..value.len()].copy_from_slice(value);
        u32::from_le_bytes(pattern)
    })
}

#[cfg(test)]
mod tests {
    use zipwire_codec::DType;
    use zipwire_payload::Rows;

    use super::*;

    fn of(bytes: &[u8]) -> (Moments, Option<f64>) {
        let format = Format::of(DType::Bf16);
        let (mut moments, mut order0) = (Moments::default(), Order0::new(format));
        for bits in patterns(DType::Bf16, bytes) {
            let parts = format.split(bits);
            order0.add(parts);
            moments.add(format.value(parts).expect("finite"));
        }
        let distance = normal_distance(format, &order0.exponent, &moments);
        (moments, distance)
    }

    #[test]
    fn gaussians_look_gaussian_and_others_do_not() {
        let rows = Rows::gaussian(0.02, 1);
        let bytes: Vec<u8> = (0..rows.row_count()).flat_map(|row| rows.row(row).to_vec()).collect();
        let (moments, distance) = of(&bytes);
        let scales = [moments.std(), moments.mean_abs()].map(|scale| scale.expect("all are finite") / 0.02);
        assert!((scales[0] - 1.0).abs() < 0.02, "{scales:?}");
        assert!((scales[1] - (2.0 / std::f64::consts::PI).sqrt()).abs() < 0.02, "{scales:?}");
        assert!((moments.kurtosis().expect("not all zero") - 3.0).abs() < 0.2);
        assert!(distance.expect("not all zero") < 0.01);
        // +1 and -1 alone.
        let (moments, distance) = of(&[0x80, 0x3f, 0x80, 0xbf]);
        assert_eq!((moments.std(), moments.kurtosis()), (Some(1.0), Some(1.0)));
        assert!(distance.expect("not all zero") > 0.3);
    }

    #[test]
    fn zeros_have_no_shape() {
        let (moments, distance) = of(&[0, 0, 0, 0x80]);
        assert_eq!((moments.zeros(), moments.kurtosis(), distance), (2, None, None));
        assert_eq!((Moments::default().std(), Moments::default().mean_abs()), (None, None));
    }

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

    fn value(dtype: DType, bits: u32) -> Option<f64> {
        let format = Format::of(dtype);
        format.value(format.split(bits))
    }

    #[test]
    fn values_are_those_of_the_hardware() {
        for bits in 0..=u32::from(u16::MAX) {
            let expected = f32::from_bits(bits << 16);
            assert_eq!(value(DType::Bf16, bits), expected.is_finite().then(|| f64::from(expected)));
        }
        for bits in (0..u32::MAX - 65_521).step_by(65_521) {
            let expected = f32::from_bits(bits);
            assert_eq!(value(DType::F32, bits), expected.is_finite().then(|| f64::from(expected)));
        }
    }

    #[test]
    fn small_types_follow_their_specifications() {
        // IEEE 754 binary16, and the tables of "FP8 Formats for Deep Learning" (arXiv 2209.05433).
        let cases = [
            (DType::F16, 0x3c00, Some(1.0)),
            (DType::F16, 0x0001, Some(2_f64.powi(-24))),
            (DType::F16, 0x7bff, Some(65504.0)),
            (DType::F16, 0x7c00, None),
            (DType::F8E4M3, 0x7e, Some(448.0)),
            (DType::F8E4M3, 0x01, Some(2_f64.powi(-9))),
            (DType::F8E4M3, 0xff, None),
            (DType::F8E5M2, 0x7b, Some(57344.0)),
            (DType::F8E5M2, 0x81, Some(-(2_f64.powi(-16)))),
            (DType::F8E5M2, 0x7c, None),
        ];
        for (dtype, bits, expected) in cases {
            assert_eq!(value(dtype, bits), expected, "{dtype} {bits:#x}");
        }
    }
}
