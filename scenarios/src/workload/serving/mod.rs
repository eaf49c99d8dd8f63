//! Workload `serving`: requests arrive, some ranks compute prompts, others generate tokens, and KV caches move between them.
//!
//! It has no iterations and no plan: a machine decides as requests come (`zipwire-serving`). Nothing of it is a collective call, so of a variant only
//! the codec counts, and whether there is one.

mod arrivals;
mod pools;
mod trace;

use std::sync::Arc;

use zipwire_codec::DType;
use zipwire_kv::{Geometry, KvCodec};
use zipwire_serving::{
    ComputeTime, Config, FirstToken, Loss, Move, Placement, RequestId, Requests, Shards, Slo, Trouble,
};

use self::pools::{PoolTable, cache};
use super::{Context, ExperimentWork, Kind, Workload};
use crate::codec::CodecChoice;
use crate::error::Result;
use crate::files::Files;
use crate::language::{
    AnyKey, Condition, Field, Key, Raw, Reader, Rule, Schema, array, choice, custom, integer, keys, named,
    raw, table, time,
};
use crate::model::{self, Architecture, Needs};
use crate::payload::{self, Carried, Rowset, TENSORS};
use crate::problem::{Problem, ServingProblem};

pub(super) use self::pools::compute_schema;

/// Most groups of layers.
const GROUP_LIMIT: u32 = 256;
/// Most tokens of a prompt, or of an answer.
const TOKEN_LIMIT: u32 = 1 << 24;
/// Most tokens that an instance keeps of earlier prompts.
const CACHE_LIMIT: u64 = 1 << 40;
/// Most tokens of a piece that is coded by itself.
const PIECE_LIMIT: u32 = 1 << 16;

named! {
    /// How the pieces of a part of a cache follow one another.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Pieces {
        Pipelined = "pipelined",
        Sequential = "sequential",
    }
}

keys! { static KEYS =
    model: Architecture = custom(|field| model::read(field, Needs::Nothing), || model::schema(Needs::Nothing)), "sizes of the model, a preset's name or a table", needed = "\"llama3-8b\"";
    prefill: PoolTable = custom(PoolTable::read_prefill, || table(pools::PREFILL.all)), "instances that compute prompts, on the first ranks", needed = "{ instances = 1, tensor_parallel = 8, kv_memory = \"40 GB\" }";
    decode: PoolTable = custom(PoolTable::read_decode, || table(pools::DECODE.all)), "instances that generate tokens, on the ranks behind them", needed = "{ instances = 1, tensor_parallel = 8, kv_memory = \"40 GB\" }";
    trace: Raw = raw(trace::schema), "recorded requests, from a file";
    arrivals: Raw = raw(arrivals::schema), "requests that are drawn";
    requests: Raw = raw(arrivals::list_schema), "the requests, one by one";
    placement: Placement = choice("placement", &Placement::ALL, Placement::name), "which instance a request goes to; `least-loaded` by default";
    transfer: Move = choice("time of transfers", &Move::ALL, Move::name), "when caches move: group by group of layers as they are computed (`push`, the default), or when the decode instance fetches them (`pull`)";
    first_token: FirstToken = choice("maker of the first token", &FirstToken::ALL, FirstToken::name), "who makes the first token that a user sees: `decode`, the default, or `prefill`";
    layer_groups: u32 = integer(1..=GROUP_LIMIT), "groups of layers that a cache moves in; 4 by default, or as many as there are layers";
    chunk: u32 = integer(1..=TOKEN_LIMIT), "tokens of a prompt that are computed at a time; 8192 by default";
    piece: u32 = integer(1..=PIECE_LIMIT), "tokens of a layer that are coded by themselves; 256 by default";
    pieces: Pieces = choice("way of pieces", &Pieces::ALL, Pieces::name), "whether pieces move while others are coded (`pipelined`, the default), or a part of a cache is coded, moved and decoded one after the other (`sequential`)";
    prefix_cache: u64 = integer(0..=CACHE_LIMIT), "tokens of earlier prompts that each prefill instance keeps, in blocks of a trace; 0 by default";
    weight_dtype: DType = choice("dtype", &DType::ALL, DType::name), "type of the weights; `BF16` by default";
    kv_dtype: DType = choice("dtype", &DType::ALL, DType::name), "type of keys and values; `BF16` by default";
    handshake: f64 = time(), "time before the first transfer of each request; none by default";
    slo: Slo = custom(read_slo, || table(SLO.all)), "what users are promised, for goodput; nothing by default";
    lost: Raw = raw(lost_schema), "instances that are gone from a moment on; none by default";
    cancelled: Raw = raw(cancelled_schema), "requests that nobody wants any more from a moment on; none by default";
    until: f64 = time(), "when the run ends, whoever is still served; by default when all have been";
    payload: Raw = raw(payload::caches_schema), "what caches hold, of type `kv_dtype`: tensors `keys` and `values`, or `latent`";
}

