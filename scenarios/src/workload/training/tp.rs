//! Kind `tp`: every layer is split over all ranks, which compute on the same tokens.
//!
//! Attention is split by heads and the MLP by columns and then rows, so each needs one All-Reduce of its output forward, and
//! one of the gradient of its input backward (Megatron-LM, arXiv:1909.08053, sec. 3). Nothing can overlap them: what follows
//! needs the sums.

use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Channel, Slot, Work};

use super::super::{Context, Kind, Workload};
use super::builder::{Builder, Phase, Settings, Uses, check_call};
use crate::compute::Pass;
use crate::error::Result;
use crate::language::{AnyKey, Field, Raw, keys, raw};
use crate::model::VALUE_BYTES;
use crate::payload::{Carried, TENSORS};

keys! { static KEYS =
    payload: Raw = raw(|| CARRIED.schema()), "what is sent";
}

static CARRIED: Carried = Carried { tensors: &[TENSORS.activations, TENSORS.gradients], always: 2 };

pub(super) fn keys() -> Vec<&'static dyn AnyKey> {
    Settings::keys(Kind::Tp, &[], KEYS.all)
}

/// Positions in the tensors.
const ACTIVATIONS: usize = 0;
const GRADIENTS: usize = 1;

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(&Kind::Tp.keys(&keys()))?;
    let settings = Settings::read(&table, Kind::Tp, context)?;
    let dtypes = vec![DType::Bf16];
    let rows = CARRIED.read(table.field(KEYS.payload), 2, DType::Bf16, context.files)?;
    check_call(activation_bytes(&settings), field)?;

    let mut builder = Builder::new(context, &settings);
    let slots = [builder.slot("partial"), builder.slot("summed")];
    let mut iteration = Iteration { settings: &settings, ranks: context.ranks, builder, slots };
    (0..settings.micro_batches).for_each(|micro_batch| iteration.micro_batch(micro_batch));
    iteration.builder.finish(Kind::Tp.name(), field, dtypes, rows)
}

/// Bytes of the values of all tokens behind a layer.
fn activation_bytes(settings: &Settings) -> u64 {
    settings.tokens.total() * u64::from(settings.model.hidden) * VALUE_BYTES
}

struct Iteration<'a> {
    settings: &'a Settings,
    ranks: u32,
    builder: Builder<'a>,
    /// A rank's partial sum, and the sum.
    slots: [Slot; 2],
}

impl Iteration<'_> {
    fn micro_batch(&mut self, micro_batch: u32) {
        let Settings { model, tokens, compute, .. } = self.settings;
        let prefix = self.settings.prefix(micro_batch);
        for layer in 0..model.layers {
            for phase in self.phases(layer, Pass::Forward) {
                let name = format!("{prefix}L{layer} {}", phase.name);
                self.phase(&name, phase);
                self.sum(&name, ACTIVATIONS);
            }
        }
        let head_s = compute.head_s(model.head_flops(*tokens) / f64::from(self.ranks));
        if head_s > 0.0 {
            self.phase(&format!("{prefix}head"), Phase { name: "head", seconds: head_s });
        }
        for layer in (0..model.layers).rev() {
            for phase in self.phases(layer, Pass::Backward) {
                let name = format!("{prefix}L{layer} {}", phase.name);
                self.phase(&name, phase);
                self.sum(&name, GRADIENTS);
            }
        }
    }

    /// The phases of a rank, in the order of the pass; behind each of them ranks sum.
    fn phases(&self, layer: u32, pass: Pass) -> [Phase; 2] {
        let flops = self.settings.model.layer_flops(layer, self.settings.tokens);
        let total = flops.total();
        let seconds = self.settings.compute.dense(total / f64::from(self.ranks)).seconds(pass);
        let attention = seconds * flops.attention / total;
        let mlp = seconds - attention;
        let phase = |name, seconds| Phase { name, seconds };
        match pass {
            Pass::Forward => [phase("attention", attention), phase("mlp", mlp)],
            Pass::Backward => [phase("mlp backward", mlp), phase("attention backward", attention)],
        }
    }

    fn phase(&mut self, name: &str, phase: Phase) {
        let [_, summed] = self.slots;
        let uses = Uses { reads: &[summed], writes: &self.slots };
        self.builder.phase(name, phase.name, phase.seconds, uses);
    }

    fn sum(&mut self, phase: &str, tensor: usize) {
        let ([input, output], bytes) = (self.slots, activation_bytes(self.settings));
        let work = Work::Call { dtype: DType::Bf16, input, output, kind: CallKind::AllReduce { bytes } };
        self.builder.call(format!("{phase} all-reduce"), work, Channel::Main, tensor);
    }
}
