//! Pictures as SVG: numbers of ours beside published or measured ones.
//!
//! [`Bars`] where what is compared has names, [`Lines`] where it is a number, [`Rows`] for numbers with long names, [`Scatter`] for
//! pairs, [`Agreement`] for times that are predicted and measured. Every axis has a title with its unit; what is published is black, a diamond, a band or a dashed line; ours has colours
//! that most people tell apart (Okabe and Ito), and a whisker from the least to the most of several seeds. Numbers are written with
//! fixed precision, so that the same picture gives the same bytes.

mod agreement;
mod bars;
mod lines;
mod rows;
mod scatter;
pub(crate) mod svg;

pub use agreement::Agreement;
pub use bars::Bars;
pub use lines::Lines;
pub use rows::{Row, Rows};
pub use scatter::{Scatter, ScatterSeries};

/// A number of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The number.
    pub value: f64,
    /// The least and the most of it over several seeds, if there were several.
    pub range: Option<[f64; 2]>,
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self { value, range: None }
    }
}

impl Value {
    /// All that must be on an axis.
    fn all(self) -> impl Iterator<Item = f64> {
        std::iter::once(self.value).chain(self.range.into_iter().flatten())
    }
}

/// A line, or the bars of one colour.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// A value for each point or group.
    pub values: Vec<Value>,
}

/// A published number that holds for a whole picture, or for a series of it: a dashed line.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Its height.
    pub value: f64,
    /// Name in the legend: `published mean, All-to-All`.
    pub name: String,
    /// The series whose colour it has; without one it is black.
    pub series: Option<usize>,
}
