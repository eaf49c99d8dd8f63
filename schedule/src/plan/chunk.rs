//! Chunks: the identity of values, by the rank that has them, the rank that they are for, and the leg of their way.

use std::fmt;

use crate::{Rank, Sum};

/// Identity of a piece of values: origin, destination and place. A payload is drawn for it and checked against it, whatever the
/// path on which it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk {
    /// The rank that contributes them.
    pub origin: Rank,
    /// The rank that they are for; `None` if every rank gets the same.
    pub destination: Option<Rank>,
    /// Tells explicit flows between the same two ranks apart; 0 in collectives.
    pub flow: u32,
    /// Part of the data between the ranks that it is, counted from 0; 0 where nothing is cut into parts.
    pub part: u32,
    /// Its first byte in the data between the ranks.
    pub offset: u64,
    /// Contributions that are added up in it, in reductions: the origin is then the rank that added, and the shard is that of the
    /// destination, or of the origin if it is for all. `None` where nothing is added up.
    pub sum: Option<Sum>,
    /// Whether it goes straight from the origin to the destination.
    pub leg: Leg,
}

/// Leg of the way from its origin that a chunk is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leg {
    /// All of it.
    #[default]
    Direct,
    /// To the rank that serves the origin in another node, which is the destination. The chunk holds each token that the
    /// origin has for a rank of that node, once, in the order of the tokens.
    ToGateway {
        /// Ranks of a node.
        ranks_per_node: u32,
    },
    /// From there, as what the origin has for the destination.
    FromGateway,
}

impl Chunk {
    /// Chunk of one rank for another in a collective.
    pub fn between(origin: Rank, destination: Rank) -> Self {
        Self { destination: Some(destination), ..Self::for_all(origin) }
    }

    /// Chunk of one rank for every other rank.
    pub fn for_all(origin: Rank) -> Self {
        Self { origin, destination: None, flow: 0, part: 0, offset: 0, sum: None, leg: Leg::Direct }
    }

    /// The same, with what is added up in it.
    #[must_use]
    pub fn with_sum(self, sum: Sum) -> Self {
        Self { sum: Some(sum), ..self }
    }

    /// The rank whose shard it is, in reductions.
    pub fn shard(&self) -> Rank {
        self.destination.unwrap_or(self.origin)
    }

    /// Whether the model of `rank`, which has it, waits for it; gateways also get chunks that they hand on.
    pub fn is_delivered(&self, rank: Rank) -> bool {
        match self.leg {
            Leg::Direct => true,
            Leg::ToGateway { .. } => false,
            Leg::FromGateway => self.destination == Some(rank),
        }
    }

    /// Appends the part of the data between two ranks that it is, if that is cut into parts.
    pub(crate) fn write_part(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.part == 0 { Ok(()) } else { write!(f, " part {} at {}", self.part, self.offset) }
    }

    /// Appends the sum that the chunk holds, if it holds one.
    pub(crate) fn write_sum(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sum.map_or(Ok(()), |sum| write!(f, ", shard {}, {sum}", self.shard()))
    }

    /// Remark on the rows that it holds, if they are not simply those for its destination.
    pub(crate) fn leg_text(&self) -> &'static str {
        match self.leg {
            Leg::Direct | Leg::FromGateway => "",
            Leg::ToGateway { .. } => ", each row once",
        }
    }
}
