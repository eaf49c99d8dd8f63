//! Numbers as a function of one that a paper does not state.

use serde::Serialize;

/// A table whose first column is what the others depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// What it shows, and under which assumption.
    pub title: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Points, each with a number for each column.
    pub points: Vec<Vec<f64>>,
}
