//! A communication library's own collectives, each one opaque call: what they are, what moves in them, and what they cost.
//!
//! Plans know nothing of the steps of such a call. What it costs is either declared, as a latency and a bandwidth
//! ([`DeclaredCost`]), or follows from a model of the library on the cluster's hardware ([`LibraryModel`]).

mod constants;
mod demand;
mod model;

use crate::{Group, Part, Topology};

pub use constants::{Constant, ConstantUnit, Constants, Generation};
pub use demand::Activity;
pub use model::{Hardware, LibraryModel, Sends, Shape};

/// An operation of a library among equal ranks, as nccl-tests has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Every rank gets all sums; its size is that of the values of one rank.
    AllReduce,
    /// Every rank gets what each rank has; its size is that of what one rank gets.
    AllGather,
    /// Every rank gets the sum of its shard; its size is that of what one rank gives.
    ReduceScatter,
    /// Every rank sends an equal part to each rank, itself included; its size is that of what one rank gives.
    AllToAll,
    /// Every rank sends all to the next one.
    SendRecv,
    /// One rank's values go to all.
    Broadcast,
    /// One rank gets the sums.
    Reduce,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::SendRecv,
        Self::Broadcast,
        Self::Reduce,
    ];

    /// Name as nccl-tests has it: the program is `<name>_perf`.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "alltoall",
            Self::SendRecv => "sendrecv",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
        }
    }

    /// The operation of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Bus over algorithm bandwidth (nccl-tests, `doc/PERFORMANCE.md`): algorithm bandwidth is size over time.
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks);
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => (n - 1.0) / n,
            Self::SendRecv | Self::Broadcast | Self::Reduce => 1.0,
        }
    }

    /// Whether it adds values up.
    pub fn is_reduction(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }
}

impl From<Collective> for Operation {
    fn from(collective: Collective) -> Self {
        match collective {
            Collective::AllGather => Self::AllGather,
            Collective::ReduceScatter => Self::ReduceScatter,
            Collective::AllReduce => Self::AllReduce,
            Collective::Broadcast => Self::Broadcast,
        }
    }
}

/// A collective that a library has as one call, of equal counts on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Every rank gets what each rank has (`ncclAllGather`).
    AllGather,
    /// Every rank gets the sum of its shard (`ncclReduceScatter`).
    ReduceScatter,
    /// Every rank gets all sums (`ncclAllReduce`).
    AllReduce,
    /// Every rank gets what one rank has (`ncclBroadcast`).
    Broadcast,
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::AllGather, Self::ReduceScatter, Self::AllReduce, Self::Broadcast];

    /// Lower-case name, as scenarios and texts of plans show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllReduce => "all-reduce",
            Self::Broadcast => "broadcast",
        }
    }

    /// Whether it adds values up.
    pub fn is_reduction(self) -> bool {
        match self {
            Self::AllGather | Self::Broadcast => false,
            Self::ReduceScatter | Self::AllReduce => true,
        }
    }

    /// Bytes that each of `ranks` ranks sends, and gets, in an optimal ring: `(ranks - 1) count` for All-Gathers and
    /// Reduce-Scatters of `count` bytes per rank, `2 (ranks - 1) / ranks count` for All-Reduces of `count` bytes, rounded up, and `count` for
    /// broadcasts, which each rank but the last hands on.
    pub fn ring_bytes(self, ranks: u32, count: u64) -> u64 {
        let (ranks, steps) = (u64::from(ranks), u64::from(ranks) - 1);
        match self {
            Self::AllGather | Self::ReduceScatter => steps * count,
            Self::AllReduce => (2 * steps * count).div_ceil(ranks),
            Self::Broadcast => count,
        }
    }
}

/// Declared cost of one collective of a library: `latency + per_rank (ranks - 1) + ring bytes / bandwidth`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeclaredCost {
    /// Seconds of every call.
    pub latency_s: f64,
    /// Seconds more for each rank but the first.
    pub per_rank_s: f64,
    /// Bus bandwidth, in bytes per second: [`Collective::ring_bytes`] over the time that they take.
    pub bytes_per_s: f64,
}

impl DeclaredCost {
    /// Seconds of a call of `ranks` ranks in which each moves `ring_bytes`, from when the last rank has issued it.
    pub fn seconds(&self, ranks: u32, ring_bytes: u64) -> f64 {
        self.latency_s + self.per_rank_s * f64::from(ranks - 1) + ring_bytes as f64 / self.bytes_per_s
    }
}

/// Most ways in which the model has an operation carried out.
const WAYS: usize = 7;

