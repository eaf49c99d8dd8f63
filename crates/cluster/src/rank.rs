//! Ranks, by number.

use std::fmt;

/// A participant of the collective: one GPU. Ranks are numbered from zero, node by node.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Rank(pub u32);

impl Rank {
    /// Position in a table that has one entry each.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
