//! DFloat11: what is known of weights without its codec.

use crate::figure::{Figure, Measurement, Ours};
use crate::samples::{Exponents, PRETRAINED};

pub(super) const FIGURES: &[Figure] = &[Figure {
    measurements: &[
        Measurement {
            id: "exponent-entropy",
            measure: |bench| {
                let exponents = Exponents::of(bench, PRETRAINED, |_| true)?;
                Ok(Ours::with(exponents.entropy(), exponents.source()))
            },
        },
        Measurement {
            id: "exponents-used",
            measure: |bench| {
                let exponents = Exponents::of(bench, PRETRAINED, |_| true)?;
                Ok(Ours::with(exponents.used() as f64, exponents.source()))
            },
        },
    ],
    curves: &[],
}];
