//! Calls of a library: what goes in and comes out is that of the collective, and all ranks call alike.

use std::collections::BTreeMap;

use super::transfers::{Shape, Sizes, shape};
use crate::plan::{CallKey, Chunk, Library, Plan, PlanError, Share};
use crate::{Channel, Collective, OpId, Rank, Sum};

/// The op of each rank, by call.
pub(crate) type Calls = BTreeMap<CallKey, Vec<OpId>>;

/// Whether a call of `rank` is one of its collective.
pub(super) fn is_collective(rank: Rank, library: &Library) -> bool {
    if library.collective.is_reduction() { is_reduction(rank, library) } else { is_gather(rank, library) }
}

/// A rank gives what is its own, and gets what is that of others, of each once.
fn is_gather(rank: Rank, Library { ranks, inputs, outputs, .. }: &Library) -> bool {
    let is_for_all = |share: &Share| share.chunk.destination.is_none() && share.chunk.sum.is_none();
    let is_own = |share: &Share| share.chunk.origin == rank;
    let is_of_another = |share: &Share| !is_own(share) && share.chunk.origin.0 < *ranks;
    inputs.len() <= 1
        && inputs.iter().all(|share| is_own(share) && is_for_all(share))
        && outputs.iter().all(|share| is_of_another(share) && is_for_all(share))
        && are_distinct(outputs.iter().map(|share| share.chunk.origin))
}

/// A rank gives its own values of each shard once, and gets the sums of all ranks: of its shard, or of all shards.
fn is_reduction(rank: Rank, library: &Library) -> bool {
    let Library { collective, ranks, inputs, outputs, .. } = library;
    let values = |share: &Share| share.content.values().map(|region| region.len);
    let is_contribution = |share: &Share| {
        let is_own = |sum: Sum| sum == Sum::one(rank, *ranks, sum.dtype());
        share.chunk.origin == rank && share.chunk.sum.is_some_and(is_own) && values(share).is_some()
    };
    // As many values of the same type as are contributed to the same shard.
    let is_total_of = |share: &Share, input: &Share| {
        let total = input.chunk.sum.map(|sum| Sum::all(*ranks, sum.dtype()));
        share.chunk.shard() == input.chunk.shard()
            && share.chunk.sum == total
            && values(share) == values(input)
    };
    let is_wanted = |input: &&Share| *collective == Collective::AllReduce || input.chunk.shard() == rank;
    let wanted: Vec<&Share> = inputs.iter().filter(is_wanted).collect();
    inputs.iter().all(is_contribution)
        && are_distinct(inputs.iter().map(|share| share.chunk.shard()))
        && are_distinct(outputs.iter().map(|share| share.chunk.shard()))
        && outputs.len() == wanted.len()
        && outputs.iter().all(|share| wanted.iter().any(|input| is_total_of(share, input)))
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
    ranks: u32,
    channel: Channel,
    /// Blocks of each origin in an All-Gather; shards that are added up in a reduction.
    shares: Vec<Shape>,
}

impl Agreed {
    fn of(library: &Library, sizes: &[Option<usize>]) -> Self {
        let Library { collective, ranks, channel, inputs, .. } = library;
        let contributed = |share: &Share| {
            // Whoever contributes.
            let chunk = Chunk { origin: Rank(0), sum: share.chunk.sum.map(Sum::of_first), ..share.chunk };
            shape(chunk, &share.content, sizes)
        };
        let mut shares: Vec<Shape> = match collective {
            Collective::AllGather | Collective::Broadcast => {
                library.shares().map(|share| shape(share.chunk, &share.content, sizes)).collect()
            }
            Collective::ReduceScatter | Collective::AllReduce => inputs.iter().map(contributed).collect(),
        };
        shares.sort_unstable();
        Self { collective: *collective, ranks: *ranks, channel: *channel, shares }
    }
}

/// The ops of each call.
///
/// # Errors
/// If a rank calls otherwise than rank 0, or twice.
pub(crate) fn pair(plan: &Plan) -> Result<Calls, PlanError> {
    let mut calls: BTreeMap<CallKey, (Vec<OpId>, Agreed)> = BTreeMap::new();
    let mut known = Sizes::default();
    for program in &plan.programs {
        let (rank, sizes) = (program.rank, known.of(program));
        for op in &program.ops {
            let Some(library) = op.kind.library() else { continue };
            let key = library.key(op.segment);
            let own = Agreed::of(library, &sizes);
            if own.ranks != plan.rank_count() {
                return Err(PlanError::BadCall { rank, op: op.id });
            }
            if rank.0 == 0 && !calls.contains_key(&key) {
                calls.insert(key, (vec![op.id], own));
                continue;
            }
            match calls.get_mut(&key) {
                Some((ops, agreed)) if ops.len() == rank.index() && *agreed == own => ops.push(op.id),
                Some(_) | None => return Err(PlanError::UnmatchedCall { key, rank }),
            }
        }
        if let Some((&key, _)) = calls.iter().find(|(_, (ops, _))| ops.len() <= rank.index()) {
            return Err(PlanError::UnmatchedCall { key, rank });
        }
    }
    Ok(calls.into_iter().map(|(key, (ops, _))| (key, ops)).collect())
}
