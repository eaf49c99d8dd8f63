//! `prefill` and `decode`: how many instances there are, over how many ranks each is spread, and for how many tokens each has memory;
//! and in `[compute]` what prompts and tokens take there.

use zipwire_codec::DType;
use zipwire_kv::Geometry;
use zipwire_serving::{ComputeTime, DecodeTime, Pool, PrefillTime, Shards, WeightTime};

use super::problem;
use crate::compute::KEYS;
use crate::error::Result;
use crate::language::{Condition, Field, Keys, Rule, Schema, custom, integer, keys, schema, table};
use crate::model::{Architecture, Attention, check_heads, check_memory};
use crate::problem::ServingProblem;
use crate::words::gigabytes;

/// Most instances of a pool.
const INSTANCE_LIMIT: u32 = 4096;
/// Most requests that an instance decodes at the same time.
const SEQUENCE_LIMIT: u32 = 1 << 20;
/// Most ranks of an instance.
const RANK_LIMIT: u32 = 1024;

keys! { pub(super) static PREFILL =
    instances: u32 = integer(1..=INSTANCE_LIMIT), "how many there are", needed = "1";
    tensor_parallel: u32 = integer(1..=RANK_LIMIT), "ranks that each is spread over", needed = "8";
    kv_memory: u64 = custom(|field| field.bytes(1), schema::bytes), "bytes of each rank for caches", needed = "\"40 GB\"";
}

keys! { pub(super) static DECODE =
    instances: u32 = integer(1..=INSTANCE_LIMIT), "how many there are", needed = "1";
    tensor_parallel: u32 = integer(1..=RANK_LIMIT), "ranks that each is spread over", needed = "8";
    kv_memory: u64 = custom(|field| field.bytes(1), schema::bytes), "bytes of each rank for caches", needed = "\"40 GB\"";
    sequences: u32 = integer(1..=SEQUENCE_LIMIT), "requests that each decodes at the same time, at the most; 256 by default";
}

/// A pool as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolTable {
    pub(super) instances: u32,
    pub(super) ranks: u32,
    kv_memory: u64,
    sequences: u32,
}

impl PoolTable {
    pub(super) fn read_prefill(field: &Field<'_>) -> Result<Self> {
        let table = field.table(PREFILL.all)?;
        Ok(Self {
            instances: table.need(PREFILL.instances)?,
            ranks: table.need(PREFILL.tensor_parallel)?,
            kv_memory: table.need(PREFILL.kv_memory)?,
            sequences: 1,
        })
    }

    pub(super) fn read_decode(field: &Field<'_>) -> Result<Self> {
        let table = field.table(DECODE.all)?;
        Ok(Self {
            instances: table.need(DECODE.instances)?,
            ranks: table.need(DECODE.tensor_parallel)?,
            kv_memory: table.need(DECODE.kv_memory)?,
            sequences: table.get(DECODE.sequences)?.unwrap_or(256),
        })
    }

    /// Refuses a pool whose ranks cannot share the heads of the model, or have no room for its weights. `field` is that of the pool, and
    /// `gpu_memory` the bytes of a rank's memory, if they are known. A remark, if there is no room for the caches beside the weights.
    pub(super) fn check(
        &self,
        field: &Field<'_>,
        model: &Architecture,
        weight_dtype: DType,
        gpu_memory: Option<u64>,
    ) -> Result<Option<String>> {
        let ranks = field.peek(DECODE.tensor_parallel)?;
        check_heads(ranks.as_ref().unwrap_or(field), model, self.ranks)?;
        let weights = model.rank_bytes(weight_dtype.width(), self.ranks);
        check_memory(field, weights, gpu_memory)?;
        let room = gpu_memory.map(|memory| memory - weights);
        Ok(room.filter(|&room| room < self.kv_memory).map(|room| {
            format!(
                "`{}.kv_memory` is {}, and beside its weights a GPU has room for {}",
                field.path,
                gigabytes(self.kv_memory),
                gigabytes(room)
            )
        }))
    }

    /// The pool, for a cache of these shards.
    pub(super) fn pool(&self, model: &Architecture, shards: &Shards, dtype: DType) -> Pool {
        let token_bytes = rank_bytes(model, dtype, self.ranks);
        debug_assert!(token_bytes > 0 && shards.layers() == model.layers);
        Pool { instances: self.instances, kv_tokens: self.kv_memory / token_bytes, sequences: self.sequences }
    }
}

/// Bytes of a token's cache on each of `ranks` ranks, all layers together.
fn rank_bytes(model: &Architecture, dtype: DType, ranks: u32) -> u64 {
    let width = dtype.width() as u64;
    let layer = match model.attention {
        Attention::Grouped { kv_heads, head_size, .. } => {
            2 * u64::from(kv_heads.div_ceil(ranks)) * u64::from(head_size) * width
        }
        Attention::Latent { kv_rank, rotary_size, .. } => u64::from(kv_rank + rotary_size) * width,
    };
    layer * u64::from(model.layers)
}

