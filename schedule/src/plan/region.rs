//! Memory of a rank: its buffers, and byte ranges of them.

use std::borrow::Cow;

use crate::BufferId;

/// Memory of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// What it holds, for the plan's text.
    pub name: Cow<'static, str>,
    /// Bytes.
    pub capacity: u64,
}

/// A byte range of a buffer. Its length is the capacity that was planned for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The buffer.
    pub buffer: BufferId,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl Region {
    /// First byte after the region.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// Whether both name at least one common byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.buffer == other.buffer && self.offset.max(other.offset) < self.end().min(other.end())
    }

    /// Whether every byte of `other` is in this region.
    pub fn covers(&self, other: &Self) -> bool {
        self.buffer == other.buffer && self.offset <= other.offset && other.end() <= self.end()
    }
}
