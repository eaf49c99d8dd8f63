//! Workload `moe`: dispatch, expert computation and combine of one mixture-of-experts layer.

use std::sync::Arc;

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_schedule::{Durations, Job, Rank, Segment, Slot, TokenMap, Work};

use super::{Context, Kind, Workload, one_tensor_per_call};
use crate::compute::ExpertTime;
use crate::dispatch::{DISPATCH_DTYPE, DispatchRow};
use crate::error::Result;
use crate::experts::Experts;
use crate::model::Layer;
use crate::payload::Rowset;
use crate::placement::Hosts;
use crate::problem::Problem;
use crate::reader::Field;
use crate::routing;
use crate::schema::{Schema, names, needed, optional, table};
use crate::skew::{Shape, Skew};

const KEYS: &[&str] = &["kind", "model", "routing", "experts", "tokens", DISPATCH_DTYPE, "skew", "payload"];

const PAYLOAD_KEYS: &[&str] = &["file", "dispatch", "combine", "gaussian"];
const TENSORS: &[&str] = &["dispatch", "combine"];

/// Most token copies of all ranks that are kept one by one, at four bytes each.
const COPIES_LIMIT: u64 = 1 << 28;

/// What the rows that a rank sends have to do with one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tokens {
    /// Nothing: each is drawn for itself.
    Drawn,
    /// Copies of one token are equal.
    Shared,
}

impl Tokens {
    const ALL: [Self; 2] = [Self::Drawn, Self::Shared];

    fn name(self) -> &'static str {
        match self {
            Self::Drawn => "drawn",
            Self::Shared => "shared",
        }
    }
}

const TOKENS: Slot = Slot(0);
const EXPERT: Slot = Slot(1);
const COMBINED: Slot = Slot(2);

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(KEYS)?;
    let model = Layer::read(&table.need("model", "\"qwen3-235b-a22b\"")?)?;
    let row = DispatchRow::read(&table, model.hidden)?;
    let routing = table.need("routing", "\"uniform\"")?;
    let counts = routing::read(
        &routing,
        &routing::Context {
            files: context.files,
            seed: context.seed,
            ranks: context.ranks,
            experts: model.experts,
            copies_per_rank: model.copies_per_rank(),
            place: routing::Place::Only,
        },
    )?;
    let experts = table
        .get("experts")
        .map_or(Ok(Experts::default()), |field| Experts::read(&field, model.experts, context.ranks))?;
    let skew = table.get("skew").map(|field| Skew::read(&field)).transpose()?;
    let rows = table
        .get("payload")
        .map(|field| Rowset::read(&field, PAYLOAD_KEYS, TENSORS, &[DType::Bf16], context.files));
    let loads: Vec<u64> = counts.columns().into_iter().map(|column| column.sum()).collect();
    let hosts = experts.place(&loads, context.ranks);
    let tokens = match table.get("tokens") {
        Some(field) => shared_tokens(&field, &counts, &hosts, (&model, row), context)?,
        None => None,
    };
    let compute = ExpertTime::read(context.compute.as_ref())?;
    let copies = hosts.between_ranks(&counts);
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
        optional("tokens", "whether the copies of a token that dispatch sends are equal; `drawn`, they are not, by default", names(Tokens::ALL.map(Tokens::name))),
        DispatchRow::key(),
        optional("skew", "ranks begin at different times", Skew::schema()),
        optional("payload", "what is sent", Rowset::schema(PAYLOAD_KEYS, TENSORS)),
    ];
    table(KEYS, keys)
}

/// The tokens that the rows of dispatch are, if copies of one are equal.
fn shared_tokens(
    field: &Field<'_>,
    counts: &Array2<u64>,
    hosts: &Hosts,
    (model, row): (&Layer, DispatchRow),
    context: &Context<'_>,
) -> Result<Option<Arc<TokenMap>>> {
    match field.choice("relation of rows", &Tokens::ALL, Tokens::name)? {
        Tokens::Drawn => Ok(None),
        Tokens::Shared => {
            let copies = model.copies_per_rank().saturating_mul(u64::from(context.ranks));
            if copies > COPIES_LIMIT {
                let path = "token copies of all ranks".to_owned();
                let limits = format!("at most {COPIES_LIMIT} where copies of a token are equal");
                return Err(field.error(Problem::OutOfRange { path, value: copies.to_string(), limits }));
            }
            let shape = (model.top_k, row.bytes());
            Ok(Some(Arc::new(routing::tokens::assign(counts, hosts, shape, 0, context.seed))))
        }
    }
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
    let all_to_all =
        |dtype, bytes, tokens, input, output| Work::AllToAll { dtype, bytes, tokens, input, output };
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
