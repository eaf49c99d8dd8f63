//! ZipNN: what is known of weights without its codec.

use crate::figure::{Figure, Measurement};
use crate::samples::pretrained;

pub(super) const FIGURES: &[Figure] = &[Figure {
    measurements: &[
        Measurement::of("exponents-used", |bench| pretrained(bench, |exponents| exponents.used() as f64)),
        Measurement::of("top12", |bench| pretrained(bench, |exponents| 100.0 * exponents.coverage(12))),
    ],
    curves: &[],
}];
