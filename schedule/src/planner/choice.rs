//! How a collective is to travel.

use zipwire_codec::{DType, Layout, Spec};

use crate::{Algorithm, Order, Protocol, Rank};

/// How a collective travels.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its algorithm, if it has several; `None` is its default.
    pub algorithm: Option<Algorithm>,
    /// Layout of the frames; `None` is that of the protocol. Only some protocols have several
    /// ([`Protocol::takes_layout`]).
    pub layout: Option<Layout>,
    /// The order of transfers within an exchange; algorithms that order their transfers themselves do not ask.
    pub order: Order,
    /// Open sends, and open receives, per rank; `None` means all peers at once. Asked where [`Self::order`] is, but not
    /// by [`Order::ShiftedRounds`].
    pub window: Option<u32>,
    /// The codec; coded protocols need one.
    pub codec: Option<Spec>,
    /// Which pieces a coded protocol codes.
    pub selection: Selection,
    /// In how many parts a coded protocol cuts what ranks have for each other: while one part travels, the next is coded.
    /// At least 1. With [`Self::dedup`] for every protocol: while one part travels, another is handed on.
    pub parts: u32,
    /// Ranks of a node, for [`Algorithm::Hierarchical`] and for channels: they divide the ranks.
    pub ranks_per_node: u32,
    /// Rings of a collective that travels around rings over several nodes, each with a part of every block: from 1 to the ranks of a
    /// node. They enter and leave nodes at different places, so with as many as a node has NICs, all are used alike. At least 1.
    pub channels: u32,
    /// Slices of what a channel has in each step of a reduction around a ring, and in how many a block travels along a chain: while one is
    /// added up, the next travels. At least 1.
    pub slices: u32,
    /// Type in which partial sums travel, and that of the sums of a Reduce-Scatter.
    pub sums: SumType,
    /// Ranks of a node, if what several ranks of a node want of another one crosses the network once. Asked where it is known
    /// which tokens these are ([`Work::tokens`](crate::Work::tokens)).
    pub dedup: Option<u32>,
    /// How many calls of a channel have memory of their own for frames, summands and rows at gateways, at least 1: call k
    /// shares it with call k + `arenas`. With one, a call is coded only when the one before has been decoded.
    pub arenas: u32,
    /// Bytes of a frame that its slot holds, over those of its values: for [`Protocol::Speculative`], which needs it.
    pub speculative_capacity: Option<f64>,
}

impl Choice {
    /// Arenas where nothing else is said: one to code into while another travels.
    pub const ARENAS: u32 = 2;

    /// A protocol in its plainest form: default algorithm, layout and order, no window, everything coded, in one part.
    pub fn of(protocol: Protocol, codec: Option<Spec>) -> Self {
        Self {
            protocol,
            algorithm: None,
            layout: None,
            order: Order::default(),
            window: None,
            codec,
            selection: Selection::default(),
            parts: 1,
            ranks_per_node: 1,
            channels: 1,
            slices: 1,
            sums: SumType::default(),
            dedup: None,
            arenas: Self::ARENAS,
            speculative_capacity: None,
        }
    }

    /// The algorithm of a collective: the first of those that it has, if no other is chosen.
    ///
    /// # Panics
    /// If it has not what is chosen.
    pub(super) fn algorithm_of(&self, collective: &str, algorithms: &[Algorithm]) -> Algorithm {
        let algorithm = self.algorithm.unwrap_or(algorithms[0]);
        let name = algorithm.name();
        assert!(algorithms.contains(&algorithm), "{collective} does not travel as `{name}`");
        algorithm
    }

    /// Layout of the frames; `None` without frames.
    pub fn layout(&self) -> Option<Layout> {
        self.protocol.layout().map(|of_protocol| self.layout.unwrap_or(of_protocol))
    }
}

/// In which type partial sums leave a rank; additions are in FP32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SumType {
    /// FP32, whatever is contributed.
    #[default]
    Fp32,
    /// That of the contributions, as in NCCL: partial sums of BF16 values are rounded by every rank that hands them on.
    Sent,
}

impl SumType {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Fp32, Self::Sent];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "FP32",
            Self::Sent => "sent",
        }
    }

    /// The type of partial sums of values of another type.
    pub fn of(self, contributions: DType) -> DType {
        match self {
            Self::Fp32 => DType::F32,
            Self::Sent => contributions,
        }
    }
}

/// Which pieces of a coded call are coded; the others travel as they are, beside the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Pieces of fewer bytes stay as they are: what coding costs them does not depend on their length.
    pub least_bytes: u64,
    /// Ranks of a node, if pieces for a rank of the same node stay as they are. For All-to-Alls: other collectives hand pieces on
    /// from node to node.
    pub ranks_per_node: Option<u32>,
}

impl Selection {
    /// Whether a piece of `len` bytes between two ranks is coded; no peer, if it is for all.
    pub fn includes(&self, rank: Rank, peer: Option<Rank>, len: u64) -> bool {
        let is_near = |ranks: u32, other: Rank| rank.0 / ranks == other.0 / ranks;
        let stays = self.ranks_per_node.zip(peer).is_some_and(|(ranks, other)| is_near(ranks, other));
        len >= self.least_bytes && !stays
    }
}
