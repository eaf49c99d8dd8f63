//! ZipNN: what is known of weights without its codec.

use crate::figure::{Figure, Measurement, Ours};
use crate::samples::{Exponents, PRETRAINED};

pub(super) const FIGURES: &[Figure] = &[Figure {
    measurements: &[
        Measurement {
            id: "exponents-used",
            measure: |bench| {
                let exponents = Exponents::of(bench, PRETRAINED, |_| true)?;
                Ok(Ours::with(exponents.used() as f64, exponents.source()))
            },
        },
        Measurement {
            id: "top12",
            measure: |bench| {
                let exponents = Exponents::of(bench, PRETRAINED, |_| true)?;
                Ok(Ours::with(100.0 * exponents.coverage(12), exponents.source()))
            },
        },
    ],
    curves: &[],
}];