/// Cost of one operation on one shape of a cluster, from the model, as the least over the ways in which the library
/// could carry it out: cheap to evaluate, and monotone in the bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelledCost {
    ranks: u32,
    /// Bytes that a rank moves in a ring, for each byte of the operation's size.
    ring_share: f64,
    ways: [Option<Candidate>; WAYS],
}

impl ModelledCost {
    fn new(operation: Operation, ranks: u32, candidates: Vec<Candidate>) -> Self {
        assert!(
            (1..=WAYS).contains(&candidates.len()),
            "an operation has one way at least, and {WAYS} at most"
        );
        let mut ways = [None; WAYS];
        for (way, candidate) in ways.iter_mut().zip(candidates) {
            *way = Some(candidate);
        }
        Self { ranks, ring_share: operation.bus_factor(ranks), ways }
    }

    /// Ranks that take part.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The ways in which the library could carry it out.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.ways.iter().flatten()
    }

    /// The way that takes the least for a size of so many bytes, as nccl-tests has it; the first of equals.
    pub fn best(&self, bytes: f64) -> &Candidate {
        let ways = self.candidates();
        let best = ways.reduce(|best, way| if way.seconds(bytes) < best.seconds(bytes) { way } else { best });
        best.expect("a modelled cost has a way at least")
    }

    /// Seconds for a size of so many bytes, as nccl-tests has it.
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.candidates().map(|way| way.seconds(bytes)).fold(f64::INFINITY, f64::min)
    }

    /// Seconds where each rank moves so many bytes, if they move around a ring.
    pub fn ring_seconds(&self, ring_bytes: u64) -> f64 {
        self.seconds(ring_bytes as f64 / self.ring_share)
    }
}

/// Cost of one collective among a fixed number of ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "made once per call, and never kept")]
pub enum CallCost {
    /// Declared by the cluster.
    Declared(DeclaredCost),
    /// From the model.
    Modelled(ModelledCost),
}

impl CallCost {
    /// Seconds of a call of `ranks` ranks in which each moves [`Collective::ring_bytes`], from when the last rank has issued it.
    pub fn seconds(&self, ranks: u32, ring_bytes: u64) -> f64 {
        match self {
            Self::Declared(cost) => cost.seconds(ranks, ring_bytes),
            Self::Modelled(cost) => cost.ring_seconds(ring_bytes),
        }
    }

    /// How the library carries it out, as `ring/LL128`; `declared` if nothing is known of that.
    pub fn way(&self, ring_bytes: u64) -> &'static str {
        match self {
            Self::Declared(_) => "declared",
            Self::Modelled(cost) => cost.best(ring_bytes as f64 / cost.ring_share).name(),
        }
    }
}

/// Costs of a library: declared ones, and a model of it for what is not declared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LibraryCost {
    /// Declared cost of All-Gathers.
    pub all_gather: Option<DeclaredCost>,
    /// Declared cost of Reduce-Scatters.
    pub reduce_scatter: Option<DeclaredCost>,
    /// Declared cost of All-Reduces.
    pub all_reduce: Option<DeclaredCost>,
    /// Declared cost of broadcasts to all ranks.
    pub broadcast: Option<DeclaredCost>,
    /// The model.
    pub model: Option<LibraryModel>,
}

impl LibraryCost {
    /// The cost of a collective among so many ranks, at least 2; none if it is neither declared nor modelled.
    pub fn of(&self, collective: Collective, ranks: u32) -> Option<CallCost> {
        let declared = self.declared(collective).map(CallCost::Declared);
        let modelled = || self.model.map(|model| CallCost::Modelled(model.cost(collective.into(), ranks)));
        declared.or_else(modelled)
    }

    /// Activity of a collective among all ranks of a cluster, each of which moves `ring_bytes` around a ring; none if its cost is neither
    /// declared nor modelled.
    pub fn activity(&self, collective: Collective, topology: &Topology, ring_bytes: u64) -> Option<Activity> {
        self.activity_among(collective, topology, &Group::all(topology.ranks()), ring_bytes)
    }

    /// Activity of a collective among some ranks of a cluster. What is declared is of all ranks, so of others the model alone tells something; nothing of
    /// groups that nodes do not share evenly ([`Topology::part`]).
    pub fn activity_among(
        &self,
        collective: Collective,
        topology: &Topology,
        group: &Group,
        ring_bytes: u64,
    ) -> Option<Activity> {
        let declared = self.declared(collective).filter(|_| group.is_all(topology.ranks()));
        if let Some(cost) = declared {
            return Some(cost.activity(topology, ring_bytes));
        }
        let part = topology.part(group)?;
        Some(self.model?.among(topology, &part).activity(collective, topology, &part, ring_bytes))
    }

