//! Kind `moe-training`: experts are spread over all ranks, everything else is on each of them.
//!
//! Forward, a layer computes attention and gate, sends each token to the ranks of its experts (dispatch), computes the
//! experts, and sends the results back (combine). Backward, the calls come in reverse: gradients of what combine brought go
//! to the experts, with dispatch's bytes, and those of what dispatch brought go back, with combine's. Gradients of
//! parameters are not summed here.

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_schedule::{Channel, Slot, Work};

use super::super::{Context, Kind, Workload};
use super::builder::{Builder, Time, Uses, check, check_call};
use super::settings::{Phase, Settings};
use crate::compute::Pass;
use crate::error::Result;
use crate::experts::Experts;
use crate::model::{self, VALUE_BYTES};
use crate::payload::Rowset;
use crate::reader::Field;
use crate::routing::{self, Place};
use crate::schema::{Schema, needed, optional, table};

const KEYS: &[&str] =
    &["kind", "model", "sequence", "micro_batch", "micro_batches", "routing", "experts", "skew", "payload"];

const PAYLOAD_KEYS: &[&str] = &["file", "dispatch", "combine", "gaussian"];
const TENSORS: &[&str] = &["dispatch", "combine"];

/// Positions in the tensors.
const DISPATCH: usize = 0;
const COMBINE: usize = 1;

/// Most entries of the matrices of one call of each layer: those of all four are 4 GiB then.
const MATRIX_LIMIT: u64 = 1 << 27;

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(KEYS)?;
    let settings = Settings::read(&table, Kind::MoeTraining, context)?;
    let ranks = context.ranks;
    let experts = table
        .get("experts")
        .map_or(Ok(Experts::default()), |field| Experts::read(&field, sizes(&settings).count, ranks))?;
    let tokens = routed(&table.need("routing", "\"uniform\"")?, experts, &settings, context)?;
    let dtypes = vec![DType::Bf16];
    let rows = table
        .get("payload")
        .map(|field| Rowset::read(&field, PAYLOAD_KEYS, TENSORS, &dtypes, context.files))
        .transpose()?;

    let mut iteration = Iteration::new(&settings, Builder::new(context, &settings));
    for (micro_batch, tokens) in (0..).zip(&tokens) {
        iteration.micro_batch(micro_batch, tokens);
    }
    iteration.builder.finish(Kind::MoeTraining.name(), field, dtypes, rows)
}

/// What [`read`] reads.
pub(super) fn schema() -> Schema {
    #[rustfmt::skip]
    let own = [
        needed("routing", "who sends how many tokens to which expert", routing::schema()),
        optional("experts", "on which ranks experts are; contiguous and none twice by default", Experts::schema()),
        optional("payload", "what is sent", Rowset::schema(PAYLOAD_KEYS, TENSORS)),
    ];
    table(KEYS, Settings::keys(Kind::MoeTraining).into_iter().chain(own))
}

/// Token copies from source rank (row) to destination rank, by micro-batch and then by layer with experts. The experts of a
/// layer are placed once, by the tokens of all micro-batches.
fn routed(
    field: &Field<'_>,
    experts: Experts,
    settings: &Settings,
    context: &Context<'_>,
) -> Result<Vec<Vec<Array2<u64>>>> {
    let (model, ranks, sizes) = (&settings.model, context.ranks, sizes(settings));
    let copies_per_rank = settings.tokens.total() * u64::from(sizes.top_k);
    check_call(copies_per_rank.saturating_mul(token_bytes(settings)), field)?;
    let layers = model.layers - model.dense_layers;
    let entries = u64::from(layers) * u64::from(settings.micro_batches) * u64::from(ranks) * u64::from(ranks);
    check("layers with experts x micro-batches x ranks x ranks", entries, MATRIX_LIMIT, field)?;

    let mut tokens = vec![Vec::new(); settings.micro_batches as usize];
    for layer in 0..layers {
        let counts = |micro_batch| {
            let place = Place::Layer { layer, micro_batch };
            let (files, seed) = (context.files, context.seed);
            let context =
                routing::Context { files, seed, ranks, experts: sizes.count, copies_per_rank, place };
            routing::read(field, &context)
        };
        let counts = (0..settings.micro_batches).map(counts).collect::<Result<Vec<_>>>()?;
        let load = |expert: usize| counts.iter().map(|counts| counts.column(expert).sum()).sum();
        let loads: Vec<u64> = (0..sizes.count as usize).map(load).collect();
        let hosts = experts.place(&loads, ranks);
        for (tokens, counts) in tokens.iter_mut().zip(&counts) {
            tokens.push(hosts.between_ranks(counts));
        }
    }
    Ok(tokens)
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
    builder: Builder<'a>,
    /// What a layer sends to the experts, and gets back backward.
    tokens: Slot,
    /// What experts get and give.
    expert: Slot,
    /// What comes back from the experts: the input of the next layer, and its gradient.
    combined: Slot,
}

