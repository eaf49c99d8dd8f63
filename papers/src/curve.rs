//! Numbers as a function of one that a paper does not state.

use serde::Serialize;

/// A table whose first column is what the others, which have one unit, depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// A short name, unique in its paper.
    pub name: String,
    /// What it shows, and under which assumption.
    pub title: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Points, each with a number for each column.
    pub points: Vec<Vec<f64>>,
}
