//! Table 1: the most frequent exponents of BF16 values from a normal distribution.
//!
//! The paper names no sigma. Coverage has the period of an octave in it, and the published row is that of a power of two,
//! rounded to the nearest BF16 value.

use zipwire_codec::scale::gaussian::{Rounding, top_coverage};

use super::super::figure::{Figure, Measurement, Ours};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("table1-top1", |_| Ok(percent(1))),
        Measurement::of("table1-top2", |_| Ok(percent(2))),
        Measurement::of("table1-top3", |_| Ok(percent(3))),
        Measurement::of("table1-top4", |_| Ok(percent(4))),
        Measurement::of("table1-top5", |_| Ok(percent(5))),
        Measurement::of("table1-top6", |_| Ok(percent(6))),
        Measurement::of("table1-top7", |_| Ok(percent(7))),
        Measurement::of("coverage", |_| Ok(percent(7))),
    ],
    curves: &[],
};

fn percent(count: usize) -> Ours {
    (100.0 * top_coverage(1.0, Rounding::Nearest, count)).into()
}