impl<'a> Iteration<'a> {
    fn new(settings: &'a Settings, mut builder: Builder<'a>) -> Self {
        let [tokens, expert, combined] = ["tokens", "expert", "combined"].map(|name| builder.slot(name));
        Self { settings, builder, tokens, expert, combined }
    }

    /// Forward and backward pass of one micro-batch; `tokens` are those of the layers with experts.
    fn micro_batch(&mut self, micro_batch: u32, tokens: &[Array2<u64>]) {
        let model = &self.settings.model;
        let prefix = self.settings.prefix(micro_batch);
        let routed = |layer: u32| layer.checked_sub(model.dense_layers).map(|index| &tokens[index as usize]);
        for layer in 0..model.layers {
            self.forward(&format!("{prefix}L{layer}"), layer, routed(layer));
        }
        self.head(&prefix);
        for layer in (0..model.layers).rev() {
            self.backward(&format!("{prefix}L{layer}"), layer, routed(layer));
        }
    }

    fn forward(&mut self, name: &str, layer: u32, tokens: Option<&Array2<u64>>) {
        let phases = self.settings.dense_phases(layer, Pass::Forward);
        self.stretch(name, &phases, self.combined);
        if let Some(tokens) = tokens {
            self.all_to_all(format!("{name} dispatch"), tokens.clone(), [self.tokens, self.expert], DISPATCH);
            self.experts(name, layer, tokens, Pass::Forward);
            self.all_to_all(format!("{name} combine"), back(tokens), [self.expert, self.combined], COMBINE);
        }
    }

    /// Embedding, head and loss, where the passes meet. A phase even if it takes no time: the gradients that the last layer
    /// sends back begin here.
    fn head(&mut self, prefix: &str) {
        let Settings { model, tokens, compute, .. } = self.settings;
        let phase = Phase { name: "head", seconds: compute.head_s(model.head_flops(*tokens)) };
        self.stretch(prefix.trim_end(), &[phase], self.combined);
    }

    fn backward(&mut self, name: &str, layer: u32, tokens: Option<&Array2<u64>>) {
        if let Some(tokens) = tokens {
            let call = |what| format!("{name} {what} backward");
            self.all_to_all(call("combine"), tokens.clone(), [self.combined, self.expert], COMBINE);
            self.experts(name, layer, tokens, Pass::Backward);
            self.all_to_all(call("dispatch"), back(tokens), [self.expert, self.tokens], DISPATCH);
        }
        let phases = self.settings.dense_phases(layer, Pass::Backward);
        self.stretch(name, &phases, self.tokens);
    }

    /// Phases without a call in between: ranks are late once, in front of them.
    fn stretch(&mut self, layer: &str, phases: &[Phase], reads: Slot) {
        let claimed = self.claimed();
        let name = |phase: &Phase| format!("{layer} {}", phase.name).trim_start().to_owned();
        let total_s = phases.iter().map(|phase| phase.seconds).sum();
        let uses = Uses { reads: &[reads], writes: &claimed };
        if let Some(first) = phases.first() {
            self.builder.skew(name(first), total_s, uses);
        }
        for phase in phases {
            self.builder.compute(name(phase), phase.name, Time::Equal(phase.seconds), uses);
        }
    }

    /// The time at mean load scaled by each rank's tokens, its own included, over the mean.
    fn experts(&mut self, layer_name: &str, layer: u32, tokens: &Array2<u64>, pass: Pass) {
        let flops = self.settings.model.layer_flops(layer, self.settings.tokens).experts;
        let mean_s = self.settings.compute.experts(flops).seconds(pass);
        let phase = if pass == Pass::Forward { "experts" } else { "experts backward" };
        let name = format!("{layer_name} {phase}");
        let claimed = self.claimed();
        let uses = Uses { reads: &[self.expert], writes: &claimed };
        self.builder.skew(&name, mean_s, uses);
        let mean = tokens.sum() as f64 / tokens.ncols() as f64;
        let seconds = tokens.columns().into_iter().map(|column| mean_s * (column.sum() as f64 / mean));
        self.builder.compute(name, phase, Time::PerRank(seconds.collect()), uses);
    }

    /// Phases and the calls between them follow one another on each rank: a phase claims what they use, so that none overlaps
    /// it, also where a rank sends or receives nothing.
    fn claimed(&self) -> [Slot; 3] {
        [self.tokens, self.expert, self.combined]
    }

    fn all_to_all(&mut self, name: String, tokens: Array2<u64>, [input, output]: [Slot; 2], tensor: usize) {
        let bytes = tokens * token_bytes(self.settings);
        let work = Work::AllToAll { dtype: DType::Bf16, bytes, input, output };
        self.builder.call(name, work, Channel::Main, tensor);
    }
}

/// What goes back to where it came from.
fn back(tokens: &Array2<u64>) -> Array2<u64> {
    tokens.t().as_standard_layout().into_owned()
}
