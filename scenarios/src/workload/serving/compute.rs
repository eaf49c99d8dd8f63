//! `[compute]` of workload `serving`: what prompts and tokens take, from the operations and bytes of the model or as times.

use zipwire_codec::DType;
use zipwire_serving::{ComputeTime, DecodeTime, PrefillTime};

use super::pools::{PoolTable, rank_bytes};
use crate::compute::KEYS;
use crate::error::Result;
use crate::language::{Condition, Field, Keys, Rule, Schema, table};
use crate::model::{Architecture, VALUE_BYTES};

/// Keys of `[compute]`.
static SERVING: Keys<'static> =
    &[KEYS.dense, KEYS.prefill_token, KEYS.prefill_step, KEYS.memory, KEYS.decode_step, KEYS.decode_sequence];

fn rules() -> Vec<Rule> {
    vec![
        Rule::one_of(&[KEYS.dense, KEYS.prefill_token]),
        Rule::one_of(&[KEYS.memory, KEYS.decode_step]),
        Condition::Has(KEYS.memory).refuses(
            &[KEYS.decode_sequence],
            "with `memory`, a sequence takes what its operations and its cache take",
        ),
    ]
}

/// Schema of the table that [`read`] accepts.
pub(crate) fn schema() -> Schema {
    table(SERVING).with(rules())
}

/// Reads the table for a model on these pools. Matrices are split over the ranks of an instance, caches of grouped attention, too; what
/// ranks tell one another on the way is not counted. A step of decoding reads all weights, those of all experts among them: batches are large.
pub(super) fn read(
    field: &Field<'_>,
    model: &Architecture,
    dtype: DType,
    [prefill, decode]: [&PoolTable; 2],
) -> Result<ComputeTime> {
    let table = field.table(SERVING)?;
    table.check(&rules())?;
    let dense = table.get(KEYS.dense)?;
    let ranks = |pool: &PoolTable| f64::from(pool.ranks);
    let flops = model.token_flops();
    let prefill_time = match (dense, table.get(KEYS.prefill_token)?) {
        (Some(rate), _) => PrefillTime {
            step_s: table.get(KEYS.prefill_step)?.unwrap_or(0.0),
            token_s: flops.token / (rate * ranks(prefill)),
            pair_s: flops.pair / (rate * ranks(prefill)),
        },
        (None, token_s) => PrefillTime {
            step_s: table.get(KEYS.prefill_step)?.unwrap_or(0.0),
            token_s: token_s.unwrap_or(0.0),
            pair_s: 0.0,
        },
    };
    let decode_time = match table.get(KEYS.memory)? {
        Some(rate) => DecodeTime {
            step_s: model.parameters() as f64 * VALUE_BYTES as f64 / (rate * ranks(decode)),
            sequence_s: dense.map_or(0.0, |dense| flops.token / (dense * ranks(decode))),
            context_token_s: rank_bytes(model, dtype, decode.ranks) as f64 / rate,
        },
        None => DecodeTime {
            step_s: table.need(KEYS.decode_step)?,
            sequence_s: table.get(KEYS.decode_sequence)?.unwrap_or(0.0),
            context_token_s: 0.0,
        },
    };
    Ok(ComputeTime { prefill: prefill_time, decode: decode_time })
}
