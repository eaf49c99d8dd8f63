//! Workload `moe`: dispatch, expert computation and combine of one mixture-of-experts layer.

use std::sync::Arc;

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Durations, Job, Rank, Segment, Slot, TokenMap, Work};

use super::{Context, Kind, Workload, one_tensor_per_call};
use crate::compute::ExpertTime;
use crate::dispatch::{DISPATCH_DTYPE, DispatchRow};
use crate::error::Result;
use crate::experts::Experts;
use crate::model::Layer;
use crate::payload::Rowset;
use crate::reader::Field;
use crate::routing::tokens::{self, Rows};
use crate::routing::{self, Place};
use crate::schema::{Schema, needed, optional, table};
use crate::skew::{Shape, Skew};

const KEYS: &[&str] = &["kind", "model", "routing", "experts", "tokens", DISPATCH_DTYPE, "skew", "payload"];

const PAYLOAD_KEYS: &[&str] = &["file", "dispatch", "combine", "gaussian"];
const TENSORS: &[&str] = &["dispatch", "combine"];

const TOKENS: Slot = Slot(0);
const EXPERT: Slot = Slot(1);
const COMBINED: Slot = Slot(2);

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(KEYS)?;
    let model = Layer::read(&table.need("model", "\"qwen3-235b-a22b\"")?)?;
    let row = DispatchRow::read(&table, model.hidden)?;
    let routing = table.need("routing", "\"uniform\"")?;
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
    let experts = table
        .get("experts")
        .map_or(Ok(Experts::default()), |field| Experts::read(&field, model.experts, context.ranks))?;
    let skew = table.get("skew").map(|field| Skew::read(&field)).transpose()?;
    let rows = table
        .get("payload")
        .map(|field| Rowset::read(&field, PAYLOAD_KEYS, TENSORS, &[DType::Bf16], context.files));
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
    let (dtypes, rows, fp8_values) = (vec![DType::Bf16], rows.transpose()?, row.fp8_values());
    Ok(Workload { job, durations, dtypes, rows, tensors, fp8_values })
}

/// What [`read`] reads.
pub(super) fn schema() -> Schema {
    #[rustfmt::skip]
    let keys = [
        Kind::Moe.key(),
        needed("model", "sizes of the layer: a preset's name or a table", Layer::schema()),
        needed("routing", "who sends how many tokens to which expert", routing::schema()),
        optional("experts", "on which ranks experts are; contiguous and none twice by default", Experts::schema()),
        Rows::key(),
        DispatchRow::key(),
        optional("skew", "ranks begin at different times", Skew::schema()),
        optional("payload", "what is sent", Rowset::schema(PAYLOAD_KEYS, TENSORS)),
    ];
    table(KEYS, keys)
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
    let all_to_all = |dtype, bytes, tokens, input, output| Work::Call {
        dtype,
        input,
        output,
        kind: CallKind::AllToAll { bytes, tokens },
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
    let shape = Shape { iterations: context.iterations, ranks: context.ranks };
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
