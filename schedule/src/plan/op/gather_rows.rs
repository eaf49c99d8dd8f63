//! Chunks that are put together of rows of others, at gateways.

use std::sync::Arc;

use super::Effects;
use crate::plan::{Chunk, Region};

/// One gather of rows: a kernel of the device that the codec runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct GatherRows {
    /// What it makes.
    pub gathers: Vec<Gather>,
}

/// A chunk that is made of rows of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    /// What is made.
    pub chunk: Chunk,
    /// The rows to choose from.
    pub from: Region,
    /// The rows that are chosen.
    pub to: Region,
    /// For each row of [`Self::to`] its position in [`Self::from`].
    pub rows: Arc<[u32]>,
    /// Bytes of a row.
    pub row_bytes: u64,
}

impl GatherRows {
    /// Bytes that it writes.
    pub fn bytes(&self) -> u64 {
        self.gathers.iter().map(|gather| gather.to.len).sum()
    }

    pub(super) fn effects(&self) -> Effects {
        Effects {
            reads: self.gathers.iter().map(|gather| gather.from).collect(),
            writes: self.gathers.iter().map(|gather| gather.to).collect(),
            delivers: self.gathers.iter().map(|gather| (gather.chunk, gather.to)).collect(),
            ..Effects::default()
        }
    }
}

impl Gather {
    /// Whether it reads rows of its source, and as many as there is room for.
    pub(crate) fn has_its_rows(&self) -> bool {
        let Self { from, to, rows, row_bytes, .. } = self;
        let is_inside = |&row: &u32| (u64::from(row) + 1) * row_bytes <= from.len;
        *row_bytes > 0 && to.len == rows.len() as u64 * row_bytes && rows.iter().all(is_inside)
    }
}