/// The cache of a model between two pools, and what of it one rank sends to another.
pub(super) fn cache(
    model: &Architecture,
    dtype: DType,
    [prefill, decode]: [&PoolTable; 2],
    field: &Field<'_>,
) -> Result<(Shards, Geometry)> {
    let ranks = [prefill.ranks, decode.ranks];
    let width = dtype.width() as u64;
    let (shards, geometry) = match model.attention {
        Attention::Grouped { kv_heads, head_size, .. } => {
            let head_bytes = u64::from(head_size) * width;
            let shards = Shards::grouped(model.layers, kv_heads, head_bytes, prefill.instances, ranks);
            let heads = (kv_heads / prefill.ranks.max(decode.ranks)).max(1);
            (shards, Geometry::grouped(model.layers, heads, head_size, dtype))
        }
        Attention::Latent { kv_rank, rotary_size, .. } => {
            let size = kv_rank + rotary_size;
            let shards = Shards::latent(model.layers, u64::from(size) * width, prefill.instances, ranks);
            (shards, Geometry::latent(model.layers, size, dtype))
        }
    };
    let shards = shards.map_err(|error| problem(field, ServingProblem::Shards(error)))?;
    let geometry =
        geometry.map_err(|source| problem(field, ServingProblem::Geometry { why: source.to_string() }))?;
    Ok((shards, geometry))
}

static SERVING: Keys<'static> =
    &[KEYS.dense, KEYS.prefill_token, KEYS.prefill_step, KEYS.memory, KEYS.decode_step, KEYS.decode_sequence];

fn compute_rules() -> Vec<Rule> {
    vec![
        Rule::one_of(&[KEYS.dense, KEYS.prefill_token]),
        Rule::one_of(&[KEYS.memory, KEYS.decode_step]),
        Condition::Has(KEYS.memory).refuses(
            &[KEYS.decode_sequence],
            "with `memory`, a sequence takes what its operations and its cache take",
        ),
    ]
}

pub(crate) fn compute_schema() -> Schema {
    table(SERVING).with(compute_rules())
}

/// Seconds in which the ranks of an instance, each at a rate, read the weights of the tokens that they compute on. All ranks have a part of
/// every expert.
fn weight_time(model: &Architecture, weight_dtype: DType, rate: f64) -> WeightTime {
    let seconds = |parameters: u128| parameters as f64 * weight_dtype.width() as f64 / rate;
    let experts = model.expert_parameters();
    WeightTime {
        common_s: seconds(model.parameters() - experts),
        experts_s: seconds(experts),
        chosen: model.experts.map_or(0.0, |experts| f64::from(experts.top_k) / f64::from(experts.count)),
    }
}

/// Reads the table for a model on these pools; types are those of caches and of weights. Matrices are split over the ranks of an instance,
/// caches of grouped attention, too; what ranks tell one another on the way is not counted.
pub(super) fn read_compute(
    field: &Field<'_>,
    model: &Architecture,
    [dtype, weight_dtype]: [DType; 2],
    [prefill, decode]: [&PoolTable; 2],
) -> Result<ComputeTime> {
    let table = field.table(SERVING)?;
    table.check(&compute_rules())?;
    let (dense, memory) = (table.get(KEYS.dense)?, table.get(KEYS.memory)?);
    let ranks = |pool: &PoolTable| f64::from(pool.ranks);
    let weights = |pool| weight_time(model, weight_dtype, memory.unwrap_or(f64::INFINITY) * ranks(pool));
    let flops = model.token_flops();
    let step_s = table.get(KEYS.prefill_step)?.unwrap_or(0.0);
    let prefill_time = match dense {
        Some(rate) => PrefillTime {
            step_s,
            token_s: flops.token / (rate * ranks(prefill)),
            pair_s: flops.pair / (rate * ranks(prefill)),
            weights: weights(prefill),
        },
        None => PrefillTime { step_s, token_s: table.need(KEYS.prefill_token)?, ..PrefillTime::default() },
    };
    let decode_time = match memory {
        Some(rate) => DecodeTime {
            step_s: 0.0,
            sequence_s: dense.map_or(0.0, |dense| flops.token / (dense * ranks(decode))),
            context_token_s: rank_bytes(model, dtype, decode.ranks) as f64 / rate,
            weights: weights(decode),
        },
        None => DecodeTime {
            step_s: table.need(KEYS.decode_step)?,
            sequence_s: table.get(KEYS.decode_sequence)?.unwrap_or(0.0),
            ..DecodeTime::default()
        },
    };
    Ok(ComputeTime { prefill: prefill_time, decode: decode_time })
}
