//! Numbers as a function of one that a paper does not state.

use serde::Serialize;

/// A table whose first column is what the others, which have one unit, depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// A short name, unique in its paper.
    pub name: &'static str,
    /// What it shows, and under which assumption.
    pub title: &'static str,
    /// Names of the columns.
    pub columns: &'static [&'static str],
    /// Points, each with a number for each column.
    pub points: Vec<Vec<f64>>,
}
