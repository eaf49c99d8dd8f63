//! Jobs in which ranks are alike: what translations of a cluster ([`Symmetry`]) leave as it is, and programs that are images of one another.
//!
//! The bytes of a job are compared for all ranks. That planners treat ranks alike is compared for a few, because planning all of them is what
//! symmetry saves ([`Symmetry::samples`]).

use std::collections::HashMap;

use ndarray::ArcArray2;
use zipwire_cluster::{Group, Groups, Symmetry};

use crate::plan::{
    Batch, Content, Exchange, Library, Local, Op, OpKind, Program, Reduce, Region, Shares, Transfer,
};
use crate::{CallKind, Job, Rank, Segment, Work};

/// Values of the longest shard from which on one value more or less is no difference: a part in ten thousand.
const LEAST_UNEVEN: u64 = 10_000;

impl Job {
    /// The same job with shards that are all as long as the longest one, where shards of a call differ by a value, because so many ranks do not share
    /// its values evenly; `None` where some differ by more, or are so short that a value counts.
    pub fn evened(&self) -> Option<Self> {
        let mut job = self.clone();
        for segment in &mut job.segments {
            let (groups, work) = (segment.groups(self.rank_count), &mut segment.work);
            let ranks = u64::from(groups.size());
            let Work::Call { dtype, kind, .. } = work else { continue };
            let width = dtype.width() as u64;
            match kind {
                CallKind::AllGather { bytes } | CallKind::ReduceScatter { bytes } => {
                    let most = bytes.iter().copied().max().unwrap_or(0);
                    let is_even = bytes.iter().all(|&len| len == most);
                    if !is_even
                        && (most < LEAST_UNEVEN * width || bytes.iter().any(|&len| len + width < most))
                    {
                        return None;
                    }
                    bytes.fill(most);
                }
                CallKind::AllReduce { bytes } => {
                    let even = bytes.next_multiple_of(ranks * width);
                    if *bytes != even && even / ranks < LEAST_UNEVEN * width {
                        return None;
                    }
                    *bytes = even;
                }
                CallKind::AllToAll { .. } | CallKind::Broadcast { .. } | CallKind::Send { .. } => {}
            }
        }
        Some(job)
    }

    /// Whether each rank contributes and gets what the rank that stands for it does, of as many bytes, from ranks that stand for the same.
    ///
    /// # Panics
    /// If the symmetry is one of another number of ranks.
    pub fn is_alike(&self, symmetry: &Symmetry) -> bool {
        assert_eq!(symmetry.ranks(), self.rank_count, "the symmetry is one of the job's ranks");
        let mut known: HashMap<Groups, bool> = HashMap::new();
        self.segments.iter().all(|segment| {
            let groups = segment.groups(self.rank_count);
            let are_images = *known.entry(groups).or_insert_with(|| are_images(&groups, symmetry));
            are_images && is_segment_alike(segment, &groups, symmetry)
        })
    }
}

/// Whether each translation makes groups of groups: then each rank has its group, if any, where the rank that stands for it has it.
fn are_images(groups: &Groups, symmetry: &Symmetry) -> bool {
    let is_whole = groups.size() == symmetry.ranks();
    is_whole
        || groups.all().all(|group| {
            let images: Vec<Option<Group>> =
                symmetry.steps(group.first).map(|first| groups.of(first)).collect();
            group.ranks().all(|rank| {
                let mut steps = symmetry.steps(rank).zip(&images);
                steps.all(|(step, image)| image.is_some_and(|image| image.position(step).is_some()))
            })
        })
}

