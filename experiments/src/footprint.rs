//! What a variant takes of memory, at the least, before it is planned: what it says is refused without planning anything.

use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::plan::{Block, Share, Transfer};
use zipwire_schedule::{Algorithm, Protocol, Rank, TokenMap, WHOLE_PLAN_RANKS, Work, part_count};

use crate::memory::SPAN_BYTES;
use crate::slots;

/// What a variant takes. What else there is depends on the number of ranks only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Bytes of its plan.
    pub(crate) plan: u64,
    /// Bytes that checking it takes beside it, once.
    pub(crate) check: u64,
    /// Bytes of the timeline of all iterations.
    pub(crate) timeline: u64,
}

/// Bytes that a check of a whole plan takes for each of its transfers: both ends, what is open, and who waits for whom. An
/// All-to-All of 256 ranks under `static-first` has 195 840, and `zipwire scenario check` of it peaks at 177 MB, of which its plan
/// and the program itself are 60.
const CHECK_BYTES: u64 = 600;

impl Footprint {
    /// That of one variant of an experiment.
    pub(crate) fn of(experiment: &Experiment, variant: &Variant) -> Self {
        if variant.is_adaptive() {
            let arms = variant.arms.iter().map(|arm| Self::of(experiment, arm));
            return arms.fold(Self::default(), |most, of| Self {
                plan: most.plan.max(of.plan),
                check: most.check.max(of.check),
                timeline: most.timeline.max(of.timeline),
            });
        }
        let mut count = Count {
            variant,
            algorithm: None,
            is_supported: true,
            transfers: 0,
            moving: 0,
            blocks: 0,
            shares: 0,
        };
        let codec = experiment.codec_of(variant).map(|choice| choice.spec.codec());
        for (index, segment) in experiment.job.segments.iter().enumerate() {
            count.algorithm = variant.algorithm_of(index);
            let dtype = slots::dtype(&segment.work);
            count.is_supported = codec.as_ref().zip(dtype).is_none_or(|(codec, dtype)| codec.supports(dtype));
            count.add(&segment.work, experiment.job.rank_count);
        }
        let Count { transfers, moving, blocks, shares, .. } = count;
        Self {
            plan: 2 * transfers * size_of::<Transfer>() as u64
                + blocks * size_of::<Block>() as u64
                + shares * size_of::<Share>() as u64,
            check: if experiment.job.rank_count <= WHOLE_PLAN_RANKS { transfers * CHECK_BYTES } else { 0 },
            timeline: 2 * moving * u64::from(experiment.iterations) * SPAN_BYTES,
        }
    }
}

/// What the calls of an iteration are made of.
struct Count<'a> {
    variant: &'a Variant,
    /// Of the call that is counted.
    algorithm: Option<Algorithm>,
    /// Whether the codec knows the type of the call that is counted.
    is_supported: bool,
    /// Transfers of the plan, each of which has two ends.
    transfers: u64,
    /// Those that surely move something, and the ends of calls of a library.
    moving: u64,
    blocks: u64,
    /// What goes into calls of a library and comes out, at all ranks.
    shares: u64,
}