    /// Costs of a group of ranks, as of a cluster of its own ([`Topology::of_part`]): from the model alone.
    #[must_use]
    pub fn among(&self, topology: &Topology, part: &Part) -> Self {
        Self { model: self.model.map(|model| model.among(topology, part)), ..Self::default() }
    }

    /// Whether the cost of a collective is known.
    pub fn knows(&self, collective: Collective) -> bool {
        self.model.is_some() || self.declared(collective).is_some()
    }

    fn declared(&self, collective: Collective) -> Option<DeclaredCost> {
        match collective {
            Collective::AllGather => self.all_gather,
            Collective::ReduceScatter => self.reduce_scatter,
            Collective::AllReduce => self.all_reduce,
            Collective::Broadcast => self.broadcast,
        }
    }
}

/// How the steps of an operation are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Along rings through all ranks.
    Ring,
    /// Up and down trees of nodes, and along a chain within each.
    Tree,
    /// Through switches of NVLink that add and copy.
    Nvls,
    /// `Nvls` within a node, and trees between nodes.
    NvlsTree,
    /// `Nvls` within a node, and sums in the network's switches between nodes.
    NvlsSharp,
    /// Sends straight to each peer.
    Peers,
}

/// How a library's kernels signal that data is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WireProtocol {
    /// A flag beside every four bytes: least latency, less than half of the bandwidth.
    Ll,
    /// A flag in every 128 bytes.
    Ll128,
    /// A flag after each slice: all bandwidth, most latency.
    Simple,
}

/// One of the ways: `latency + t + sqrt(lag t)` with `t = bytes seconds_per_byte`, but at least what a send with few channels takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The steps.
    pub algorithm: Algorithm,
    /// The signalling.
    pub protocol: WireProtocol,
    /// Seconds of a call without bytes.
    pub latency_s: f64,
    /// Seconds for each byte of the operation's size.
    pub s_per_byte: f64,
    /// Seconds of lag, see [`Constant::Lag`].
    pub lag_s: f64,
    /// Few channels that a short send has; `None` for other operations.
    pub few_channels: Option<FewChannels>,
}

/// A short send has few channels, and gets more with its length: each has so many bytes of it at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FewChannels {
    /// Seconds for each byte with the fewest channels.
    pub s_per_byte: f64,
    /// Seconds that a channel takes for the bytes that it has at least.
    pub channel_s: f64,
}

impl Candidate {
    /// Seconds of an operation of so many bytes: its size, as nccl-tests has it.
    pub fn seconds(&self, bytes: f64) -> f64 {
        let mut moving_s = bytes * self.s_per_byte;
        if let Some(few) = &self.few_channels {
            moving_s = moving_s.max((bytes * few.s_per_byte).min(few.channel_s));
        }
        self.latency_s + moving_s + (self.lag_s * moving_s).sqrt()
    }

    /// Name, as `ring/LL128`.
    pub fn name(&self) -> &'static str {
        use WireProtocol::{Ll, Ll128, Simple};
        match (self.algorithm, self.protocol) {
            (Algorithm::Ring, Ll) => "ring/LL",
            (Algorithm::Ring, Ll128) => "ring/LL128",
            (Algorithm::Ring, Simple) => "ring/Simple",
            (Algorithm::Tree, Ll) => "tree/LL",
            (Algorithm::Tree, Ll128) => "tree/LL128",
            (Algorithm::Tree, Simple) => "tree/Simple",
            (Algorithm::Nvls, _) => "nvls/Simple",
            (Algorithm::NvlsTree, _) => "nvls-tree/Simple",
            (Algorithm::NvlsSharp, _) => "nvls-sharp/Simple",
            (Algorithm::Peers, Ll | Ll128) => "peers/LL",
            (Algorithm::Peers, Simple) => "peers/Simple",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Factors of nccl-tests, `doc/PERFORMANCE.md`: bus over algorithm bandwidth, where an All-Gather has the size of what all get.
    #[test]
    fn bus_bandwidth_is_that_of_nccl_tests() {
        for ranks in [2, 3, 8, 64] {
            let (n, size) = (f64::from(ranks), 3 * 64 * u64::from(ranks));
            let shard = size / u64::from(ranks);
            let factor =
                |collective: Collective, count| collective.ring_bytes(ranks, count) as f64 / size as f64;
            assert_eq!(factor(Collective::AllGather, shard), (n - 1.0) / n);
            assert_eq!(factor(Collective::ReduceScatter, shard), (n - 1.0) / n);
            assert_eq!(factor(Collective::AllReduce, size), 2.0 * (n - 1.0) / n);
        }
        assert_eq!(Collective::AllReduce.ring_bytes(3, 2), 3, "8 thirds, rounded up");
    }
}