keys! { static SLO =
    ttft: f64 = time(), "time to the first token";
    tpot: f64 = time(), "mean time between tokens";
    e2e: f64 = time(), "time to the last token";
}

static GROUPED: Carried = Carried { tensors: &[TENSORS.keys, TENSORS.values], always: 2 };
static LATENT: Carried = Carried { tensors: &[TENSORS.latent], always: 1 };

fn read_slo(field: &Field<'_>) -> Result<Slo> {
    let table = field.table(SLO.all)?;
    let limit = |key: &Key<f64>| -> Result<Option<f64>> {
        let seconds = table.get(key)?;
        if seconds == Some(0.0) {
            // No request could keep it, and goodput would be zero whatever is compared.
            return Err(table.need_field(key)?.out_of_range("0 s", "more than 0 s"));
        }
        Ok(seconds)
    };
    Ok(Slo { ttft_s: limit(SLO.ttft)?, tpot_s: limit(SLO.tpot)?, e2e_s: limit(SLO.e2e)? })
}

fn rules() -> Vec<Rule> {
    vec![
        Rule::one_of(&[KEYS.trace, KEYS.arrivals, KEYS.requests]),
        Condition::Has(KEYS.arrivals)
            .refuses(&[KEYS.prefix_cache], "requests that are drawn have no prefixes in common"),
        Condition::Has(KEYS.requests)
            .refuses(&[KEYS.prefix_cache], "requests that are listed have no prefixes in common"),
    ]
}

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(&Kind::Serving.keys(KEYS.all))?;
    table.check(&rules())?;
    if context.iterations != 1 {
        return Err(field.error(ServingProblem::Iterations { iterations: context.iterations }.into()));
    }
    let model = table.need(KEYS.model)?;
    let dtype = table.get(KEYS.kv_dtype)?.unwrap_or(DType::Bf16);
    let weight_dtype = table.get(KEYS.weight_dtype)?.unwrap_or(DType::Bf16);
    let (prefill, decode) = (table.need(KEYS.prefill)?, table.need(KEYS.decode)?);
    let mut remarks = Vec::new();
    for (key, pool) in [(KEYS.prefill, &prefill), (KEYS.decode, &decode)] {
        remarks.extend(pool.check(&table.need_field(key)?, &model, weight_dtype, context.gpu_memory)?);
    }
    let (shards, geometry) = cache(&model, dtype, [&prefill, &decode], field)?;
    let geometry = in_pieces(geometry, &table)?;
    let ranks = shards.ranks(decode.instances);
    if ranks > context.ranks {
        let problem = ServingProblem::Ranks { needed: ranks, found: context.ranks };
        return Err(field.error(problem.into()));
    }
    let layer_groups = read_layer_groups(&table, &model)?;
    let requests = read_requests(&table, context, &mut remarks)?;
    let block_tokens = u64::from(requests.block_tokens());
    let config = Config {
        prefill: prefill.pool(&model, &shards, dtype),
        decode: decode.pool(&model, &shards, dtype),
        placement: table.get(KEYS.placement)?.unwrap_or_default(),
        moves: table.get(KEYS.transfer)?.unwrap_or_default(),
        first_token: table.get(KEYS.first_token)?.unwrap_or_default(),
        layer_groups,
        chunk_tokens: table.get(KEYS.chunk)?.unwrap_or(8192),
        cached_blocks: table.get(KEYS.prefix_cache)?.unwrap_or(0) / block_tokens,
    };
    for (pool, name) in [(&config.prefill, KEYS.prefill.name), (&config.decode, KEYS.decode.name)] {
        if pool.kv_tokens == 0 {
            let problem = ServingProblem::NoMemory { pool: name };
            return Err(field.error(problem.into()));
        }
    }
    let troubles = read_troubles(table.field(KEYS.lost), table.field(KEYS.cancelled), &requests, &config)?;
    let compute = context.compute.as_ref().expect("the kind needs it");
    let compute = pools::read_compute(compute, &model, [dtype, weight_dtype], [&prefill, &decode])?;
    let planes = geometry.planes();
    let rows = read_payload(table.field(KEYS.payload), planes, dtype, context.files)?;
    let serving = Serving {
        requests: Arc::new(requests),
        remarks,
        config,
        compute,
        shards,
        geometry,
        slo: table.get(KEYS.slo)?.unwrap_or_default(),
        handshake_s: table.get(KEYS.handshake)?.unwrap_or(0.0),
        is_pipelined: table.get(KEYS.pieces)? != Some(Pieces::Sequential),
        troubles,
        until_s: table.get(KEYS.until)?,
    };
    // The payload has keys and values, although no segment of a job carries them.
    let tensors = (0..planes).map(Some).collect();
    let work = ExperimentWork::Serving(serving);
    Ok(Workload { work, dtypes: vec![dtype], rows, tensors, fp8_values: None })
}