impl Count<'_> {
    fn add(&mut self, work: &Work, rank_count: u32) {
        let ranks = || (0..rank_count).map(Rank);
        let others = u64::from(rank_count) - 1;
        if self.algorithm == Some(Algorithm::Library) {
            return self.add_call(work, rank_count);
        }
        match work {
            Work::Compute { .. } => {}
            Work::AllToAll { tokens: Some(tokens), .. } if self.variant.dedup.is_some() => {
                let ranks_per_node = self.variant.dedup.expect("it was looked at");
                self.add_legs(tokens, ranks_per_node);
            }
            Work::AllToAll { bytes, .. } => {
                for ((src, dst), &len) in bytes.indexed_iter().filter(|((src, dst), _)| src != dst) {
                    let rank = |index| Rank(u32::try_from(index).expect("ranks are counted in 32 bits"));
                    self.add_pieces(1, self.is_coded(rank(src), Some(rank(dst)), len), len);
                }
            }
            Work::AllGather { bytes, .. } => {
                for (origin, &len) in ranks().zip(bytes) {
                    self.add_pieces(others, self.is_coded(origin, None, len), len);
                }
            }
            &Work::Broadcast { bytes, root, .. } => {
                self.add_pieces(others, self.is_coded(root, None, bytes), bytes);
            }
            Work::ReduceScatter { .. } | Work::AllReduce { .. } => {
                // Each rank has something for each other; of an All-Reduce, twice.
                let times = if matches!(work, Work::AllReduce { .. }) { 2 } else { 1 };
                // Sums of nodes may be of a type that the codec does not know.
                let straight =
                    self.algorithm == Some(Algorithm::Direct) && self.variant.protocol_of(work).is_coded();
                for (rank, len) in ranks().zip(work.shards(rank_count)) {
                    // As if all were of one node: where that makes a difference, it is what moves less often.
                    let is_coded = straight && self.is_coded(rank, Some(rank), len);
                    self.add_pieces(others * times, is_coded, len);
                }
            }
            Work::Transfers { flows, .. } => {
                self.transfers += flows.len() as u64;
                self.moving += flows.len() as u64;
            }
        }
    }

    /// One call of a library, which every rank shares with all others, at the least: frames have several, and their sizes.
    fn add_call(&mut self, work: &Work, rank_count: u32) {
        let lens = match work {
            Work::AllGather { bytes, .. } => bytes.clone(),
            reduction => reduction.shards(rank_count),
        };
        for (origin, len) in (0..rank_count).map(Rank).zip(&lens).filter(|(_, len)| **len > 0) {
            self.shares += u64::from(rank_count);
            if self.is_coded(origin, None, *len) {
                self.blocks += u64::from(rank_count) - 1;
            }
        }
        if lens.iter().any(|&len| len > 0) {
            self.moving += u64::from(rank_count);
        }
    }

    fn is_coded(&self, rank: Rank, peer: Option<Rank>, len: u64) -> bool {
        self.variant.protocol.is_coded()
            && self.is_supported
            && self.variant.selection.includes(rank, peer, len)
    }

    /// So many pieces of `len` bytes.
    fn add_pieces(&mut self, pieces: u64, is_coded: bool, len: u64) {
        if len == 0 {
            return;
        }
        if !is_coded {
            self.transfers += pieces;
            self.moving += pieces;
            return;
        }
        let parts = pieces * part_count(len, self.variant.chunks);
        let (stages, moving) = match self.variant.protocol {
            Protocol::Native => (1, 1),
            // What travels apart does so of some types only.
            Protocol::SizeFirst | Protocol::InBand | Protocol::SplitSend => (2, 2),
            // Nothing overflows if the prediction holds, and nothing can if slots have room for the longest frame.
            Protocol::Speculative => (1, 1),
            Protocol::StaticFirst | Protocol::OverlapSizes => (3, 3),
        };
        self.transfers += parts * stages;
        self.moving += parts * moving;
        self.blocks += parts;
    }

    /// The transfers of both legs where gateways hand on what several ranks of a node want. Parts begin with tokens: there are
    /// as many as there are of these, at the most.
    fn add_legs(&mut self, tokens: &TokenMap, ranks_per_node: u32) {
        let ranks = tokens.rank_count();
        let node = |rank: u32| rank / ranks_per_node;
        let bytes = tokens.bytes();
        for src in 0..ranks {
            let wants = |dst: &u32| bytes[[src as usize, *dst as usize]] > 0;
            for dst in (0..ranks).filter(|&dst| dst != src && node(dst) == node(src)).filter(wants) {
                let len = bytes[[src as usize, dst as usize]];
                self.add_pieces(1, self.is_coded(Rank(src), Some(Rank(dst)), len), len.min(1));
            }
            for other in (0..ranks / ranks_per_node).filter(|&other| other != node(src)) {
                let of_node = other * ranks_per_node..(other + 1) * ranks_per_node;
                let gateway = of_node.start + src % ranks_per_node;
                let len = tokens.distinct(Rank(src), &of_node) * tokens.row_bytes();
                self.add_pieces(1, self.is_coded(Rank(src), Some(Rank(gateway)), len), len.min(1));
                let handed_on = of_node.filter(|&dst| dst != gateway).filter(wants).count() as u64;
                self.transfers += handed_on;
                self.moving += handed_on;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zipwire_schedule::plan::{Local, OpKind};

    use super::*;
    use crate::memory::timeline_bytes;
    use crate::{Cancel, Prepared};

    fn load(path: &str) -> Experiment {
        let source = zipwire_scenarios::Source::read(std::path::Path::new(path)).unwrap();
        zipwire_scenarios::load(&source, &[], None).unwrap()
    }

    /// Bytes of what a footprint counts of a plan.
    fn plan_bytes(plan: &zipwire_schedule::Plan) -> usize {
        let ops = plan.programs.iter().flat_map(|program| &program.ops);
        let bytes = ops.map(|op| match &op.kind {
            OpKind::Exchange(exchange) => {
                (exchange.sends.len() + exchange.receives.len()) * size_of::<Transfer>()
            }
            OpKind::Local(Local::Encode(batch)) => batch.blocks.len() * size_of::<Block>(),
            OpKind::Library(library) => library.shares().count() * size_of::<Share>(),
            _ => 0,
        });
        bytes.sum()
    }

    /// What is promised before a plan is made holds for the plan that is made.
    #[test]
    fn a_plan_takes_no_less_than_was_said() {
        let experiment = load("../scenarios/smoke/moe-dirichlet-2x2.toml");
        let prepared = Prepared::new(&experiment, &Cancel::default()).unwrap();
        for (variant, planned) in prepared.variants() {
            let Footprint { plan, timeline, .. } = Footprint::of(&experiment, variant);
            assert_eq!(plan as usize, plan_bytes(&planned.plan));
            assert!(timeline > 0);
            assert!(timeline <= timeline_bytes(&planned.plan, experiment.iterations));
        }
    }

    #[test]
    fn nor_does_any_other_and_chunks_count() {
        let mut files: Vec<_> =
            std::fs::read_dir("../scenarios/smoke").unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut chunked = 0;
        for file in files {
            let experiment = load(file.to_str().unwrap());
            let prepared = Prepared::new(&experiment, &Cancel::default()).unwrap();
            for (variant, planned) in prepared.variants().filter(|(variant, _)| !variant.is_adaptive()) {
                let said = Footprint::of(&experiment, variant);
                let name = format!("{}: {}", file.display(), variant.name);
                // A block that many ranks get is encoded once, and counted for each.
                let blocks = planned.plan.programs.iter().flat_map(|program| &program.ops);
                let decoded = blocks.map(|op| match &op.kind {
                    OpKind::Local(Local::Decode(batch)) => batch.blocks.len() * size_of::<Block>(),
                    _ => 0,
                });
                let most = plan_bytes(&planned.plan) + decoded.sum::<usize>();
                assert!(said.plan as usize <= most, "{name}: {} of {most} bytes", said.plan);
                assert!(said.timeline <= timeline_bytes(&planned.plan, experiment.iterations), "{name}");
                if variant.chunks > 1 && variant.dedup.is_none() {
                    let whole = Variant { chunks: 1, ..variant.clone() };
                    chunked += usize::from(said.plan > Footprint::of(&experiment, &whole).plan);
                }
            }
        }
        assert!(chunked > 0, "no scenario has calls that are cut");
    }
}
