//! Scale and shape of the distribution of values.

use super::entropy::Histogram;
use super::float::Format;

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

    /// Finite values.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Zeros of both signs.
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

#[cfg(test)]
mod tests {
    use zipwire_codec::DType;
    use zipwire_payload::Rows;

    use super::super::entropy::Order0;
    use super::super::float::patterns;
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
}
