//! Kind `training`: any dimensions together. Ranks share layers (`tp`), sequences (`cp`), the layers of a pipeline (`pp`), experts (`ep`), and what is left, states
//! of replicas (`dp`).
//!
//! - *Layers*: attention is split by heads and the MLP by columns and then rows, with an All-Reduce behind each (Megatron-LM, arXiv:1909.08053, sec. 3).
//! - *Sequences*: keys and values of all tokens are gathered before attention, their gradients scattered behind it (Llama 3, arXiv:2407.21783, sec. 3.3.2).
//! - *Pipeline*: the schedules of `pipeline.rs`. What is sent between stages waits for no other call, and none for it.
//! - *Experts*: dispatch and combine among all ranks that share a layer's experts, `tp` and `cp` innermost; each rank has rows of its part of the tokens, as many
//!   for each expert.
//! - *Replicas*: shards of optimizer states (ZeRO-1) or of parameters, too (ZeRO-3, arXiv:1910.02054), or nothing; beside the passes, on a channel of their own.
//!
//! Activations are BF16 and kept, not made again. The optimizer takes no time.

mod dimensions;
mod iteration;
mod pipeline;

use zipwire_codec::DType;

use self::dimensions::{Parallel, Sharded};
use self::iteration::Iteration;
use self::pipeline::Schedule;
use super::super::{Context, Kind, Workload};
use super::builder::{Builder, Settings, check_call};
use super::gradients::DTYPES;
use crate::error::Result;
use crate::language::{AnyKey, Field, Raw, choice, keys, raw};
use crate::model::check_heads;
use crate::payload::{Carried, TENSORS};
use crate::problem::ParallelProblem;

/// Names of the dimensions along which something moves.
pub(crate) const DIMENSIONS: [&str; 5] = ["tp", "cp", "pp", "ep", "dp"];

keys! { static KEYS =
    parallel: Raw = raw(Parallel::schema), "how many ranks share what", needed = "{ tp = 8, dp = 2 }";
    gradient_dtype: DType = choice("type of gradients", &DTYPES, DType::name), "type of gradients that travel; `BF16` by default";
}

keys! { static PAYLOAD =
    payload: Raw = raw(|| CARRIED.schema()), "what is sent";
}

static CARRIED: Carried =
    Carried { tensors: &[TENSORS.parameters, TENSORS.activations, TENSORS.gradients], always: 3 };

pub(super) fn keys() -> Vec<&'static dyn AnyKey> {
    Settings::keys(Kind::Training, KEYS.all, PAYLOAD.all)
}

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(&Kind::Training.keys(&keys()))?;
    let settings = Settings::read(&table, Kind::Training, context)?;
    let parallel_field = table.need_field(KEYS.parallel)?;
    let parallel = Parallel::read(&parallel_field, settings.model.experts.is_some(), context.topology)?;
    let gradient_dtype = table.get(KEYS.gradient_dtype)?.unwrap_or(DType::Bf16);
    check(&parallel_field, &settings, &parallel)?;
    check_memory(&parallel_field, &settings, &parallel, (gradient_dtype, context.gpu_memory))?;
    check_calls(field, &settings, &parallel)?;
    let rows = CARRIED.read(table.field(PAYLOAD.payload), 3, DType::Bf16, context.files)?;
    let dtypes = vec![DType::Bf16, gradient_dtype];

    let builder = Builder::new(context, &settings);
    let mut iteration = Iteration::new(builder, &settings, &parallel, gradient_dtype);
    iteration.build();
    let workload = iteration.builder.finish(Kind::Training.name(), field, dtypes, rows)?;
    Ok(workload.with_layout(parallel.layout))
}

/// Refuses calls that are too large: of gradients, activations, rows for experts, and keys and values.
fn check_calls(field: &Field<'_>, settings: &Settings, parallel: &Parallel) -> Result<()> {
    let Settings { model, tokens, .. } = settings;
    let Parallel { tp, cp, .. } = *parallel;
    let values =
        (0..model.layers).flat_map(|layer| parallel.values_of_layer(model, layer)).max().unwrap_or(0);
    let of_rank = u128::from(tokens.total()) / u128::from(cp);
    let top_k = model.experts.map_or(0, |experts| u128::from(experts.top_k).div_ceil(tp.into()));
    let activations = of_rank * u128::from(model.hidden) * top_k.max(1);
    let keys = of_rank * u128::from(cp) * u128::from(model.attention.cached_values(tp));
    let bytes = [
        u128::from(values) * DType::F32.width() as u128,
        activations * DType::Bf16.width() as u128,
        keys * DType::Bf16.width() as u128,
    ];
    bytes.into_iter().try_for_each(|bytes| check_call(u64::try_from(bytes).unwrap_or(u64::MAX), field))
}