/// The cache in pieces of as many tokens as the table says.
fn in_pieces(geometry: Geometry, table: &Reader<'_>) -> Result<Geometry> {
    let Some(field) = table.field(KEYS.piece) else { return Ok(geometry) };
    let piece = table.need(KEYS.piece)?;
    let refused = |why: String| problem(&field, ServingProblem::Geometry { why });
    geometry.with_group_tokens(piece).map_err(|source| refused(source.to_string()))
}

fn read_layer_groups(table: &Reader<'_>, model: &Architecture) -> Result<u32> {
    let Some(field) = table.field(KEYS.layer_groups) else { return Ok(4.min(model.layers)) };
    let groups = field.integer_u32(1..=GROUP_LIMIT)?;
    if groups > model.layers {
        let limits = format!("at most {}, the layers of the model", model.layers);
        return Err(field.out_of_range(groups, limits));
    }
    Ok(groups)
}

/// Reads the requests; remarks on them go to `remarks`.
fn read_requests(table: &Reader<'_>, context: &Context<'_>, remarks: &mut Vec<String>) -> Result<Requests> {
    if let Some(field) = table.field(KEYS.trace) {
        trace::read(&field, context.files, remarks)
    } else if let Some(field) = table.field(KEYS.arrivals) {
        arrivals::read(&field, context.seed)
    } else {
        arrivals::read_list(&table.need_field(KEYS.requests)?)
    }
}

fn read_payload(
    field: Option<Field<'_>>,
    planes: usize,
    dtype: DType,
    files: &Files,
) -> Result<Option<Rowset>> {
    if let Some(field) = field.as_ref().filter(|field| field.as_string().is_none()) {
        check_tensors(field, planes == 1)?;
    }
    let carried = if planes == 1 { &LATENT } else { &GROUPED };
    carried.read(field, planes, dtype, files)
}

/// Refuses tensors that the caches of the model are not made of.
fn check_tensors(payload: &Field<'_>, is_latent: bool) -> Result<()> {
    let others: &[&dyn AnyKey] = if is_latent { &[TENSORS.keys, TENSORS.values] } else { &[TENSORS.latent] };
    for key in others {
        if let Some(field) = payload.peek(*key)? {
            return Err(problem(&field, ServingProblem::Tensors { tensor: key.name(), is_latent }));
        }
    }
    Ok(())
}

pub(super) fn schema() -> Schema {
    Kind::Serving.table(KEYS.all).with(rules())
}

