//! Calls of a library: what goes in and comes out is that of the collective, and all ranks call alike.

use std::collections::BTreeMap;

use super::PlanError;
use super::transfers::{Shape, Sizes, shape};
use crate::plan::{CallKey, Chunk, Library, Plan, Share};
use crate::{Channel, Collective, OpId, Rank, Sum};

/// The op of each rank, by call.
pub(crate) type Calls = BTreeMap<CallKey, Vec<OpId>>;

/// Whether a call of `rank` is one of its collective.
pub(super) fn is_collective(rank: Rank, library: &Library) -> bool {
    let Library { collective, ranks, inputs, outputs, .. } = library;
    match collective {
        Collective::AllGather => {
            let is_gathered = |share: &Share| share.chunk.destination.is_none() && share.chunk.sum.is_none();
            let mut origins: Vec<Rank> = outputs.iter().map(|share| share.chunk.origin).collect();
            origins.sort_unstable();
            let distinct = origins.windows(2).all(|pair| pair[0] < pair[1]);
            inputs.len() <= 1
                && inputs.iter().all(|share| share.chunk.origin == rank)
                && distinct
                && origins.iter().all(|origin| *origin != rank && origin.0 < *ranks)
                && library.shares().all(is_gathered)
        }
        Collective::ReduceScatter | Collective::AllReduce => {
            let values = |share: &Share| share.content.values().map(|region| region.len);
            let is_contribution = |share: &Share| {
                let dtype = share.chunk.sum.map(Sum::dtype);
                let is_own = |dtype| share.chunk.sum == Some(Sum::one(rank, *ranks, dtype));
                share.chunk.origin == rank && dtype.is_some_and(is_own) && values(share).is_some()
            };
            // As many values of the same type as were contributed to the same shard.
            let is_total = |share: &Share| {
                let of_shard = inputs.iter().find(|input| input.chunk.shard() == share.chunk.shard());
                of_shard.is_some_and(|input| {
                    let dtype = input.chunk.sum.map(Sum::dtype);
                    share.chunk.sum == dtype.map(|dtype| Sum::all(*ranks, dtype))
                        && values(share) == values(input)
                })
            };
            let is_complete = match collective {
                Collective::AllReduce => outputs.len() == inputs.len(),
                Collective::AllGather | Collective::ReduceScatter => {
                    let shards = inputs.iter().filter(|input| input.chunk.shard() == rank).count();
                    outputs.len() == shards && outputs.iter().all(|share| share.chunk.shard() == rank)
                }
            };
            inputs.iter().all(is_contribution) && outputs.iter().all(is_total) && is_complete
        }
    }
}

/// What ranks must agree on: the collective, its channel and ranks, and of what it moves everything but whose rank it is.
#[derive(PartialEq)]
struct Agreed {
    collective: Collective,
    ranks: u32,
    channel: Channel,
    /// Of an All-Gather what each origin gives; of a reduction each shard that is added up.
    shares: Vec<Shape>,
}

impl Agreed {
    fn of(library: &Library, sizes: &[Option<usize>]) -> Self {
        let Library { collective, ranks, channel, inputs, .. } = library;
        let contributed = |share: &Share| {
            // Whoever contributes.
            let chunk =
                Chunk { origin: Rank(0), sum: share.chunk.sum.map(|sum| sum.of_first()), ..share.chunk };
            shape(chunk, &share.content, sizes)
        };
        let mut shares: Vec<Shape> = match collective {
            Collective::AllGather => {
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