/// Refuses what cannot be split: heads, tokens, experts, layers, and micro-batches that a schedule does not take.
fn check(field: &Field<'_>, settings: &Settings, parallel: &Parallel) -> Result<()> {
    let Settings { model, tokens, micro_batches, .. } = settings;
    let Parallel { tp, cp, pp, ep, schedule, .. } = *parallel;
    check_heads(field, model, tp)?;
    let refuse = |problem: ParallelProblem| Err(field.error(problem.into()));
    let ranks = if model.experts.is_some() { tp * cp } else { cp };
    if !tokens.sequence.is_multiple_of(ranks.into()) {
        return refuse(ParallelProblem::Tokens { tokens: tokens.sequence, ranks });
    }
    if let Some(experts) = model.experts.filter(|experts| !experts.count.is_multiple_of(ep)) {
        return refuse(ParallelProblem::UnevenExperts { experts: experts.count, ep });
    }
    let parts = parallel.pipeline(*micro_batches).parts();
    // The embedding may be a part of its own, and so may the head.
    if model.layers + 2 < parts {
        return refuse(ParallelProblem::Layers { layers: model.layers, parts });
    }
    if schedule == Schedule::DualPipe && parallel.sharded == Sharded::Parameters {
        return refuse(ParallelProblem::PairsGather);
    }
    let (is_fine, needed, example) = match schedule {
        Schedule::Interleaved => {
            (micro_batches.is_multiple_of(pp), "a multiple of `pp`", micro_batches.next_multiple_of(pp))
        }
        Schedule::DualPipe => (
            micro_batches.is_multiple_of(2) && *micro_batches >= 2 * pp,
            "an even number from 2 x `pp` on",
            micro_batches.next_multiple_of(2).max(2 * pp),
        ),
        Schedule::OneForwardOneBackward | Schedule::ZeroBubble => (true, "", 0),
    };
    if is_fine {
        return Ok(());
    }
    let (schedule, stages, micro_batches) = (schedule.name(), pp, *micro_batches);
    refuse(ParallelProblem::MicroBatches { schedule, stages, micro_batches, needed, example })
}

/// Bytes of each parameter in the states of Adam: FP32 weights, means and variances.
const STATES: u128 = 12;

/// Refuses states for which GPUs have no room: BF16 weights, gradients, and the optimizer's; activations come on top of that.
fn check_memory(
    field: &Field<'_>,
    settings: &Settings,
    parallel: &Parallel,
    (gradient_dtype, memory): (DType, Option<u64>),
) -> Result<()> {
    let Some(memory) = memory else { return Ok(()) };
    let Parallel { tp, pp, ep, sharded, schedule, .. } = *parallel;
    let experts = settings.model.expert_parameters();
    let dense = settings.model.parameters() - experts;
    let copies = if schedule == Schedule::DualPipe { 2 } else { 1 };
    let bytes = |values: u128, shards: u32| {
        let shards = u128::from(shards);
        let whole = (DType::Bf16.width() + gradient_dtype.width()) as u128;
        match sharded {
            Sharded::Nothing => values * (whole + STATES),
            Sharded::Optimizer => values * whole + values * STATES / shards,
            Sharded::Parameters => values * (whole + STATES) / shards,
        }
    };
    let of_stage = |values: u128, ranks: u32| copies * values / u128::from(ranks) / u128::from(pp);
    let needed = bytes(of_stage(dense, tp), parallel.dense_shards())
        + bytes(of_stage(experts, ep), parallel.expert_shards());
    let needed = u64::try_from(needed).unwrap_or(u64::MAX);
    if needed <= memory {
        Ok(())
    } else {
        Err(field.error(ParallelProblem::Memory { needed, memory }.into()))
    }
}
