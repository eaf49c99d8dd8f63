//! How near a paper's numbers come all in all.

use serde::Serialize;

use crate::{Role, Row};

/// Sums over the rows of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// Predictions that were measured, of a value or of both ends of a range; known misses, and what follows from the paper alone,
    /// are none.
    pub predictions: usize,
    /// Their mean absolute error, in percent; `None` without predictions.
    pub mean_error_pct: Option<f64>,
    /// The largest one.
    pub worst_error_pct: Option<f64>,
    /// Predictions of one end only, which have no error as long as they are on the right side: not part of the mean.
    pub bounds: usize,
    /// What is further off than its tolerance, but for known misses.
    pub missed: usize,
    /// Numbers that wait for something.
    pub pending: usize,
}

impl Score {
    pub(super) fn of(rows: &[Row]) -> Self {
        let predicted = rows.iter().filter(|row| row.role == Role::Prediction && row.ours.is_some());
        let (bounds, values): (Vec<&Row>, Vec<&Row>) = predicted.partition(|row| row.paper.is_bound());
        let errors: Vec<f64> = values.iter().filter_map(|row| row.error_pct).map(f64::abs).collect();
        let counted = |row: &&Row| row.role != Role::KnownMiss;
        let missed = rows.iter().filter(counted).filter(|row| row.reached == Some(false)).count();
        Self {
            predictions: errors.len(),
            mean_error_pct: (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64),
            worst_error_pct: errors.into_iter().reduce(f64::max),
            bounds: bounds.len(),
            missed,
            pending: rows.iter().filter(|row| row.pending.is_some()).count(),
        }
    }
}
