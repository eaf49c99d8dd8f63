//! Formulas 4 and 5: where the window of seven exponents begins; and what it costs to round that otherwise than best, of
//! which the paper says nothing.

use libm::exp2;
use zipwire_codec::scale::gaussian::{Choice, coverage, optimum, optimum_u, start};

use super::super::figure::{Figure, Measurement};
use super::super::{Bench, Curve, PublishedLevel, ReproduceError};

/// Points of an octave, which is the period of coverage in sigma.
const OCTAVE: u32 = 8;

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("eq4-u", |_| Ok(optimum_u().into())),
        Measurement::of("eq5-offset", |_| Ok(optimum().into())),
    ],
    curves: &[by_rule],
};

/// Coverage of the window under each rule, over an octave of sigma.
fn by_rule(_: &Bench<'_>) -> Result<Curve, ReproduceError> {
    let point = |step: u32| {
        let sigma = exp2(f64::from(step) / f64::from(OCTAVE));
        let covered = |choice| coverage(sigma, start(sigma, choice));
        let percent =
            [Choice::Best, Choice::Round, Choice::Floor, Choice::Ceil].map(|choice| 100.0 * covered(choice));
        [&[sigma][..], &percent].concat()
    };
    Ok(Curve {
        name: "coverage by rounding, percent",
        title: "values in the window, %, if its start is formula 5 rounded to an integer in this way",
        columns: &["sigma", "best", "nearest", "below", "above"],
        axes: ["standard deviation of the values", "values in the window, %"],
        groups: &[],
        published: const { &[PublishedLevel::of("coverage", "published, at least", None)] },
        points: (0..OCTAVE).map(point).collect(),
        ranges: None,
    })
}
