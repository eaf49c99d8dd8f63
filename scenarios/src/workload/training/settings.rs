//! What all training workloads have: a model, what each rank computes on, how fast, and how late ranks are.

use super::super::{Context, Kind};
use crate::compute::{Compute, Pass};
use crate::error::Result;
use crate::model::{self, Architecture, Needs, TOKEN_LIMIT, Tokens};
use crate::problem::Problem;
use crate::reader::Reader;
use crate::schema::{Key, integer, needed, optional};
use crate::skew::Skew;

/// Most micro-batches of an iteration.
const MICRO_BATCH_LIMIT: u32 = 1024;

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
    /// What a rank computes on in a micro-batch.
    pub(super) tokens: Tokens,
    pub(super) micro_batches: u32,
    pub(super) compute: Compute,
    pub(super) skew: Option<Skew>,
}

impl Settings {
    pub(super) fn read(table: &Reader<'_>, kind: Kind, context: &Context<'_>) -> Result<Self> {
        let needs = needs(kind);
        let model = model::read(&table.need("model", example(kind))?, needs)?;
        let sequence_field = table.need("sequence", "1024")?;
        let sequence = sequence_field.integer(1..=TOKEN_LIMIT)?;
        let sequences = table.get("micro_batch").map_or(Ok(1), |field| field.integer(1..=TOKEN_LIMIT))?;
        let tokens = Tokens { sequence, sequences };
        // Both are small enough for their product to fit.
        if tokens.total() > TOKEN_LIMIT {
            let (path, value) = ("tokens of a rank in a micro-batch".to_owned(), tokens.total().to_string());
            let limits = format!("at most {TOKEN_LIMIT}: `sequence` x `micro_batch`");
            return Err(sequence_field.error(Problem::OutOfRange { path, value, limits }));
        }
        let micro_batches = match table.get("micro_batches") {
            Some(field) => field.integer_u32(1..=MICRO_BATCH_LIMIT)?,
            None => 1,
        };
        let skew = table.get("skew").map(|field| Skew::read(&field)).transpose()?;
        let field = context.compute.as_ref().expect("kinds that train need the table");
        let compute = match needs {
            Needs::Experts => Compute::of_experts(field)?,
            Needs::Nothing => Compute::of_layers(field)?,
        };
        Ok(Self { model, tokens, micro_batches, compute, skew })
    }

    /// The schema of what [`read`](Self::read) reads of a workload.
    pub(super) fn keys(kind: Kind) -> Vec<Key> {
        #[rustfmt::skip]
        let keys = vec![
            kind.key(),
            needed("model", "sizes of the model: a preset's name or a table", model::schema(needs(kind))),
            needed("sequence", "tokens of a sequence", integer(1..=TOKEN_LIMIT)),
            optional("micro_batch", "sequences that a rank computes on at a time; 1 by default", integer(1..=TOKEN_LIMIT)),
            optional("micro_batches", "forward and backward passes, one after the other, of an iteration; 1 by default", integer(1..=MICRO_BATCH_LIMIT)),
            optional("skew", "ranks begin to compute at different times", Skew::schema()),
        ];
        keys
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

    /// What names of segments begin with.
    pub(super) fn prefix(&self, micro_batch: u32) -> String {
        if self.micro_batches > 1 { format!("M{micro_batch} ") } else { String::new() }
    }
}

fn needs(kind: Kind) -> Needs {
    if kind == Kind::MoeTraining { Needs::Experts } else { Needs::Nothing }
}

fn example(kind: Kind) -> &'static str {
    if kind == Kind::MoeTraining { "\"qwen3-235b-a22b\"" } else { "\"llama3-8b\"" }
}
