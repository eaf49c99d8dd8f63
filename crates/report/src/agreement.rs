//! Predicted times beside measured ones: picture and table.

use std::ops::RangeInclusive;

use crate::html::{Cell, paragraph, table};
use crate::plots::Agreement;
use crate::quantity::{seconds, signed_percent};

/// Half of the width of the band that counts as agreement.
pub(crate) const BAND: f64 = 0.05;

/// Seconds that are taken for a time: others are damaged, and no picture has room for them.
const SANE_S: RangeInclusive<f64> = 1e-12..=1e12;

/// Direction in which errors are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorSign {
    /// Measured over predicted, less 1: of validations and runs, as `zipwire validate` prints it.
    OfMeasured,
    /// Predicted over measured, less 1: of advice, as `zipwire advise` prints it.
    OfPredicted,
}

impl ErrorSign {
    /// Formula, for people.
    pub(crate) fn formula(self) -> &'static str {
        match self {
            Self::OfMeasured => "measured / predicted - 1",
            Self::OfPredicted => "predicted / measured - 1",
        }
    }

    /// Error of a pair.
    pub(crate) fn of(self, pair: &Pair) -> f64 {
        match self {
            Self::OfMeasured => pair.measured_s / pair.predicted_s - 1.0,
            Self::OfPredicted => pair.predicted_s / pair.measured_s - 1.0,
        }
    }

    /// Error of a pair as a cell, coloured by whether it is within the band; a dash without a pair.
    pub(crate) fn cell(self, pair: Option<&Pair>) -> Cell {
        let error = pair.map(|pair| self.of(pair));
        Cell::number(error.map(|error| 100.0 * error), signed_percent)
            .coloured(error.map(|error| error.abs() <= BAND))
    }
}

/// Times of one variant, or step.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) predicted_s: f64,
    pub(crate) measured_s: f64,
}

/// A pair of two times that can be shown; nothing if one is missing, or no time that anything could take.
pub(crate) fn shown(name: &str, predicted_s: Option<f64>, measured_s: Option<f64>) -> Option<Pair> {
    let sane = |time_s: Option<f64>| time_s.filter(|time_s| SANE_S.contains(time_s));
    Some(Pair { name: name.to_owned(), predicted_s: sane(predicted_s)?, measured_s: sane(measured_s)? })
}

/// Picture of such pairs, or a sentence where there are none.
pub(crate) fn picture(pairs: &[Pair]) -> String {
    if pairs.is_empty() {
        return paragraph("Nothing was measured.");
    }
    let points = pairs.iter().map(|pair| (pair.name.clone(), pair.predicted_s, pair.measured_s));
    let svg = Agreement { points: points.collect(), band: BAND }.svg();
    let caption = "On the dashed line both are equal; in the band they differ by 5 % at most.";
    format!("<figure>{svg}<figcaption>{caption}</figcaption></figure>\n")
}

/// Picture and table.
pub(crate) fn agreement(pairs: &[Pair], sign: ErrorSign) -> String {
    if pairs.is_empty() {
        return picture(pairs);
    }
    let rows = pairs.iter().map(|pair| {
        vec![
            Cell::name(&pair.name),
            Cell::number(Some(pair.predicted_s), seconds),
            Cell::number(Some(pair.measured_s), seconds),
            sign.cell(Some(pair)),
        ]
    });
    let error = format!("error: {}", sign.formula());
    picture(pairs) + &table(&["times of", "predicted", "measured", &error], &rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_nothing_takes_are_not_shown() {
        for broken in [0.0, -1.0, f64::NAN, f64::INFINITY, 1.7e308, 1e-300] {
            assert!(shown("v", Some(broken), Some(1.0)).is_none(), "{broken}");
            assert!(shown("v", Some(1.0), Some(broken)).is_none(), "{broken}");
        }
        assert!(shown("v", None, Some(1.0)).is_none() && shown("v", Some(1e-12), Some(1e12)).is_some());
    }

    #[test]
    fn signs_are_opposite() {
        let pair = shown("v", Some(1.0), Some(2.0)).unwrap();
        let errors = [ErrorSign::OfMeasured, ErrorSign::OfPredicted].map(|sign| sign.of(&pair));
        assert_eq!(errors, [1.0, -0.5]);
    }
}