/// Whether a codec can code caches.
pub(crate) fn check_caches(serving: &Serving, choice: &CodecChoice) -> std::result::Result<(), Problem> {
    let coded = KvCodec::new(serving.geometry, choice.spec.clone());
    coded.map(|_| ()).map_err(|error| {
        ServingProblem::Codec { codec: choice.spec.to_string(), why: error.to_string() }.into()
    })
}

/// The error of a problem with what a key says.
fn problem(field: &Field<'_>, problem: ServingProblem) -> crate::error::ScenarioError {
    field.error(Problem::from(problem))
}

keys! { static LOST =
    prefill: u32 = integer(0..=u32::MAX), "a prefill instance, from 0", example = "0";
    decode: u32 = integer(0..=u32::MAX), "a decode instance, from 0", example = "0";
    at: f64 = time(), "since when", needed = "\"1 s\"";
}

keys! { static CANCELLED =
    request: u32 = integer(0..=u32::MAX), "the request, from 0 in the order of arrival", needed = "0";
    at: f64 = time(), "since when", needed = "\"1 s\"";
}

fn one_instance() -> Rule {
    Rule::one_of(&[LOST.prefill, LOST.decode])
}

fn lost_schema() -> Schema {
    array(table(LOST.all).with(vec![one_instance()]))
}

fn cancelled_schema() -> Schema {
    array(table(CANCELLED.all))
}

/// Reads both, in the order of time.
fn read_troubles(
    lost: Option<Field<'_>>,
    cancelled: Option<Field<'_>>,
    requests: &Requests,
    config: &Config,
) -> Result<Vec<Trouble>> {
    let mut troubles = Vec::new();
    for item in lost.map(|field| field.array()).transpose()?.unwrap_or_default() {
        let table = item.table(LOST.all)?;
        table.check(&[one_instance()])?;
        let at_s = table.need(LOST.at)?;
        let what = match table.field(LOST.prefill) {
            Some(field) => Loss::Prefill(below(&field, config.prefill.instances, "prefill instances")?),
            None => {
                let field = table.need_field(LOST.decode)?;
                Loss::Decode(below(&field, config.decode.instances, "decode instances")?)
            }
        };
        troubles.push(Trouble { at_s, what });
    }
    for item in cancelled.map(|field| field.array()).transpose()?.unwrap_or_default() {
        let table = item.table(CANCELLED.all)?;
        let request = below(&table.need_field(CANCELLED.request)?, requests.len() as u32, "requests")?;
        let at_s = table.need(CANCELLED.at)?;
        troubles.push(Trouble { at_s, what: Loss::Request(RequestId(request)) });
    }
    troubles.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    Ok(troubles)
}

/// Index of one of `count` things, from 0.
fn below(field: &Field<'_>, count: u32, what: &str) -> Result<u32> {
    let index = field.integer_u32(0..=u32::MAX)?;
    if index < count {
        return Ok(index);
    }
    Err(field.out_of_range(index, format!("less than {count}, the number of {what}")))
}

/// Everything about serving that is not the cluster's, a codec's or the payload's.
#[derive(Clone, Debug, PartialEq)]
pub struct Serving {
    /// The requests.
    pub requests: Arc<Requests>,
    /// Remarks for readers of results, each a sentence without a full stop: caches without room, requests that a trace has and that were left
    /// out, and doubts about a trace.
    pub remarks: Vec<String>,
    /// Pools and rules.
    pub config: Config,
    /// Compute time of prefill and decode.
    pub compute: ComputeTime,
    /// Which rank sends what of a cache to which.
    pub shards: Shards,
    /// Layout of a shard: its heads of keys and values, or the latent. Groups are coded separately.
    pub geometry: Geometry,
    /// Latencies that users are promised.
    pub slo: Slo,
    /// Seconds before the first flow of each request, in which both ends agree.
    pub handshake_s: f64,
    /// Whether pieces move while others are coded.
    pub is_pipelined: bool,
    /// Losses of instances and cancelled requests, in the order of time.
    pub troubles: Vec<Trouble>,
    /// End of the run, even if requests are still served.
    pub until_s: Option<f64>,
}
