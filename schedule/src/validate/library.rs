//! Calls of a library: what goes in and comes out is that of the collective, and all ranks call alike.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use zipwire_cluster::Group;

use super::transfers::{Shape, Sizes, shape};
use crate::plan::{CallKey, Chunk, Lens, Library, Plan, PlanError, Row, Share, Shares};
use crate::{Channel, Collective, OpId, Rank, Sum};

/// The op of each rank, by call.
pub(crate) type Calls = BTreeMap<CallKey, Vec<(Rank, OpId)>>;

/// Whether a call of `rank` is one of its collective.
pub(super) fn is_collective(rank: Rank, library: &Library) -> bool {
    if library.collective.is_reduction() { is_reduction(rank, library) } else { is_gather(rank, library) }
}

/// A rank gives what is its own, and gets what is that of others, of each once.
fn is_gather(rank: Rank, Library { group, inputs, outputs, .. }: &Library) -> bool {
    let is_for_all = |chunk: Chunk| chunk.destination.is_none() && chunk.sum.is_none();
    let is_given = inputs.row().is_none()
        && inputs.listed().len() <= 1
        && inputs.listed().iter().all(|share| share.chunk.origin == rank && is_for_all(share.chunk));
    let is_of_another =
        |share: &Share| share.chunk.origin != rank && group.position(share.chunk.origin).is_some();
    is_given
        && match outputs {
            // Each rank is in a row once.
            Shares::Row(row) => {
                is_of_all(row, group)
                    && is_for_all(row.chunk)
                    && row.without == group.position(rank).map(Rank)
            }
            Shares::Listed(outputs) => {
                outputs.iter().all(|share| is_of_another(share) && is_for_all(share.chunk))
                    && are_distinct(outputs.iter().map(|share| share.chunk.origin))
            }
        }
}

fn is_of_all(row: &Row, group: &Group) -> bool {
    row.lens.bytes().len() == group.count as usize && row.group == *group
}

/// A rank gives its own values of each shard once, and gets the sums of all ranks: of its shard, or of all shards.
fn is_reduction(rank: Rank, library: &Library) -> bool {
    let Library { collective, group, inputs, outputs, .. } = library;
    let is_contribution = |chunk: Chunk| {
        let own = |dtype| group.position(rank).map(|at| Sum::one(Rank(at), group.count, dtype).within(group));
        let is_own = |sum: Sum| own(sum.dtype()) == Some(sum);
        chunk.origin == rank && chunk.sum.is_some_and(is_own)
    };
    let are_contributions = match inputs {
        Shares::Row(row) => {
            is_of_all(row, group)
                && row.without.is_none()
                && row.chunk.destination.is_some()
                && is_contribution(row.chunk)
        }
        Shares::Listed(inputs) => {
            let is_sound = |s: &Share| is_contribution(s.chunk) && s.content.values().is_some();
            inputs.iter().all(is_sound) && are_distinct(inputs.iter().map(|share| share.chunk.shard()))
        }
    };
    are_contributions
        && match (collective, inputs, outputs) {
            (Collective::AllReduce, Shares::Row(given), Shares::Row(sums)) => {
                sums.lens == given.lens
                    && sums.without.is_none()
                    && sums.chunk.destination.is_none()
                    && sums.chunk.sum == total(given.chunk, group)
            }
            _ => are_totals(rank, library),
        }
}

/// The sum of what all ranks of a group contribute with a chunk.
fn total(contribution: Chunk, group: &Group) -> Option<Sum> {
    contribution.sum.map(|sum| Sum::all(group.count, sum.dtype()).within(group))
}

/// Whether the outputs are the sums of all inputs that the rank waits for, as many values of the same type as are contributed.
fn are_totals(rank: Rank, library: &Library) -> bool {
    let Library { collective, group, inputs, outputs, .. } = library;
    let values = |share: &Share| share.content.values().map(|region| region.len);
    let is_total_of = |share: Share, input: Share| {
        share.chunk.sum == total(input.chunk, group) && values(&share) == values(&input)
    };
    let wanted = match collective {
        Collective::AllReduce => inputs.iter().count(),
        _ => inputs.of(rank).iter().count(),
    };
    let is_wanted = |share: &Share| *collective == Collective::AllReduce || share.chunk.shard() == rank;
    are_distinct(outputs.iter().map(|share| share.chunk.shard()))
        && outputs.iter().count() == wanted
        && outputs.iter().all(|share| {
            is_wanted(&share) && inputs.of(share.chunk.shard()).is_some_and(|input| is_total_of(share, input))
        })
}

