//! Compute phases.

use super::Effects;
use crate::plan::Region;

/// A compute phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// Low-cardinality name.
    pub name: &'static str,
    /// What it needs.
    pub reads: Vec<Region>,
    /// What it fills.
    pub writes: Vec<Region>,
    /// Whether no collective of the main channel overlaps it.
    pub is_exclusive: bool,
}

impl Compute {
    pub(super) fn effects(&self) -> Effects {
        Effects { reads: self.reads.clone(), writes: self.writes.clone(), ..Effects::default() }
    }
}
