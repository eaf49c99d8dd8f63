//! Kind `fsdp`: every rank has a shard of all parameters, gradients and optimizer state, and a micro-batch of its own.
//!
//! A layer is gathered before its forward pass and again before its backward pass, `prefetch` layers ahead of the one that
//! computes: gathered layers live in `prefetch` + 1 buffers that take turns. Gradients of a layer are scattered behind its
//! backward pass, beside those of the layers before it. Embedding, final norm and head are one unit, gathered at the start
//! of the iteration and kept (PyTorch FSDP, arXiv:2304.11277, sec. 3.3 and 4.3).

use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Channel, Slot, Work};

use super::super::{Context, Kind, Workload};
use super::builder::{Builder, Settings, Uses, check_call};
use super::gradients::{self, When, read_dtype, read_when};
use crate::compute::Pass;
use crate::error::Result;
use crate::language::{AnyKey, Field, Raw, Schema, integer, keys, raw};
use crate::payload::{Carried, TENSORS};

/// Positions in the tensors.
const PARAMETERS: usize = 0;
const GRADIENTS: usize = 1;

/// When gradients can be summed; by default as PyTorch's FSDP does, whose gathers and sums are calls of one communicator, one after the other.
const WHEN: &[When] = &[When::InOrder, When::Overlapped, When::None];

/// Most layers that are gathered ahead.
const PREFETCH_LIMIT: u32 = 1024;

keys! { static KEYS =
    prefetch: u32 = integer(0..=PREFETCH_LIMIT), "layers that are gathered ahead of the one that computes; 1 by default";
}

keys! { static PAYLOAD =
    payload: Raw = raw(|| CARRIED.schema()), "what is sent";
}

static CARRIED: Carried = Carried { tensors: &[TENSORS.parameters, TENSORS.gradients], always: 1 };

fn keys() -> Vec<&'static dyn AnyKey> {
    Settings::keys(Kind::Fsdp, &[KEYS.all, gradients::KEYS.all].concat(), PAYLOAD.all)
}

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(&Kind::Fsdp.keys(&keys()))?;
    let settings = Settings::read(&table, Kind::Fsdp, context)?;
    let prefetch = table.get(KEYS.prefetch)?.unwrap_or(1);
    let when = read_when(&table, WHEN)?;
    if when == When::None {
        table.refuse(gradients::KEYS.gradient_dtype, "no gradient travels")?;
    }
    let dtype = read_dtype(&table)?;
    let dtypes = vec![DType::Bf16, dtype];
    let tensors = if when == When::None { CARRIED.always } else { CARRIED.tensors.len() };
    let rows = CARRIED.read(table.field(PAYLOAD.payload), tensors, DType::Bf16, context.files)?;
    let largest = (0..settings.model.layers).map(|layer| settings.model.layer_parameters(layer).total());
    let largest = largest.chain([root_values(&settings)]).max().unwrap_or(0);
    check_call(largest * dtype.width().max(DType::Bf16.width()) as u64, field)?;

    let mut iteration = Iteration::new(&settings, prefetch, (when, dtype), context);
    iteration.build();
    iteration.builder.finish(Kind::Fsdp.name(), field, dtypes, rows)
}

pub(super) fn schema() -> Schema {
    let whens = WHEN.iter().map(|when| when.name());
    Kind::Fsdp.table(&keys()).only(gradients::KEYS.gradients.name, whens)
}

/// Embedding, final norm and head; 0 if they are left out.
fn root_values(settings: &Settings) -> u64 {
    let vocabulary = settings.model.vocabulary_parameters();
    if vocabulary == 0 { 0 } else { 2 * vocabulary + u64::from(settings.model.hidden) }
}

/// A pass over a layer, which needs its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    micro_batch: u32,
    layer: u32,
    is_backward: bool,
}

/// Where gathered parameters are: the rank's own shard, and those of the others.
#[derive(Clone, Copy, Debug)]
struct Gathered {
    own: Slot,
    others: Slot,
}

struct Iteration<'a> {
    settings: &'a Settings,
    ranks: u32,
    builder: Builder<'a>,
    dtype: DType,
    /// When gradients are scattered, if at all.
    when: When,
    /// All passes over layers, in order.
    uses: Vec<Use>,
    /// Gathered layers, by pass.
    gathered: Vec<Gathered>,
    root: Option<Gathered>,
    /// Buffers of gathered layers, used in turn.
    parameters: Vec<Slot>,
    /// Buffers of a layer's gradients, used in turn.
    gradients: [Slot; 2],
    root_gradients: Slot,
    /// Where the rank's own part of the sums is put; nothing reads it before the end of the iteration.
    sums: Slot,
}

impl<'a> Iteration<'a> {
    fn new(
        settings: &'a Settings,
        prefetch: u32,
        (when, dtype): (When, DType),
        context: &'a Context<'a>,
    ) -> Self {
        let mut builder = Builder::new(context, settings);
        let layers = settings.model.layers;
        let pass = |micro_batch| {
            let forward = (0..layers).map(|layer| (layer, false));
            let passes = forward.chain((0..layers).rev().map(|layer| (layer, true)));
            passes.map(move |(layer, is_backward)| Use { micro_batch, layer, is_backward })
        };
        let uses: Vec<Use> = (0..settings.micro_batches).flat_map(pass).collect();
        // More buffers than passes would stay empty.
        let buffers = (prefetch as usize + 1).min(uses.len());
        Self {
            settings,
            ranks: context.ranks,
            dtype,
            when,
            uses,
            gathered: Vec::new(),
            root: None,
            parameters: (0..buffers).map(|_| builder.slot("parameters")).collect(),
            gradients: [(); 2].map(|()| builder.slot("gradients")),
            root_gradients: builder.slot("root gradients"),
            sums: builder.slot("sums"),
            builder,
        }
    }

