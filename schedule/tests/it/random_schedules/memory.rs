//! Symbolic memory of a rank: for every byte, the op whose result it is. Nothing is computed, so two schedules have the same
//! results if and only if every op has read what it reads in the other one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use zipwire_schedule::BufferId;
use zipwire_schedule::plan::Region;

pub(crate) type Tag = u64;

/// Bytes of one result: the first one, how many, and whose.
pub(crate) type Piece = (u64, u64, Tag);

#[derive(Clone, Default)]
pub(crate) struct Memory {
    /// First byte to the byte behind the last one, and what they are; by buffer.
    buffers: Vec<BTreeMap<u64, (u64, Tag)>>,
}

/// Hashes of the same values are the same in all schedules of a process.
pub(crate) fn tag(of: impl Hash) -> Tag {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Memory {
    /// Content of a region: first bytes, relative to its own, lengths and tags.
    pub(crate) fn read(&self, region: &Region) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let Some(buffer) = self.buffers.get(region.buffer.index()) else { return pieces };
        for (&begin, &(end, tag)) in buffer.range(..region.end()) {
            let (from, to) = (begin.max(region.offset), end.min(region.end()));
            if from >= to {
                continue;
            }
            let from = from - region.offset;
            let to = to - region.offset;
            match pieces.last_mut() {
                Some((first, len, last)) if *last == tag && *first + *len == from => *len += to - from,
                _ => pieces.push((from, to - from, tag)),
            }
        }
        pieces
    }

    pub(crate) fn write(&mut self, region: &Region, tag: Tag) {
        self.fill(region, region.offset, region.end(), tag);
    }

    /// Fills the beginning of a region with what was read elsewhere.
    pub(crate) fn copy(&mut self, region: &Region, len: u64, pieces: &[Piece]) {
        self.fill(region, region.offset, region.offset + len, 0);
        for &(first, len, tag) in pieces {
            self.fill(region, region.offset + first, region.offset + first + len, tag);
        }
    }

    fn fill(&mut self, region: &Region, begin: u64, end: u64, tag: Tag) {
        if begin == end {
            return;
        }
        if self.buffers.len() <= region.buffer.index() {
            self.buffers.resize_with(region.buffer.index() + 1, BTreeMap::new);
        }
        let buffer = &mut self.buffers[region.buffer.index()];
        let touched: Vec<Piece> = buffer
            .range(..end)
            .rev()
            .take_while(|(_, (last, _))| *last > begin)
            .map(|(&first, &(last, tag))| (first, last, tag))
            .collect();
        for (first, last, old) in touched {
            buffer.remove(&first);
            if first < begin {
                buffer.insert(first, (begin, old));
            }
            if last > end {
                buffer.insert(end, (last, old));
            }
        }
        buffer.insert(begin, (end, tag));
    }

    /// All that it holds, as one number.
    pub(crate) fn digest(&self) -> Tag {
        let whole = |buffer| Region { buffer: BufferId(buffer), offset: 0, len: u64::MAX };
        let all: Vec<Vec<Piece>> =
            (0..).zip(&self.buffers).map(|(buffer, _)| self.read(&whole(buffer))).collect();
        tag(all)
    }
}
