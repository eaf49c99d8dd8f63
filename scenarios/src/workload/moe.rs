//! Workload `moe`: dispatch, expert computation and combine of one mixture-of-experts layer.

use std::sync::Arc;

use ndarray::Array2;
use zipwire_cluster::Groups;
use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Durations, Job, Rank, Segment, Slot, TokenMap, Work};

use super::{Context, Kind, Workload, one_tensor_per_call};
use crate::compute::ExpertTime;
use crate::dispatch::{self, DispatchRow};
use crate::error::Result;
use crate::language::{AnyKey, Field, Raw, custom, keys, raw};
use crate::model::Layer;
use crate::payload::{Carried, TENSORS};
use crate::placement::Experts;
use crate::routing::tokens::{self, Rows};
use crate::routing::{self, OF_EXPERTS, Place};
use crate::skew::{Shape, Skew};

keys! { static MODEL =
    model: Layer = custom(Layer::read, Layer::schema), "sizes of the layer: a preset's name or a table", needed = "\"qwen3-235b-a22b\"";
}

keys! { static KEYS =
    skew: Skew = custom(Skew::read, Skew::schema), "ranks begin at different times";
    payload: Raw = raw(|| CARRIED.schema()), "what is sent";
}

static CARRIED: Carried = Carried { tensors: &[TENSORS.dispatch, TENSORS.combine], always: 2 };

pub(super) fn keys() -> Vec<&'static dyn AnyKey> {
    [MODEL.all, OF_EXPERTS.all, dispatch::KEYS.all, KEYS.all].concat()
}

const TOKENS: Slot = Slot(0);
const EXPERT: Slot = Slot(1);
const COMBINED: Slot = Slot(2);

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(&Kind::Moe.keys(&keys()))?;
    let model = table.need(MODEL.model)?;
    let row = DispatchRow::read(&table, model.hidden)?;
    let routing = table.need_field(OF_EXPERTS.routing)?;
    let place = Place::Only;
    let routed = routing::read(
        &routing,
        &routing::Context {
            files: context.files,
            seed: context.seed,
            ranks: context.ranks,
            experts: model.experts,
            tokens_per_rank: model.tokens_per_rank,
            top_k: model.top_k,
            place,
        },
    )?;
    let experts = table.field(OF_EXPERTS.experts);
    let experts = experts.map(|field| Experts::read(&field, model.experts, context.ranks)).transpose()?;
    let experts = experts.unwrap_or_default();
    let skew = table.get(KEYS.skew)?;
    let rows = CARRIED.read(table.field(KEYS.payload), 2, DType::Bf16, context.files)?;
    let loads: Vec<u64> = routed.counts.columns().into_iter().map(|column| column.sum()).collect();
    let hosts = experts.place(&loads, context.ranks);
    let rows_of_tokens = Rows::read(&table, model.copies_per_rank().saturating_mul(context.ranks.into()))?;
    let shape = tokens::Shape { top_k: model.top_k, row_bytes: row.bytes() };
    let tokens = (rows_of_tokens == Rows::Shared)
        .then(|| Arc::new(tokens::assign(&routed, &hosts, shape, place, context.seed)));
    let compute = ExpertTime::read(context.compute.as_ref())?;
    let copies = hosts.between_ranks(&routed.counts);
    let (job, durations) = build(&copies, tokens, (&model, row), skew, compute, context);
    let tensors = one_tensor_per_call(&job);
    let (dtypes, rows, fp8_values) = (vec![DType::Bf16], rows, row.fp8_values());
    Ok(Workload { fp8_values, ..Workload::new(job, durations, dtypes, rows, tensors) })
}

fn build(
    copies: &Array2<u64>,
    tokens: Option<Arc<TokenMap>>,
    (model, row): (&Layer, DispatchRow),
    skew: Option<Skew>,
    compute: ExpertTime,
    context: &Context<'_>,
) -> (Job, Durations) {
    let dispatch_bytes = copies * row.bytes();
    let combine_bytes = (copies * model.token_bytes()).t().as_standard_layout().into_owned();
    let all_to_all = |dtype, bytes: Array2<u64>, tokens, input, output| {
        Work::of_call(dtype, [input, output], CallKind::AllToAll { bytes: bytes.into(), tokens })
    };
    // Phases follow one another on each rank: a phase claims every buffer, so that no collective call overlaps it, also
    // where a rank sends or receives nothing.
    let phase = |phase| Work::Compute { phase, reads: vec![EXPERT], writes: vec![TOKENS, EXPERT, COMBINED] };

    let mut segments = Vec::new();
    let mut push = |name, work| {
        segments.push(Segment::new(name, work));
        segments.len() - 1
    };
    let start_skew = skew.map(|skew| (skew, push("skew", phase("skew")), 0.0));
    push("dispatch", all_to_all(row.dtype, dispatch_bytes, tokens, TOKENS, EXPERT));
    let expert_skew = skew.filter(|_| compute.expert_s > 0.0);
    let expert_skew =
        expert_skew.map(|skew| (skew, push("expert-skew", phase("expert-skew")), compute.expert_s));
    let expert = push("expert", phase("expert"));
    push("combine", all_to_all(DType::Bf16, combine_bytes, None, EXPERT, COMBINED));

    let mut durations = Durations::zeros(context.iterations, segments.len(), context.ranks);
    let shape = Shape { iterations: context.iterations, among: Groups::whole(context.ranks) };
    for (skew, segment, compute_s) in [start_skew, expert_skew].into_iter().flatten() {
        skew.draw(compute_s, segment, context.seed, shape, &mut durations);
    }
    for (rank, seconds) in (0..).zip(expert_seconds(copies, compute.expert_s)) {
        for iteration in 0..context.iterations {
            durations.set(iteration, expert, Rank(rank), seconds);
        }
    }
    compute.noise.apply(expert, context.seed, shape, &mut durations);
    let slots = vec!["tokens", "expert", "combined"];
    (Job { name: "moe", rank_count: context.ranks, slots, segments }, durations)
}

/// The declared time scaled by each rank's tokens, its own included, over the mean.
fn expert_seconds(copies: &Array2<u64>, mean_s: f64) -> Vec<f64> {
    let mean = copies.sum() as f64 / copies.ncols() as f64;
    copies.columns().into_iter().map(|column| mean_s * (column.sum() as f64 / mean)).collect()
}
