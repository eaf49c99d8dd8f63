//! Kind `moe-training`: experts are spread over all ranks, everything else is on each of them.
//!
//! Forward, a layer computes attention and gate, sends each token to the ranks of its experts (dispatch), computes the
//! experts, and sends the results back (combine). Backward, the calls come in reverse: gradients of what combine brought go
//! to the experts, with dispatch's bytes, and those of what dispatch brought go back, with combine's. Gradients of
//! parameters that all ranks have are summed over the ranks; experts live on one rank and keep theirs.
//!
//! All experts of a token get the same gradient, as they got the same token: weights of the gate are applied where experts are.

use std::sync::Arc;

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Channel, Slot, TokenMap, Work};

use super::super::{Context, Kind, Workload};
use super::builder::{Builder, Phase, Settings, Time, Uses, check, check_call};
use super::gradients::{self, Sums, Unit, When, read_dtype, read_when};
use crate::compute::Pass;
use crate::dispatch::{self, DispatchRow};
use crate::error::Result;
use crate::language::{AnyKey, Field, Raw, keys, raw};
use crate::model::{self, VALUE_BYTES};
use crate::payload::{Carried, Rowset, TENSORS};
use crate::placement::Experts;
use crate::routing::tokens::{self, Rows};
use crate::routing::{self, OF_EXPERTS, Place};

keys! { static KEYS =
    payload: Raw = raw(|| CARRIED.schema()), "what is sent";
}

static CARRIED: Carried =
    Carried { tensors: &[TENSORS.dispatch, TENSORS.combine, TENSORS.gradients], always: 2 };

pub(super) fn keys() -> Vec<&'static dyn AnyKey> {
    let own = [OF_EXPERTS.all, gradients::KEYS.all, dispatch::KEYS.all].concat();
    Settings::keys(Kind::MoeTraining, &own, KEYS.all)
}

/// Positions in the tensors.
const DISPATCH: usize = 0;
const COMBINE: usize = 1;
const GRADIENTS: usize = 2;

/// Most entries of the matrices of one call of each layer: those of all four are 4 GiB then.
const MATRIX_LIMIT: u64 = 1 << 27;

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(&Kind::MoeTraining.keys(&keys()))?;
    let settings = Settings::read(&table, Kind::MoeTraining, context)?;
    let when = read_when(&table, &When::ALL)?;
    if when == When::None {
        table.refuse(gradients::KEYS.gradient_dtype, "no gradient travels")?;
    }
    let dtype = read_dtype(&table)?;
    let row = DispatchRow::read(&table, settings.model.hidden)?;
    let ranks = context.ranks;
    let experts = table.field(OF_EXPERTS.experts);
    let experts = experts.map(|field| Experts::read(&field, sizes(&settings).count, ranks)).transpose()?;
    let experts = experts.unwrap_or_default();
    let routing = table.need_field(OF_EXPERTS.routing)?;
    let layers = u64::from(settings.model.layers - settings.model.dense_layers);
    let calls = layers * u64::from(settings.micro_batches);
    let rows_of_tokens =
        Rows::read(&table, copies_per_rank(&settings).saturating_mul(u64::from(ranks) * calls))?;
    let dispatches = dispatches(&routing, experts, rows_of_tokens, &settings, context)?;
    let (tensors, dtypes) = match when {
        When::None => (CARRIED.always, vec![DType::Bf16]),
        When::Overlapped | When::InOrder | When::Exposed => (CARRIED.tensors.len(), vec![DType::Bf16, dtype]),
    };
    let rows = CARRIED.read(table.field(KEYS.payload), tensors, DType::Bf16, context.files)?;

    let mut iteration = Iteration::new(&settings, row, (when, dtype), Builder::new(context, &settings));
    for (micro_batch, dispatches) in (0..).zip(&dispatches) {
        iteration.micro_batch(micro_batch, dispatches);
    }
    iteration.finish(field, dtypes, rows)
}

