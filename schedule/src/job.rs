//! Iterations as jobs, before a protocol is chosen: the input of every planner.

use std::sync::Arc;

use ndarray::ArcArray2;
use zipwire_cluster::{Group, Groups, Symmetry};
use zipwire_codec::DType;

use crate::{Algorithm, Channel, Collective, Protocol, Rank, RankRange, TokenMap};

/// One iteration on every rank, as a sequence of segments over named buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Workload kind, for the plan's text and digest: `moe`, `collective`, `transfers`.
    pub name: &'static str,
    /// Number of ranks.
    pub rank_count: u32,
    /// Names of the buffers that every rank has; a segment refers to them by position.
    pub slots: Vec<&'static str>,
    /// Segments, in order.
    pub segments: Vec<Segment>,
}

/// A buffer of every rank, by position in [`Job::slots`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// Position in a table that has one entry each.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One compute phase or one collective call.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Name, unique in its job: `dispatch`, `layer 3 combine`.
    pub name: Arc<str>,
    /// Computation, collective or flows.
    pub work: Work,
    /// The channel of its exchanges: [`Channel::Main`] or [`Channel::Background`]. Compute phases have none and ignore it.
    pub channel: Channel,
    /// Groups of ranks of which each does it by itself; ranks of no group leave it out. `None` is one group of all ranks. Calls count ranks by position in
    /// their group.
    pub among: Option<Groups>,
    /// The dimension of the job's layout along which it communicates, or the class of calls that it is of, if there are some: what variants choose by.
    pub dimension: Option<Arc<str>>,
}

impl Segment {
    /// A segment of the main channel.
    pub fn new(name: impl Into<Arc<str>>, work: Work) -> Self {
        Self { name: name.into(), work, channel: Channel::Main, among: None, dimension: None }
    }

    /// The same by each of some groups, along a dimension of the job's layout.
    #[must_use]
    pub fn among(self, groups: Groups, dimension: impl Into<Arc<str>>) -> Self {
        Self { among: Some(groups), dimension: Some(dimension.into()), ..self }
    }

    /// Groups of ranks that do it, in a job of so many.
    pub fn groups(&self, rank_count: u32) -> Groups {
        self.among.unwrap_or_else(|| Groups::whole(rank_count))
    }

    /// The ranks with which a rank does it, in a job of so many; `None` if it leaves it out.
    pub fn group(&self, rank: Rank, rank_count: u32) -> Option<Group> {
        self.groups(rank_count).of(rank)
    }

    /// The same, beside those of the main channel.
    #[must_use]
    pub fn in_background(self) -> Self {
        Self { channel: Channel::Background, ..self }
    }
}

/// The work of a segment.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// The model's own computation. Its duration is in [`Durations`], outside the plan.
    Compute {
        /// Low-cardinality name, for timelines: `skew`, `attention`, `expert`.
        phase: &'static str,
        /// Buffers whose content it needs.
        reads: Vec<Slot>,
        /// Buffers that it fills or claims: a later call that uses one waits for it.
        writes: Vec<Slot>,
    },
    /// A collective call: a protocol says how it travels.
    Call {
        /// Type of the values; of reductions, of the contributions: BF16 or FP32.
        dtype: DType,
        /// Buffer that holds what the rank gives.
        input: Slot,
        /// Buffer that receives what it gets. What it has itself aliases the input.
        output: Slot,
        /// Which collective it is.
        kind: CallKind,
    },
    /// Explicit flows: a protocol says how each travels.
    Transfers {
        /// Type of the values, of which a coded flow has whole ones.
        dtype: DType,
        /// The flows, in issue order.
        flows: Vec<Flow>,
        /// When a rank starts its next flow.
        pace: Pace,
        /// Buffer that holds what is sent.
        input: Slot,
        /// Buffer that receives.
        output: Slot,
    },
}