fn are_distinct(ranks: impl Iterator<Item = Rank>) -> bool {
    let mut ranks: Vec<Rank> = ranks.collect();
    ranks.sort_unstable();
    ranks.windows(2).all(|pair| pair[0] < pair[1])
}

/// Parameters on which ranks must agree: the collective, its channel and ranks, and everything about the bytes that it moves but
/// the rank that contributes them.
#[derive(PartialEq)]
struct Agreed {
    collective: Collective,
    group: Group,
    channel: Channel,
    /// Blocks of each origin in an All-Gather; shards that are added up in a reduction.
    moved: Moved,
}

#[derive(PartialEq)]
enum Moved {
    Shapes(Vec<Shape>),
    /// Values of all ranks, with what is added up in the first of them.
    Row(Arc<Lens>, Option<Sum>),
}

impl Agreed {
    fn of(rank: Rank, library: &Library, sizes: &[Option<usize>]) -> Self {
        let &Library { collective, group, channel, .. } = library;
        let moved = Moved::in_row(rank, library).unwrap_or_else(|| Moved::listed(library, sizes));
        Self { collective, group, channel, moved }
    }
}

impl Moved {
    /// The row that moves, if it is one on each rank: that it gives, or that it gets beside its own values.
    fn in_row(rank: Rank, library: &Library) -> Option<Self> {
        let Library { collective, group, inputs, outputs, .. } = library;
        if collective.is_reduction() {
            let row = inputs.row()?;
            return Some(Self::Row(Arc::clone(&row.lens), row.chunk.sum.map(Sum::of_first)));
        }
        let row = outputs.row()?;
        let given = inputs.listed().first().map_or(Some(0), |share| Some(share.content.values()?.len));
        let is_own = group.position(rank).and_then(|at| row.lens.bytes().get(at as usize)).copied() == given;
        is_own.then(|| Self::Row(Arc::clone(&row.lens), None))
    }

    fn listed(library: &Library, sizes: &[Option<usize>]) -> Self {
        let contributed = |share: Share| {
            // Whoever contributes.
            let chunk = Chunk { origin: Rank(0), sum: share.chunk.sum.map(Sum::of_first), ..share.chunk };
            shape(chunk, &share.content, sizes)
        };
        let mut shapes: Vec<Shape> = if library.collective.is_reduction() {
            library.inputs.iter().map(contributed).collect()
        } else {
            library.shares().map(|share| shape(share.chunk, &share.content, sizes)).collect()
        };
        shapes.sort_unstable();
        Self::Shapes(shapes)
    }
}

/// The ops of each call.
///
/// # Errors
/// If a rank calls otherwise than rank 0, or twice.
pub(crate) fn pair(plan: &Plan) -> Result<Calls, PlanError> {
    let mut calls: BTreeMap<CallKey, (Vec<(Rank, OpId)>, Agreed)> = BTreeMap::new();
    let mut known = Sizes::default();
    for program in &plan.programs {
        let (rank, sizes) = (program.rank, known.of(program));
        for op in &program.ops {
            let Some(library) = op.kind.library() else { continue };
            let key = library.key(op.segment);
            let own = Agreed::of(rank, library, &sizes);
            let Group { first, count, stride } = own.group;
            let end = u64::from(first.0) + u64::from(stride) * u64::from(count.max(1) - 1);
            if end >= u64::from(plan.rank_count()) || own.group.position(rank).is_none() {
                return Err(PlanError::BadCall { rank, op: op.id });
            }
            match calls.entry(key) {
                Entry::Vacant(first) => _ = first.insert((vec![(rank, op.id)], own)),
                Entry::Occupied(known) => {
                    let (ops, agreed) = known.into_mut();
                    if *agreed != own || ops.last().is_some_and(|(last, _)| *last == rank) {
                        return Err(PlanError::UnmatchedCall { key, rank });
                    }
                    ops.push((rank, op.id));
                }
            }
        }
    }
    for (&key, (ops, Agreed { group, .. })) in &calls {
        if let Some(rank) = group.ranks().find(|rank| ops.iter().all(|(caller, _)| caller != rank)) {
            return Err(PlanError::UnmatchedCall { key, rank });
        }
    }
    Ok(calls.into_iter().map(|(key, (ops, _))| (key, ops)).collect())
}