/// Token copies that ranks send to experts in one call.
struct Dispatch {
    /// Token copies from source rank (row) to destination rank.
    copies: Array2<u64>,
    /// Which tokens they are, if copies of one are equal.
    tokens: Option<Arc<TokenMap>>,
}

/// By micro-batch and then by layer with experts. The experts of a layer are placed once, by the tokens of all micro-batches.
fn dispatches(
    field: &Field<'_>,
    experts: Experts,
    rows: Rows,
    settings: &Settings,
    context: &Context<'_>,
) -> Result<Vec<Vec<Dispatch>>> {
    let (model, sizes, &Context { files, seed, ranks, .. }) = (&settings.model, sizes(settings), context);
    check_call(copies_per_rank(settings).saturating_mul(token_bytes(settings)), field)?;
    let layers = model.layers - model.dense_layers;
    let entries = u64::from(layers) * u64::from(settings.micro_batches) * u64::from(ranks) * u64::from(ranks);
    check("layers with experts x micro-batches x ranks x ranks", entries, MATRIX_LIMIT, field)?;

    let (tokens_per_rank, top_k) = (settings.tokens.total(), sizes.top_k);
    let shape = tokens::Shape { top_k, row_bytes: token_bytes(settings) };
    let mut dispatches: Vec<Vec<_>> = (0..settings.micro_batches).map(|_| Vec::new()).collect();
    for layer in 0..layers {
        let place = |micro_batch| Place::Layer { layer, micro_batch };
        let routed = |micro_batch| {
            let place = place(micro_batch);
            let context =
                routing::Context { files, seed, ranks, experts: sizes.count, tokens_per_rank, top_k, place };
            routing::read(field, &context)
        };
        let routed = (0..settings.micro_batches).map(routed).collect::<Result<Vec<_>>>()?;
        let load = |expert: usize| routed.iter().map(|routed| routed.counts.column(expert).sum()).sum();
        let loads: Vec<u64> = (0..sizes.count as usize).map(load).collect();
        let hosts = experts.place(&loads, ranks);
        for (micro_batch, routed) in (0..).zip(&routed) {
            let copies = hosts.between_ranks(&routed.counts);
            let tokens = (rows == Rows::Shared)
                .then(|| Arc::new(tokens::assign(routed, &hosts, shape, place(micro_batch), seed)));
            dispatches[micro_batch as usize].push(Dispatch { copies, tokens });
        }
    }
    Ok(dispatches)
}

/// Token copies that each rank sends in a call, its own experts included.
fn copies_per_rank(settings: &Settings) -> u64 {
    settings.tokens.total() * u64::from(sizes(settings).top_k)
}

fn sizes(settings: &Settings) -> model::Experts {
    settings.model.experts.expect("the reader of the model asks for experts")
}

fn token_bytes(settings: &Settings) -> u64 {
    u64::from(settings.model.hidden) * VALUE_BYTES
}

/// The segments so far, and the slots that they use.
struct Iteration<'a> {
    settings: &'a Settings,
    row: DispatchRow,
    builder: Builder<'a>,
    sums: Option<Sums>,
    /// Input of a layer's dispatch; backward, the gradient that returns from the experts.
    tokens: Slot,
    /// Input and output of the experts.
    expert: Slot,
    /// Output of the combine: the input of the next layer, and its gradient.
    combined: Slot,
}

impl<'a> Iteration<'a> {
    fn new(
        settings: &'a Settings,
        row: DispatchRow,
        (when, dtype): (When, DType),
        mut builder: Builder<'a>,
    ) -> Self {
        let [tokens, expert, combined] = ["tokens", "expert", "combined"].map(|name| builder.slot(name));
        let sums = Sums::new(&mut builder, when, dtype, GRADIENTS);
        Self { settings, row, builder, sums, tokens, expert, combined }
    }