fn is_segment_alike(segment: &Segment, groups: &Groups, symmetry: &Symmetry) -> bool {
    let by_rank = |bytes: &[u64]| {
        let of = |rank: Rank| groups.of(rank).and_then(|group| group.position(rank));
        bytes.iter().all(|len| *len == bytes[0])
            || (0..symmetry.ranks()).map(Rank).filter_map(|rank| Some((rank, of(rank)?))).all(|(rank, at)| {
                of(symmetry.member(rank)).is_some_and(|member| bytes[at as usize] == bytes[member as usize])
            })
    };
    match &segment.work {
        Work::Compute { .. } => true,
        Work::Transfers { .. } | Work::Call { kind: CallKind::Broadcast { .. }, .. } => false,
        // Who sends is told by the programs.
        Work::Call { kind: CallKind::Send { .. }, .. } => true,
        Work::Call { kind: CallKind::AllToAll { bytes, tokens }, .. } => {
            let is_off_diagonal = |&((src, dst), _): &((usize, usize), &u64)| src != dst;
            let mut parts = bytes.indexed_iter().filter(is_off_diagonal).map(|(_, len)| *len);
            let is_even = parts.next().is_none_or(|first| parts.all(|len| len == first));
            tokens.is_none() && (is_even || are_pairs_alike(bytes, groups, symmetry))
        }
        Work::Call { kind: CallKind::AllGather { bytes }, .. } => by_rank(bytes),
        Work::Call { kind: CallKind::ReduceScatter { .. } | CallKind::AllReduce { .. }, .. } => {
            by_rank(&segment.work.shards(groups.size()))
        }
    }
}

/// Whether each pair of a group's ranks moves as many bytes as the pair that stands for it.
fn are_pairs_alike(bytes: &ArcArray2<u64>, groups: &Groups, symmetry: &Symmetry) -> bool {
    groups.all().all(|group| {
        bytes.indexed_iter().filter(|((src, dst), _)| src != dst).all(|((src, dst), &len)| {
            let (first, second) = symmetry.pair(group.at(src as u32), group.at(dst as u32));
            let of = groups.of(first);
            let at = of.and_then(|of| Some([of.position(first)? as usize, of.position(second)? as usize]));
            at.is_some_and(|at| len == bytes[at])
        })
    })
}

/// Whether a program is that of its rank's member, translated: the same ops, of as many bytes, with peers that are translated alike.
pub(crate) fn is_image(program: &Program, of: &Program, symmetry: &Symmetry) -> bool {
    let alike = Alike { symmetry, ranks: [program.rank, of.rank] };
    program.size_count == of.size_count
        && program.ops.len() == of.ops.len()
        && program.ops.iter().zip(&of.ops).all(|(op, other)| alike.ops(op, other))
        && wait_alike(&program.ops, &of.ops)
}

/// Ops of which it is looked up what they all wait for, at the most: that takes a bit for each pair of them.
const MOST_OPS: usize = 1 << 14;

/// Whether ops wait for the same others, at once or because those wait for them. Where regions of ranks lie otherwise in a buffer, they may meet
/// those of others that are long over.
fn wait_alike(ops: &[Op], others: &[Op]) -> bool {
    let is_direct = ops.iter().zip(others).all(|(op, other)| op.deps == other.deps);
    is_direct || ops.len() <= MOST_OPS && waits(ops) == waits(others)
}

/// For each op, a bit for each that it waits for.
fn waits(ops: &[Op]) -> Vec<Vec<u64>> {
    let mut all: Vec<Vec<u64>> = Vec::with_capacity(ops.len());
    for op in ops {
        let mut own = vec![0; ops.len().div_ceil(64)];
        for dep in &op.deps {
            own[dep.index() / 64] |= 1 << (dep.index() % 64);
            own.iter_mut().zip(&all[dep.index()]).for_each(|(bits, of_dep)| *bits |= of_dep);
        }
        all.push(own);
    }
    all
}

struct Alike<'a> {
    symmetry: &'a Symmetry,
    /// Ranks whose programs are compared.
    ranks: [Rank; 2],
}

