//! DFloat11: what is known of weights without its codec.

use crate::figure::{Figure, Measurement};
use crate::samples::{Bits, Counts, pretrained};

pub(super) const FIGURES: &[Figure] = &[Figure {
    measurements: &[
        Measurement::of("exponent-entropy", |bench| pretrained(bench, Bits::Exponent, Counts::entropy)),
        Measurement::of("exponents-used", |bench| {
            pretrained(bench, Bits::Exponent, |counts| counts.used() as f64)
        }),
        Measurement::of("sign-entropy", |bench| pretrained(bench, Bits::Sign, Counts::entropy)),
        Measurement::of("mantissa-entropy", |bench| pretrained(bench, Bits::Mantissa, Counts::entropy)),
    ],
    curves: &[],
}];