/// Kind and bytes of a collective call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallKind {
    /// All-to-All with a size of its own for each pair (`alltoallv`). The input holds the chunks to send by destination, the
    /// output those that arrive by source.
    AllToAll {
        /// Bytes from source (row) to destination (column). The diagonal is ignored: a self-chunk aliases
        /// the input.
        bytes: ArcArray2<u64>,
        /// Token map whose rows the chunks are made of, if it is known: then [`Self::AllToAll::bytes`] are theirs, and a token for
        /// several ranks of a node need not cross the network several times.
        tokens: Option<Arc<TokenMap>>,
    },
    /// All-Gather with a length of its own for each rank (`allgatherv`): every rank gets the shards of all, by origin.
    AllGather {
        /// Bytes of each rank's shard.
        bytes: Vec<u64>,
    },
    /// Send between the two ranks of a group, on a channel of its own: it waits for no other call, and none for it.
    Send {
        /// Bytes that move.
        bytes: u64,
        /// Position of the sender, 0 or 1.
        from: Rank,
    },
    /// Broadcast: some ranks, mostly all, get what one rank has.
    Broadcast {
        /// Bytes of the block.
        bytes: u64,
        /// The rank that has it.
        root: Rank,
        /// The ranks that get it. The root may be one of them; it has it.
        to: RankRange,
    },
    /// Reduce-Scatter with a length of its own for each shard: every rank contributes values to all shards, and gets the sum of
    /// its own, in FP32 or, if partial sums travel so, in the type of the contributions.
    ReduceScatter {
        /// Bytes of each rank's shard, as contributions.
        bytes: Vec<u64>,
    },
    /// All-Reduce: every rank gets the sum of what all contribute, in the type of the contributions: added up in FP32, and
    /// rounded to it once.
    AllReduce {
        /// Bytes that each rank contributes.
        bytes: u64,
    },
}

impl Work {
    /// A collective call with the values of one slot, and the results in another.
    pub fn of_call(dtype: DType, [input, output]: [Slot; 2], kind: CallKind) -> Self {
        Self::Call { dtype, input, output, kind }
    }

    /// The collective call, if it is one.
    pub fn call(&self) -> Option<&CallKind> {
        if let Self::Call { kind, .. } = self { Some(kind) } else { None }
    }

    /// Whether it is a collective call.
    pub fn is_collective(&self) -> bool {
        self.call().is_some()
    }

    /// Whether it moves something between ranks: a protocol says how that travels.
    pub fn communicates(&self) -> bool {
        !matches!(self, Self::Compute { .. })
    }

    /// Type of the values that it moves; none of compute phases.
    pub fn dtype(&self) -> Option<DType> {
        match *self {
            Self::Call { dtype, .. } | Self::Transfers { dtype, .. } => Some(dtype),
            Self::Compute { .. } => None,
        }
    }

    /// The slots that it moves values from and to; `None` for compute phases.
    pub fn slots(&self) -> Option<[Slot; 2]> {
        match *self {
            Self::Call { input, output, .. } | Self::Transfers { input, output, .. } => Some([input, output]),
            Self::Compute { .. } => None,
        }
    }

    /// Whether it adds values up.
    pub fn is_reduction(&self) -> bool {
        self.call().is_some_and(CallKind::is_reduction)
    }

    /// Bytes of each shard of a reduction, by rank and as contributions; none of other work.
    pub fn shards(&self, rank_count: u32) -> Vec<u64> {
        match self {
            Self::Call { kind: CallKind::ReduceScatter { bytes }, .. } => bytes.clone(),
            &Self::Call { dtype, kind: CallKind::AllReduce { bytes }, .. } => {
                let (ranks, width) = (u64::from(rank_count), dtype.width() as u64);
                let (each, left) = (bytes / width / ranks, bytes / width % ranks);
                (0..ranks).map(|rank| (each + u64::from(rank < left)) * width).collect()
            }
            Self::Call { .. } | Self::Compute { .. } | Self::Transfers { .. } => Vec::new(),
        }
    }

    /// The algorithm in which it travels, if it has several: the chosen one if it has that under the protocol, or its default.
    pub fn algorithm(&self, protocol: Protocol, chosen: Option<Algorithm>) -> Option<Algorithm> {
        // What is added up on the way would have to be decoded first.
        let takes =
            |algorithm: &&Algorithm| !protocol.is_coded() || algorithm.takes_frames(self.is_reduction());
        let mut algorithms = self.algorithms().iter().filter(takes).copied();
        let default = algorithms.clone().next();
        algorithms.find(|algorithm| Some(*algorithm) == chosen).or(default)
    }

    /// The algorithms that it can take, the default first; none where there is only one way.
    pub fn algorithms(&self) -> &'static [Algorithm] {
        self.call().map_or(&[], CallKind::algorithms)
    }

    /// The name of its collective, if it is one.
    pub fn collective_name(&self) -> Option<&'static str> {
        self.call().map(CallKind::name)
    }

    /// The call of a library among so many ranks that it is, in [`Algorithm::Library`]; `None` if libraries have none.
    pub fn collective(&self, ranks: u32) -> Option<Collective> {
        self.call()?.collective(ranks)
    }

    /// Token map whose rows its chunks are made of, if it is known.
    pub fn tokens(&self) -> Option<&Arc<TokenMap>> {
        if let CallKind::AllToAll { tokens, .. } = self.call()? { tokens.as_ref() } else { None }
    }
}

