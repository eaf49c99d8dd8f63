//! Settings of all training workloads: a model, the tokens of each rank, compute speed, and lateness of ranks.

use super::super::{Context, Kind};
use crate::compute::{Compute, Pass};
use crate::error::Result;
use crate::language::{AnyKey, Key, Keys, Reader, custom, integer, keys};
use crate::model::{self, Architecture, Needs, TOKEN_LIMIT, Tokens};
use crate::problem::Problem;
use crate::skew::Skew;

/// Most micro-batches of an iteration.
const MICRO_BATCH_LIMIT: u32 = 1024;

keys! { static KEYS =
    sequence: u64 = integer(1..=TOKEN_LIMIT), "tokens of a sequence", needed = "1024";
    micro_batch: u64 = integer(1..=TOKEN_LIMIT), "sequences that a rank computes on at a time; 1 by default";
    micro_batches: u32 = integer(1..=MICRO_BATCH_LIMIT), "forward and backward passes, one after the other, of an iteration; 1 by default";
}

keys! { static LATE =
    skew: Skew = custom(Skew::read, Skew::schema), "ranks begin to compute at different times";
}

// Which models there are depends on what is trained.
keys! { static MODEL =
    of_experts as "model": Architecture = custom(|field| model::read(field, Needs::Experts), || model::schema(Needs::Experts)), MODEL_ABOUT, needed = "\"qwen3-235b-a22b\"";
    of_layers as "model": Architecture = custom(|field| model::read(field, Needs::Nothing), || model::schema(Needs::Nothing)), MODEL_ABOUT, needed = "\"llama3-8b\"";
}
const MODEL_ABOUT: &str = "sizes of the model: a preset's name or a table";

/// Names of phases, forward and backward.
const ATTENTION: [&str; 2] = ["attention", "attention backward"];
const GATE: [&str; 2] = ["gate", "gate backward"];
const MLP: [&str; 2] = ["mlp", "mlp backward"];
const SHARED: [&str; 2] = ["shared experts", "shared experts backward"];

/// A part of a layer's computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase {
    /// Without the layer.
    pub(super) name: &'static str,
    pub(super) seconds: f64,
}

/// The settings.
pub(super) struct Settings {
    pub(super) model: Architecture,
    /// Tokens of a rank in a micro-batch.
    pub(super) tokens: Tokens,
    pub(super) micro_batches: u32,
    pub(super) compute: Compute,
    pub(super) skew: Option<Skew>,
}

impl Settings {
    pub(super) fn read(table: &Reader<'_>, kind: Kind, context: &Context<'_>) -> Result<Self> {
        let model = table.need(model_key(kind))?;
        let (sequence, sequences) = (table.need(KEYS.sequence)?, table.get(KEYS.micro_batch)?.unwrap_or(1));
        let tokens = Tokens { sequence, sequences };
        // Both are small enough for their product to fit.
        if tokens.total() > TOKEN_LIMIT {
            let limits = format!("at most {TOKEN_LIMIT}: `sequence` x `micro_batch`");
            let problem = Problem::out_of_range("tokens of a rank in a micro-batch", tokens.total(), limits);
            return Err(table.need_field(KEYS.sequence)?.error(problem));
        }
        let micro_batches = table.get(KEYS.micro_batches)?.unwrap_or(1);
        let skew = table.get(LATE.skew)?;
        let field = context.compute.as_ref().expect("kinds that train need the table");
        let compute = match kind {
            Kind::MoeTraining => Compute::of_experts(field)?,
            _ => Compute::of_layers(field)?,
        };
        Ok(Self { model, tokens, micro_batches, compute, skew })
    }

    /// The keys of a workload of a kind, with those of its own and `payload`.
    pub(super) fn keys(kind: Kind, own: Keys<'_>, payload: Keys<'_>) -> Vec<&'static dyn AnyKey> {
        [&[model_key(kind) as &dyn AnyKey], KEYS.all, own, LATE.all, payload].concat()
    }

    /// The phases of a layer without its routed experts, in the order of the pass.
    pub(super) fn dense_phases(&self, layer: u32, pass: Pass) -> Vec<Phase> {
        let flops = self.model.layer_flops(layer, self.tokens);
        let mlp = if flops.gate > 0.0 { SHARED } else { MLP };
        let parts = [(ATTENTION, flops.attention), (GATE, flops.gate), (mlp, flops.mlp)];
        let all_s = self.compute.dense(flops.dense()).seconds(pass);
        let phase = |([forward, backward], part): ([&'static str; 2], f64)| Phase {
            name: if pass == Pass::Forward { forward } else { backward },
            seconds: all_s * part / flops.dense(),
        };
        let phases = parts.into_iter().filter(|(_, part)| *part > 0.0).map(phase);
        match pass {
            Pass::Forward => phases.collect(),
            Pass::Backward => phases.rev().collect(),
        }
    }

    /// Prefix of the names of segments.
    pub(super) fn prefix(&self, micro_batch: u32) -> String {
        if self.micro_batches > 1 { format!("M{micro_batch} ") } else { String::new() }
    }
}

fn model_key(kind: Kind) -> &'static Key<Architecture> {
    if kind == Kind::MoeTraining { MODEL.of_experts } else { MODEL.of_layers }
}