    /// Forward and backward pass of one micro-batch; `dispatches` are those of the layers with experts.
    fn micro_batch(&mut self, micro_batch: u32, dispatches: &[Dispatch]) {
        let Settings { model, micro_batches, .. } = self.settings;
        let prefix = self.settings.prefix(micro_batch);
        let is_last = micro_batch + 1 == *micro_batches;
        let dispatch =
            |layer: u32| layer.checked_sub(model.dense_layers).map(|index| &dispatches[index as usize]);
        for layer in 0..model.layers {
            self.forward(&format!("{prefix}L{layer}"), layer, dispatch(layer));
        }
        self.head(&prefix, is_last);
        for layer in (0..model.layers).rev() {
            self.backward(&prefix, layer, dispatch(layer), is_last);
        }
    }

    fn forward(&mut self, name: &str, layer: u32, dispatch: Option<&Dispatch>) {
        let phases = self.settings.dense_phases(layer, Pass::Forward);
        self.stretch(name, &phases, self.combined, &[]);
        if let Some(dispatch) = dispatch {
            let row = (self.row.dtype, self.row.bytes());
            self.send_out(format!("{name} dispatch"), dispatch, row, [self.tokens, self.expert], DISPATCH);
            self.experts(name, layer, &dispatch.copies, Pass::Forward);
            self.send_back(format!("{name} combine"), dispatch, [self.expert, self.combined], COMBINE);
        }
    }

    /// Embedding, head and loss, where the passes meet. A phase even if it takes no time: the gradients that the last layer
    /// sends back begin here.
    fn head(&mut self, prefix: &str, is_last: bool) {
        let Settings { model, tokens, compute, .. } = self.settings;
        let phase = Phase { name: "head", seconds: compute.head_s(model.head_flops(*tokens)) };
        let gradients = vec![(format!("{prefix}head gradients"), model.vocabulary_parameters())];
        let units = self.units(is_last, gradients);
        self.stretch(prefix.trim_end(), &[phase], self.combined, &units);
        self.sum(units);
    }

    fn backward(&mut self, prefix: &str, layer: u32, dispatch: Option<&Dispatch>, is_last: bool) {
        let (model, name) = (&self.settings.model, format!("{prefix}L{layer}"));
        if let Some(dispatch) = dispatch {
            let call = |what| format!("{name} {what} backward");
            let row = (DType::Bf16, token_bytes(self.settings));
            self.send_out(call("combine"), dispatch, row, [self.combined, self.expert], COMBINE);
            self.experts(&name, layer, &dispatch.copies, Pass::Backward);
            self.send_back(call("dispatch"), dispatch, [self.expert, self.tokens], DISPATCH);
        }
        let mut gradients = vec![(format!("{name} gradients"), model.layer_parameters(layer).dense())];
        if layer == 0 {
            gradients.push((format!("{prefix}embedding gradients"), model.vocabulary_parameters()));
        }
        let units = self.units(is_last, gradients);
        let phases = self.settings.dense_phases(layer, Pass::Backward);
        self.stretch(&name, &phases, self.tokens, &units);
        self.sum(units);
    }

    /// Phases without a call in between: ranks are late once, in front of them. The last one leaves gradients.
    fn stretch(&mut self, layer: &str, phases: &[Phase], reads: Slot, units: &[Unit]) {
        let claimed = self.claimed();
        let kept = self.sums.as_ref().map(Sums::kept).unwrap_or_default();
        let gradients = units.iter().map(|unit| unit.slot).chain(kept);
        let all: Vec<Slot> = claimed.into_iter().chain(gradients).collect();
        let name = |phase: &Phase| format!("{layer} {}", phase.name).trim_start().to_owned();
        let total_s = phases.iter().map(|phase| phase.seconds).sum();
        let uses = Uses { reads: &[reads], writes: &claimed };
        if let Some(first) = phases.first() {
            self.builder.skew(name(first), total_s, uses);
        }
        for (index, phase) in phases.iter().enumerate() {
            let writes: &[Slot] = if index + 1 == phases.len() { &all } else { &claimed };
            self.builder.compute(
                name(phase),
                phase.name,
                Time::Equal(phase.seconds),
                Uses { writes, ..uses },
            );
        }
    }

