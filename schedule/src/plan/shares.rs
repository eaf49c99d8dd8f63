//! Inputs and outputs of a call of a library on one rank.

use std::fmt;
use std::sync::Arc;

use zipwire_cluster::Group;

use super::{Chunk, Content, Region};
use crate::{BufferId, Rank, SizeId};

/// Input or output of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The chunk that the content belongs to.
    pub chunk: Chunk,
    /// Bytes that move.
    pub content: Content,
}

/// Inputs or outputs of a call on one rank.
#[derive(Clone, Debug, PartialEq)]
pub enum Shares {
    /// Each with a chunk and a content of its own.
    Listed(Vec<Share>),
    /// Values of all ranks, one behind another.
    Row(Row),
}

/// Values of the shards of all ranks, one behind another in a buffer. It takes the same memory however many ranks there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The chunk of any shard, but for the rank: that is its destination if it has one, else its origin.
    pub(crate) chunk: Chunk,
    pub(crate) buffer: BufferId,
    pub(crate) lens: Arc<Lens>,
    /// A rank whose values are not among them, and leave no gap, by position in the group.
    pub(crate) without: Option<Rank>,
    /// The ranks that it has values of, or for.
    pub(crate) group: Group,
}

/// Bytes of the values of each rank: one copy for the programs of all ranks.
#[derive(Debug, PartialEq, Eq)]
pub struct Lens {
    bytes: Vec<u64>,
    /// First byte of each, one behind another at multiples of `align`.
    offsets: Vec<u64>,
    align: u64,
    total: u64,
    longest: u64,
    /// How many successive ranks have so many bytes.
    runs: Vec<(usize, u64)>,
}

impl Lens {
    /// Bytes by rank; the values of each begin at a multiple of `align` bytes.
    pub(crate) fn new(bytes: Vec<u64>, align: u64) -> Arc<Self> {
        let mut end = 0;
        let place = |&len: &u64| {
            let offset = end;
            end += len.next_multiple_of(align);
            offset
        };
        let offsets = bytes.iter().map(place).collect();
        let (total, longest) = (bytes.iter().sum(), bytes.iter().copied().max().unwrap_or(0));
        let runs = bytes.chunk_by(|one, next| one == next).map(|run| (run.len(), run[0])).collect();
        Arc::new(Self { bytes, offsets, align, total, longest, runs })
    }

    /// Bytes by rank.
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    fn rank_count(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("ranks are counted in 32 bits")
    }

    /// Place of the values of a rank in a buffer that has those of all.
    pub(crate) fn region(&self, rank: Rank, buffer: BufferId) -> Region {
        Region { buffer, offset: self.offsets[rank.index()], len: self.bytes[rank.index()] }
    }

    /// Bytes from the values of a rank to those of the next one.
    fn room(&self, rank: Rank) -> u64 {
        self.bytes[rank.index()].next_multiple_of(self.align)
    }

    /// First byte behind the values of all ranks.
    pub(crate) fn end(&self) -> u64 {
        let last = self.offsets.last().zip(self.bytes.last());
        last.map_or(0, |(offset, len)| offset + len)
    }
}

impl fmt::Display for Lens {
    /// Bytes by rank, for instance `100, 3 x 96`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (count, bytes)) in self.runs.iter().enumerate() {
            write!(f, "{}", if index == 0 { "" } else { ", " })?;
            if *count > 1 {
                write!(f, "{count} x ")?;
            }
            write!(f, "{bytes}")?;
        }
        Ok(())
    }
}

impl Row {
    /// Writes the line of a plan's text that has them.
    pub(crate) fn write_line(&self, f: &mut fmt::Formatter<'_>, word: &str) -> fmt::Result {
        let Self { chunk, lens, without, group, .. } = self;
        write!(f, "    {word} {} of {lens} bytes", self.region())?;
        if let Some(position) = without {
            write!(f, " but for rank {}", group.at(position.0))?;
        }
        chunk.sum.map_or(Ok(()), |sum| write!(f, ", {sum}"))?;
        writeln!(f)
    }

    /// The share of a rank, unless that is empty or left out.
    fn share(&self, rank: Rank) -> Option<Share> {
        let position = self.group.position(rank).map(Rank)?;
        let is_there = position.index() < self.lens.bytes.len() && self.without != Some(position);
        let values = is_there.then(|| self.place(position)).filter(|values| values.len > 0)?;
        let chunk = match self.chunk.destination {
            Some(_) => Chunk { destination: Some(rank), ..self.chunk },
            None => Chunk { origin: rank, ..self.chunk },
        };
        Some(Share { chunk, content: Content::Values(values) })
    }