    fn build(&mut self) {
        let root = root_values(self.settings);
        if root > 0 {
            let others = self.builder.slot("root parameters");
            self.root = Some(self.gather("root all-gather", root, others));
        }
        (0..self.parameters.len()).for_each(|index| self.gather_layer(index));
        for index in 0..self.uses.len() {
            self.compute(index);
            let ahead = index + self.parameters.len();
            if ahead < self.uses.len() {
                self.gather_layer(ahead);
            }
        }
    }

    /// Gathers the layer of a pass, into the buffer whose turn it is.
    fn gather_layer(&mut self, index: usize) {
        let (Use { layer, .. }, name) = (self.uses[index], self.name(index));
        let values = self.settings.model.layer_parameters(layer).total();
        let others = self.parameters[index % self.parameters.len()];
        let what = if self.uses[index].is_backward { "all-gather backward" } else { "all-gather" };
        let gathered = self.gather(&format!("{name} {what}"), values, others);
        self.gathered.push(gathered);
    }

    fn gather(&mut self, name: &str, values: u64, others: Slot) -> Gathered {
        // Each call has a shard of its own to send, because payloads are drawn by call.
        let own = self.builder.slot("shard");
        let bytes = shards(values, self.ranks, DType::Bf16);
        let work = Work::of_call(DType::Bf16, [own, others], CallKind::AllGather { bytes });
        self.builder.call(name, work, Channel::Main, PARAMETERS);
        Gathered { own, others }
    }

    /// A pass over a layer, and what follows from it.
    fn compute(&mut self, index: usize) {
        let Use { micro_batch, layer, is_backward } = self.uses[index];
        let (settings, name) = (self.settings, self.name(index));
        if is_backward && layer + 1 == settings.model.layers {
            self.head(micro_batch);
        }
        let passes = settings.compute.dense(settings.model.layer_flops(layer, settings.tokens).total());
        let Gathered { own, others } = self.gathered[index];
        let mut reads = vec![own, others];
        reads.extend(self.root.filter(|_| layer == 0).into_iter().flat_map(|root| [root.own, root.others]));
        let (pass, phase) =
            if is_backward { (Pass::Backward, "backward") } else { (Pass::Forward, "forward") };
        let leaves_gradients = is_backward && self.when != When::None;
        let mut writes = Vec::new();
        if leaves_gradients {
            writes.push(self.gradients[index % 2]);
            writes.extend(self.root.filter(|_| layer == 0).map(|_| self.root_gradients));
        }
        let uses = Uses { reads: &reads, writes: &writes };
        self.builder.phase(&format!("{name} {phase}"), phase, passes.seconds(pass), uses);
        if leaves_gradients {
            let values = settings.model.layer_parameters(layer).total();
            self.scatter(&format!("{name} reduce-scatter"), values, self.gradients[index % 2]);
            if layer == 0 && self.root.is_some() {
                let name = format!("{}root reduce-scatter", settings.prefix(micro_batch));
                self.scatter(&name, root_values(settings), self.root_gradients);
            }
        }
    }

    fn head(&mut self, micro_batch: u32) {
        let Settings { model, tokens, compute, .. } = self.settings;
        let seconds = compute.head_s(model.head_flops(*tokens));
        let reads: Vec<Slot> = self.root.into_iter().flat_map(|root| [root.own, root.others]).collect();
        if seconds > 0.0 {
            let name = format!("{}head", self.settings.prefix(micro_batch));
            self.builder.phase(&name, "head", seconds, Uses { reads: &reads, writes: &[] });
        }
    }

    /// Sums gradients up; each rank gets the part that it has the parameters of.
    fn scatter(&mut self, name: &str, values: u64, input: Slot) {
        let bytes = shards(values, self.ranks, self.dtype);
        let work = Work::of_call(self.dtype, [input, self.sums], CallKind::ReduceScatter { bytes });
        self.builder.call(name, work, self.when.channel(), GRADIENTS);
    }

    fn name(&self, index: usize) -> String {
        let Use { micro_batch, layer, .. } = self.uses[index];
        format!("{}L{layer}", self.settings.prefix(micro_batch))
    }
}

/// Bytes of each rank's part of `values` values: as equal as whole values can be.
pub(super) fn shards(values: u64, ranks: u32, dtype: DType) -> Vec<u64> {
    let (each, more) = (values / u64::from(ranks), values % u64::from(ranks));
    let values = (0..u64::from(ranks)).map(|rank| each + u64::from(rank < more));
    values.map(|values| values * dtype.width() as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_whole_values_and_as_equal_as_can_be() {
        assert_eq!(shards(10, 4, DType::F32), [12, 12, 8, 8]);
        assert_eq!(shards(2, 4, DType::Bf16), [2, 2, 0, 0]);
        // ZipCCL's Llama 3 8B layer on 64 GPUs.
        assert_eq!(shards(218_112_000, 64, DType::Bf16), [6_816_000; 64]);
    }
}
