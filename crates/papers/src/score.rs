//! Errors over all numbers of a paper.

use serde::Serialize;

use crate::Row;

/// Sums over the rows of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// Predictions that were measured, of a value or of both ends of a range, known misses among them.
    pub predictions: Errors,
    /// Independent ones among them: they follow from nothing that was fitted, and from no other number.
    pub independent: Errors,
    /// Predictions of one end only, which have no error as long as they are on the right side: not among the others.
    pub bounds: usize,
    /// Numbers beyond their tolerance.
    pub missed: usize,
    /// Numbers that wait for something.
    pub pending: usize,
}

/// Absolute errors of some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// How many rows.
    pub rows: usize,
    /// Their mean error, in percent; `None` without rows.
    pub mean_error_pct: Option<f64>,
    /// The largest one.
    pub worst_error_pct: Option<f64>,
    /// How many of the rows are speedups with a gain.
    pub gains: usize,
    /// The mean error of the gain, speedup less 1, in percent; `None` without gains.
    pub mean_gain_error_pct: Option<f64>,
    /// The largest one.
    pub worst_gain_error_pct: Option<f64>,
}

impl Score {
    pub(super) fn of(rows: &[Row]) -> Self {
        let predicted = rows.iter().filter(|row| row.independent.is_some() && row.ours.is_some());
        let (bounds, values): (Vec<&Row>, Vec<&Row>) = predicted.partition(|row| row.paper.is_bound());
        let errors = |row: &&Row| (row.error_pct, row.gain_error_pct);
        Self {
            predictions: Errors::of(values.iter().map(errors)),
            independent: Errors::of(values.iter().filter(|row| row.independent == Some(true)).map(errors)),
            bounds: bounds.len(),
            missed: rows.iter().filter(|row| row.reached == Some(false)).count(),
            pending: rows.iter().filter(|row| row.pending.is_some()).count(),
        }
    }
}

impl Errors {
    /// Sums up errors of values and of gains, in percent.
    pub(super) fn of(errors: impl Iterator<Item = (Option<f64>, Option<f64>)>) -> Self {
        let (values, gains): (Vec<Option<f64>>, Vec<Option<f64>>) = errors.unzip();
        let rows = values.len();
        let (mean_error_pct, worst_error_pct) = mean_and_worst(&values);
        let (mean_gain_error_pct, worst_gain_error_pct) = mean_and_worst(&gains);
        let gains = gains.iter().flatten().count();
        Self { rows, mean_error_pct, worst_error_pct, gains, mean_gain_error_pct, worst_gain_error_pct }
    }
}

/// Mean and maximum of the absolute errors that there are.
fn mean_and_worst(errors: &[Option<f64>]) -> (Option<f64>, Option<f64>) {
    let errors: Vec<f64> = errors.iter().flatten().map(|error| error.abs()).collect();
    let mean = (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64);
    (mean, errors.into_iter().reduce(f64::max))
}