    /// Place of the values of a rank that is not left out, by its position in the group.
    pub(crate) fn place(&self, rank: Rank) -> Region {
        let place = self.lens.region(rank, self.buffer);
        let gap = self.without.filter(|&without| without < rank).map_or(0, |without| self.lens.room(without));
        Region { offset: place.offset - gap, ..place }
    }

    /// All of its values, with what is between them.
    pub(crate) fn region(&self) -> Region {
        let without = self.without.filter(|without| without.0 < self.lens.rank_count());
        let len = match without {
            Some(last) if last.0 + 1 == self.lens.rank_count() => self.lens.region(last, self.buffer).offset,
            Some(without) => self.lens.end() - self.lens.room(without),
            None => self.lens.end(),
        };
        Region { buffer: self.buffer, offset: 0, len }
    }

    /// Bytes of all of its values.
    pub(crate) fn bytes(&self) -> u64 {
        let left_out = self.without.map_or(0, |rank| self.lens.bytes[rank.index()]);
        self.lens.total - left_out
    }
}

impl Shares {
    /// The same by ranks of a group, whose positions their ranks are.
    pub(super) fn within(mut self, group: &Group) -> Self {
        match &mut self {
            Self::Listed(shares) => {
                shares.iter_mut().for_each(|share| share.chunk = share.chunk.within(group));
            }
            Self::Row(row) => (row.chunk, row.group) = (row.chunk.within(group), *group),
        }
        self
    }

    /// Each of them; those without bytes are left out of rows.
    pub fn iter(&self) -> impl Iterator<Item = Share> + '_ {
        let (listed, row) = match self {
            Self::Listed(shares) => (&shares[..], None),
            Self::Row(row) => (&[][..], Some(row)),
        };
        let ranks = row.into_iter().flat_map(|row| row.group.ranks().filter_map(|rank| row.share(rank)));
        listed.iter().copied().chain(ranks)
    }

    /// The share of a rank's shard, or of what it contributes to all.
    pub fn of(&self, rank: Rank) -> Option<Share> {
        match self {
            Self::Listed(shares) => shares.iter().find(|share| share.chunk.shard() == rank).copied(),
            Self::Row(row) => row.share(rank),
        }
    }

    /// Whether nothing moves.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Listed(shares) => shares.is_empty(),
            Self::Row(row) => row.bytes() == 0,
        }
    }

    /// Regions that hold them, with what is between those of a row.
    pub(crate) fn regions(&self) -> Vec<Region> {
        match self {
            Self::Listed(shares) => shares.iter().filter_map(|share| share.content.region()).collect(),
            Self::Row(row) => vec![row.region()],
        }
    }

    /// Shares of a list, whose lengths may be known only when they are coded.
    pub fn listed(&self) -> &[Share] {
        if let Self::Listed(shares) = self { shares } else { &[] }
    }

    /// Bytes of all of them; `value` is asked for sizes.
    pub(crate) fn bytes(&self, value: impl Fn(SizeId) -> u64) -> u64 {
        match self {
            Self::Listed(shares) => shares.iter().map(|share| share.content.bytes(&value)).sum(),
            Self::Row(row) => row.bytes(),
        }
    }

    /// Bytes of those that are values.
    pub(crate) fn bytes_of_values(&self) -> u64 {
        match self {
            Self::Listed(shares) => shares.iter().filter_map(|s| s.content.values()).map(|v| v.len).sum(),
            Self::Row(row) => row.bytes(),
        }
    }

    /// Bytes of the longest; of a row, that which it leaves out included. `value` is asked for sizes.
    pub(crate) fn longest(&self, value: impl Fn(SizeId) -> u64) -> u64 {
        match self {
            Self::Listed(shares) => shares.iter().map(|share| share.content.bytes(&value)).max().unwrap_or(0),
            Self::Row(row) => row.lens.longest,
        }
    }

    /// The row, if they are one.
    pub(crate) fn row(&self) -> Option<&Row> {
        if let Self::Row(row) = self { Some(row) } else { None }
    }

    /// How many entries they take.
    pub(crate) fn entries(&self) -> usize {
        match self {
            Self::Listed(shares) => shares.len(),
            Self::Row(_) => 1,
        }
    }

    /// The same as a list, to be changed one by one.
    pub fn list(&mut self) -> &mut Vec<Share> {
        if let Self::Row(_) = self {
            *self = Self::Listed(self.iter().collect());
        }
        match self {
            Self::Listed(shares) => shares,
            Self::Row(_) => unreachable!("it has just been listed"),
        }
    }
}