impl CallKind {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AllToAll { .. } => "all-to-all",
            Self::Send { .. } => "send",
            Self::AllGather { .. } => "all-gather",
            Self::Broadcast { .. } => "broadcast",
            Self::ReduceScatter { .. } => "reduce-scatter",
            Self::AllReduce { .. } => "all-reduce",
        }
    }

    fn is_reduction(&self) -> bool {
        matches!(self, Self::ReduceScatter { .. } | Self::AllReduce { .. })
    }

    fn collective(&self, ranks: u32) -> Option<Collective> {
        match self {
            Self::AllGather { .. } => Some(Collective::AllGather),
            Self::ReduceScatter { .. } => Some(Collective::ReduceScatter),
            Self::AllReduce { .. } => Some(Collective::AllReduce),
            Self::Broadcast { to, .. } => (*to == RankRange::all(ranks)).then_some(Collective::Broadcast),
            Self::AllToAll { .. } | Self::Send { .. } => None,
        }
    }

    fn algorithms(&self) -> &'static [Algorithm] {
        match self {
            Self::AllGather { .. } => Algorithm::OF_ALL_GATHER,
            Self::Broadcast { .. } => Algorithm::OF_BROADCAST,
            Self::ReduceScatter { .. } => Algorithm::OF_REDUCE_SCATTER,
            Self::AllReduce { .. } => Algorithm::OF_ALL_REDUCE,
            Self::AllToAll { .. } | Self::Send { .. } => &[],
        }
    }
}

/// One explicit transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Sender.
    pub src: Rank,
    /// Receiver, other than the sender.
    pub dst: Rank,
    /// Bytes to move.
    pub bytes: u64,
    /// Seconds after the start of the iteration before which it does not start: it is ready then, so that is when it may be encoded.
    pub not_before_s: f64,
}

/// When a rank starts its next explicit flow; of a coded one, when it opens its first exchange: it is encoded as soon as it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All at once.
    Burst,
    /// A send starts when the rank's previous send has ended.
    Chain,
    /// A send and a receive form a step; the next step starts when both have ended.
    SendReceive,
}

/// Seconds of every compute segment: by iteration, segment and rank. Other segments hold zeros.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durations {
    /// By iteration, then by segment; shared with copies, as there can be a gibibyte of them.
    phases: Arc<Vec<Phase>>,
    segment_count: usize,
    rank_count: usize,
}

/// Seconds of a segment in one iteration.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// The same on every rank.
    All(f64),
    /// On each rank of some groups, by [`Groups::position`]; nothing on others.
    Each(Groups, Vec<f64>),
}

impl Phase {
    fn get(&self, rank: Rank) -> f64 {
        match self {
            Self::All(seconds) => *seconds,
            Self::Each(among, seconds) => {
                among.position(rank).map_or(0.0, |position| seconds[position as usize])
            }
        }
    }

    fn mean_s(&self) -> f64 {
        match self {
            Self::All(seconds) => *seconds,
            Self::Each(_, each) => each.iter().sum::<f64>() / each.len().max(1) as f64,
        }
    }
}

impl Durations {
    /// All zeros.
    pub fn zeros(iterations: u32, segment_count: usize, rank_count: u32) -> Self {
        let phases = Arc::new(vec![Phase::All(0.0); iterations as usize * segment_count]);
        Self { phases, segment_count, rank_count: rank_count as usize }
    }

    /// Seconds of one segment on one rank; segments behind the last one take none.
    pub fn get(&self, iteration: u32, segment: usize, rank: Rank) -> f64 {
        if segment >= self.segment_count {
            return 0.0;
        }
        self.phases[self.index(iteration, segment)].get(rank)
    }

    /// Sets the seconds of one segment on one rank.
    ///
    /// # Panics
    /// If the segment has a time on each of some ranks, and this is none of them.
    pub fn set(&mut self, iteration: u32, segment: usize, rank: Rank, seconds: f64) {
        let index = self.index(iteration, segment);
        if let Phase::All(all) = self.phases[index] {
            if all == seconds {
                return;
            }
            self.phases_mut()[index] =
                Phase::Each(Groups::whole(self.rank_count as u32), vec![all; self.rank_count]);
        }
        if let Phase::Each(among, each) = &mut self.phases_mut()[index] {
            let position = among.position(rank).expect("the rank is one of those that have a time");
            each[position as usize] = seconds;
        }
    }

