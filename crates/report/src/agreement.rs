//! Predicted times beside measured ones: picture and table.

use crate::html::{Cell, paragraph, table};
use crate::plots::Agreement;
use crate::quantity::{seconds, signed_percent};

/// Half of the width of the band that counts as agreement.
pub(crate) const BAND: f64 = 0.05;

/// Times of one variant, or step.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) predicted_s: f64,
    pub(crate) measured_s: f64,
}

impl Pair {
    /// Measured over predicted, less 1.
    pub(crate) fn error(&self) -> f64 {
        self.measured_s / self.predicted_s - 1.0
    }
}

/// Pairs that a picture can show.
fn shown(pairs: &[Pair]) -> Vec<&Pair> {
    pairs.iter().filter(|pair| pair.predicted_s > 0.0 && pair.measured_s > 0.0).collect()
}

/// Picture of such pairs, or a sentence where there are none.
pub(crate) fn picture(pairs: &[Pair]) -> String {
    let pairs = shown(pairs);
    if pairs.is_empty() {
        return paragraph("Nothing was measured.");
    }
    let points = pairs.iter().map(|pair| (pair.name.clone(), pair.predicted_s, pair.measured_s));
    let svg = Agreement { points: points.collect(), band: BAND }.svg();
    let caption = "On the dashed line both are equal; in the band they differ by 5 % at most.";
    format!("<figure>{svg}<figcaption>{caption}</figcaption></figure>\n")
}

/// Picture and table.
pub(crate) fn agreement(pairs: &[Pair]) -> String {
    let rows = shown(pairs).into_iter().map(|pair| {
        let error = pair.error();
        vec![
            Cell::name(&pair.name),
            Cell::number(Some(pair.predicted_s), seconds),
            Cell::number(Some(pair.measured_s), seconds),
            Cell::number(Some(100.0 * error), signed_percent).coloured(Some(error.abs() <= BAND)),
        ]
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    if rows.is_empty() {
        return picture(pairs);
    }
    picture(pairs) + &table(&["times of", "predicted", "measured", "error"], &rows)
}
