//! What a figure consists of.

use crate::{Bench, Curve, ReproduceError};

/// A figure or table of a paper, or what belongs together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    /// One for each published number.
    pub(super) measurements: &'static [Measurement],
    /// What the figure has beside numbers that the text gives.
    pub(super) curves: &'static [MeasureCurve],
}

/// How a curve is obtained.
pub(super) type MeasureCurve = fn(&Bench<'_>) -> Result<Curve, ReproduceError>;

/// How a published number is obtained here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measurement {
    /// Its id in `expected.toml`.
    pub(super) id: &'static str,
    /// Obtains it.
    pub(super) measure: Measure,
}

/// Obtains a number.
type Measure = fn(&Bench<'_>) -> Result<Ours, ReproduceError>;

impl Measurement {
    /// How the published number `id` is obtained.
    pub(super) const fn of(id: &'static str, measure: Measure) -> Self {
        Self { id, measure }
    }
}

/// What comes out here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ours {
    /// In the unit of the published number; `None` where it depends on what the text does not say.
    pub(super) value: Option<f64>,
    /// What is to be known about it.
    pub(super) note: Option<String>,
}

impl Ours {
    /// A number with a remark.
    pub(super) fn with(value: f64, note: impl Into<String>) -> Self {
        Self { value: Some(value), note: Some(note.into()) }
    }

    /// No number, and why.
    pub(super) fn only(note: impl Into<String>) -> Self {
        Self { value: None, note: Some(note.into()) }
    }
}

impl From<f64> for Ours {
    fn from(value: f64) -> Self {
        Self { value: Some(value), note: None }
    }
}