    /// Changes the seconds of one segment on each rank of some groups, the only ones that do it.
    pub fn change(
        &mut self,
        iteration: u32,
        segment: usize,
        among: Groups,
        mut change: impl FnMut(Rank, f64) -> f64,
    ) {
        let index = self.index(iteration, segment);
        let phase = &self.phases[index];
        let ranks = (0..among.count()).flat_map(|group| among.group(group).ranks());
        let each = ranks.map(|rank| change(rank, phase.get(rank))).collect();
        self.phases_mut()[index] = Phase::Each(among, each);
    }

    /// Sets the seconds of one segment on every rank.
    pub fn set_all(&mut self, iteration: u32, segment: usize, seconds: f64) {
        let index = self.index(iteration, segment);
        self.phases_mut()[index] = Phase::All(seconds);
    }

    /// All of them so many times as long.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        for phase in self.phases_mut() {
            match phase {
                Phase::All(seconds) => *seconds *= factor,
                Phase::Each(_, each) => each.iter_mut().for_each(|seconds| *seconds *= factor),
            }
        }
        self
    }

    /// Seconds of all segments of one iteration: by segment, then by rank.
    pub fn of_iteration(&self, iteration: u32) -> impl Iterator<Item = f64> + '_ {
        let phases = &self.phases[iteration as usize * self.segment_count..][..self.segment_count];
        let ranks = self.rank_count as u32;
        phases.iter().flat_map(move |phase| (0..ranks).map(move |rank| phase.get(Rank(rank))))
    }

    /// The same with the mean over ranks and iterations in place of each.
    #[must_use]
    pub fn evened(&self) -> Self {
        let iterations = self.phases.len() / self.segment_count.max(1);
        let mean = |segment| {
            let of_iterations = self.phases.iter().skip(segment).step_by(self.segment_count);
            Phase::All(of_iterations.map(Phase::mean_s).sum::<f64>() / iterations as f64)
        };
        let means: Vec<Phase> = (0..self.segment_count).map(mean).collect();
        let phases = Arc::new(means.iter().cycle().take(self.phases.len()).cloned().collect());
        Self { phases, ..*self }
    }

    /// Whether each rank computes for as long as the one that stands for it, in all segments and iterations.
    pub fn are_alike(&self, symmetry: &Symmetry) -> bool {
        let folds = symmetry.alike() > 1;
        !folds
            || self.phases.iter().all(|phase| match phase {
                Phase::All(_) => true,
                Phase::Each(among, each) => {
                    let ranks = (0..among.count()).flat_map(|group| among.group(group).ranks());
                    ranks.zip(each).all(|(rank, own)| *own == phase.get(symmetry.member(rank)))
                }
            })
    }

    /// All of them, of this value alone.
    fn phases_mut(&mut self) -> &mut Vec<Phase> {
        Arc::make_mut(&mut self.phases)
    }

    fn index(&self, iteration: u32, segment: usize) -> usize {
        assert!(segment < self.segment_count);
        iteration as usize * self.segment_count + segment
    }
}

#[cfg(test)]
mod tests {
    use zipwire_cluster::{Dimension, Layout};

    use super::*;

    /// Four ranks, of which the second of each pair computes.
    #[test]
    fn durations_are_of_the_ranks_that_have_some() {
        let of = |name| Dimension { name, size: 2, is_alike: true };
        let layout = Layout::new(vec![of("pp"), of("dp")]);
        let (second, mut durations) = (layout.groups(&["dp"], Some(("pp", 1))), Durations::zeros(2, 2, 4));
        durations.set_all(0, 1, 2.0);
        durations.change(0, 1, second, |rank, seconds| seconds + f64::from(rank.0));
        durations.change(1, 1, second, |_, seconds| seconds + 2.0);
        let of_ranks = |durations: &Durations, iteration| {
            [0, 1, 2, 3].map(|rank| durations.get(iteration, 1, Rank(rank)))
        };
        assert_eq!(of_ranks(&durations, 0), [0.0, 3.0, 0.0, 5.0]);
        assert_eq!(of_ranks(&durations, 1), [0.0, 2.0, 0.0, 2.0]);
        durations.set(0, 1, Rank(3), 7.0);
        // (3 + 7) / 2 in the first iteration and 2 in the second.
        assert_eq!(of_ranks(&durations.evened(), 1), [3.5; 4]);
        assert_eq!(durations.get(0, 0, Rank(1)), 0.0);
        assert_eq!(durations.scaled(2.0).get(0, 1, Rank(3)), 14.0);
    }
}
