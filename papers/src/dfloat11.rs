//! DFloat11: what is known of weights without its codec.

use crate::figure::{Figure, Measurement};
use crate::samples::{Exponents, pretrained};

pub(super) const FIGURES: &[Figure] = &[Figure {
    measurements: &[
        Measurement::of("exponent-entropy", |bench| pretrained(bench, Exponents::entropy)),
        Measurement::of("exponents-used", |bench| pretrained(bench, |exponents| exponents.used() as f64)),
    ],
    curves: &[],
}];