impl Alike<'_> {
    fn ops(&self, op: &Op, other: &Op) -> bool {
        (op.segment, op.not_before_s) == (other.segment, other.not_before_s)
            && match (&op.kind, &other.kind) {
                (OpKind::Compute(one), OpKind::Compute(other)) => one.name == other.name,
                (OpKind::Local(one), OpKind::Local(other)) => locals(one, other),
                (OpKind::Exchange(one), OpKind::Exchange(other)) => self.exchanges(one, other),
                (OpKind::Library(one), OpKind::Library(other)) => libraries(one, other),
                _ => false,
            }
    }

    fn exchanges(&self, one: &Exchange, other: &Exchange) -> bool {
        let rest = |exchange: &Exchange| Exchange {
            sends: Vec::new(),
            receives: Vec::new(),
            // Of the groups, the numbers of ranks; that they are images is compared for the job.
            grouped: exchange.grouped.map(|group| Group::all(group.count)),
            ..exchange.clone()
        };
        let [rank, of] = self.ranks;
        let listed = |rank: Rank, exchange: &Exchange| {
            let Exchange { sends, receives, window, joins_previous, .. } = exchange;
            let sends = sends.iter().map(|end| (self.symmetry.pair(rank, end.peer), described(end)));
            let receives = receives.iter().map(|end| (self.symmetry.pair(end.peer, rank), described(end)));
            let mut all: [Vec<_>; 2] = [sends.collect(), receives.collect()];
            // Where all are open at once, they have no order.
            let has_room = [window.sends, window.receives]
                .iter()
                .zip(&all)
                .all(|(room, ends)| *room as usize >= ends.len());
            if has_room && !joins_previous {
                all.iter_mut().for_each(|ends| {
                    ends.sort_by_key(|(pair, (_, number, content))| (*pair, *number, *content));
                });
            }
            all
        };
        rest(one) == rest(other) && listed(rank, one) == listed(of, other)
    }
}

/// When a transfer may start, its number, and its content.
fn described(end: &Transfer) -> (f64, u32, (u8, u64, u64)) {
    (end.not_before_s, end.number, content(end.content))
}

/// Kind of a content, its bytes, and those of the slot in front of it. Sizes are numbered in the order in which ranks meet them.
pub(crate) fn content(content: Content) -> (u8, u64, u64) {
    let len = |region: Region| region.len;
    match content {
        Content::Values(region) => (0, len(region), 0),
        Content::Whole(region) => (1, len(region), 0),
        Content::Prefix(region, _) => (2, len(region), 0),
        Content::Size(_) => (3, 0, 0),
        Content::Announced(region, _) => (4, len(region), 0),
        Content::Overflow { region, slot, .. } => (5, len(region), slot),
    }
}

fn locals(one: &Local, other: &Local) -> bool {
    let batch = |batch: &Batch| {
        let lens = batch.blocks.iter().map(|block| {
            [block.values.len, block.sign_mantissa.len, block.static_section.len, block.dynamic_section.len]
        });
        let mut lens: Vec<_> = lens.collect();
        lens.sort_unstable();
        (batch.layout, batch.dtype, lens)
    };
    match (one, other) {
        (Local::Split(one), Local::Split(other))
        | (Local::Encode(one), Local::Encode(other))
        | (Local::Decode(one), Local::Decode(other)) => batch(one) == batch(other),
        (Local::Reduce(one), Local::Reduce(other)) => {
            let lens = |reduce: &Reduce| {
                let sum = |addition: &crate::plan::Addition| {
                    let terms: Vec<u64> = addition.terms.iter().map(|term| term.values.len).collect();
                    (addition.values.len, terms)
                };
                let mut lens: Vec<_> = reduce.additions.iter().map(sum).collect();
                lens.sort_unstable();
                (reduce.fused, lens)
            };
            lens(one) == lens(other)
        }
        // Rows are those of tokens, which no two ranks share.
        _ => false,
    }
}

fn libraries(one: &Library, other: &Library) -> bool {
    let shares = |shares: &Shares| {
        let mut lens: Vec<_> = shares.iter().map(|share| content(share.content)).collect();
        lens.sort_unstable();
        lens
    };
    (one.collective, one.group.count, one.channel, one.stage, one.part)
        == (other.collective, other.group.count, other.channel, other.stage, other.part)
        && shares(&one.inputs) == shares(&other.inputs)
        && shares(&one.outputs) == shares(&other.outputs)
}