    /// The time at mean load scaled by each rank's tokens, its own included, over the mean.
    fn experts(&mut self, layer_name: &str, layer: u32, copies: &Array2<u64>, pass: Pass) {
        let flops = self.settings.model.layer_flops(layer, self.settings.tokens).experts;
        let mean_s = self.settings.compute.experts(flops).seconds(pass);
        let phase = if pass == Pass::Forward { "experts" } else { "experts backward" };
        let name = format!("{layer_name} {phase}");
        let claimed = self.claimed();
        let uses = Uses { reads: &[self.expert], writes: &claimed };
        self.builder.skew(&name, mean_s, uses);
        let mean = copies.sum() as f64 / copies.ncols() as f64;
        let seconds = copies.columns().into_iter().map(|column| mean_s * (column.sum() as f64 / mean));
        self.builder.compute(name, phase, Time::PerRank(seconds.collect()), uses);
    }

    /// Phases and the calls between them follow one another on each rank: a phase claims what they use, so that none overlaps
    /// it, also where a rank sends or receives nothing.
    fn claimed(&self) -> [Slot; 3] {
        [self.tokens, self.expert, self.combined]
    }

    /// Sends rows of `dtype` and `row_bytes` bytes to the experts.
    fn send_out(
        &mut self,
        name: String,
        dispatch: &Dispatch,
        (dtype, row_bytes): (DType, u64),
        [input, output]: [Slot; 2],
        tensor: usize,
    ) {
        let bytes = &dispatch.copies * row_bytes;
        let tokens = dispatch.tokens.as_ref().map(|tokens| Arc::new(tokens.with_row_bytes(row_bytes)));
        let work =
            Work::Call { dtype, input, output, kind: CallKind::AllToAll { bytes: bytes.into(), tokens } };
        self.builder.call(name, work, Channel::Main, tensor);
    }

    /// Sends the copies of a dispatch back to where they came from. No two rows are equal: each is of another expert.
    fn send_back(&mut self, name: String, dispatch: &Dispatch, [input, output]: [Slot; 2], tensor: usize) {
        let bytes = dispatch.copies.t().as_standard_layout().into_owned() * token_bytes(self.settings);
        let work = Work::of_call(
            DType::Bf16,
            [input, output],
            CallKind::AllToAll { bytes: bytes.into(), tokens: None },
        );
        self.builder.call(name, work, Channel::Main, tensor);
    }

    /// Slots for gradients that are there at the end of the next phase, if the ranks sum them then.
    fn units(&mut self, is_last: bool, gradients: Vec<(String, u64)>) -> Vec<Unit> {
        if !is_last || self.sums.is_none() {
            return Vec::new();
        }
        let gradients = gradients.into_iter().filter(|(_, values)| *values > 0);
        let builder = &mut self.builder;
        gradients.map(|(name, values)| Unit { name, values, slot: builder.slot("gradients") }).collect()
    }

    fn sum(&mut self, units: Vec<Unit>) {
        if let Some(sums) = &mut self.sums {
            sums.take(&mut self.builder, units);
        }
    }

    fn finish(self, field: &Field<'_>, dtypes: Vec<DType>, rows: Option<Rowset>) -> Result<Workload> {
        let Self { mut builder, row, sums, .. } = self;
        if let Some(sums) = sums {
            sums.finish(&mut builder);
        }
        let workload = builder.finish(Kind::MoeTraining.name(), field, dtypes, rows)?;
        Ok(Workload { fp8_values: row.fp8_values(), ..workload })
    }
}
