//! Reads the settings that all training workloads have, and collects the segments of an iteration, how long its compute phases take, and which tensor each call carries.

use std::fmt::Display;

use zipwire_codec::DType;
use zipwire_schedule::{Channel, Durations, Job, Rank, Segment, Slot, Work};

use crate::compute::{Compute, Pass};
use crate::error::Result;
use crate::language::{AnyKey, BYTES_LIMIT, Field, Key, Keys, Reader, custom, integer, keys};
use crate::model::{self, Architecture, Needs, TOKEN_LIMIT, Tokens, check_heads, check_memory};
use crate::noise::Noise;
use crate::payload::Rowset;
use crate::problem::Problem;
use crate::skew::{Shape, Skew};
use crate::workload::check_durations;
use crate::workload::{Context, Kind, Workload};

/// An iteration in the making.
pub(super) struct Builder<'a> {
    context: &'a Context<'a>,
    skew: Option<Skew>,
    noise: Noise,
    slots: Vec<&'static str>,
    segments: Vec<Segment>,
    times: Vec<Time>,
    /// The tensor of the payload that each segment carries; `None` for compute phases.
    tensors: Vec<Option<usize>>,
}

/// Seconds of a segment.
#[derive(Clone, Debug)]
pub(super) enum Time {
    /// The same on every rank.
    Equal(f64),
    PerRank(Vec<f64>),
    /// Drawn, before phases that take this many seconds.
    Skew(f64),
    /// Before a call, whose time is not known.
    Unknown,
}

/// Slots that a compute phase uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uses<'a> {
    pub(super) reads: &'a [Slot],
    pub(super) writes: &'a [Slot],
}

impl<'a> Builder<'a> {
    pub(super) fn new(context: &'a Context<'a>, settings: &Settings) -> Self {
        let (slots, segments, times, tensors) = Default::default();
        let (skew, noise) = (settings.skew, settings.compute.noise);
        Self { context, skew, noise, slots, segments, times, tensors }
    }

    /// A new buffer of every rank.
    pub(super) fn slot(&mut self, name: &'static str) -> Slot {
        self.slots.push(name);
        Slot(u32::try_from(self.slots.len() - 1).expect("slots are counted in 32 bits"))
    }

    /// A delay in front of phases that take `compute_s` on average, if there is skew. It uses what they use: otherwise a
    /// rank would be late during the call before.
    pub(super) fn skew(&mut self, name: impl Display, compute_s: f64, uses: Uses<'_>) {
        if self.skew.is_some() && compute_s > 0.0 {
            self.compute(format!("{name} skew"), "skew", Time::Skew(compute_s), uses);
        }
    }

    /// A compute phase; `phase` is what it is without its layer.
    pub(super) fn compute(
        &mut self,
        name: impl Display,
        phase: &'static str,
        time: Time,
        Uses { reads, writes }: Uses<'_>,
    ) {
        let work = Work::Compute { phase, reads: reads.to_vec(), writes: writes.to_vec() };
        self.push(Segment::new(name.to_string(), work), time, None);
    }

    /// A compute phase that takes as long on every rank, with a delay in front of it, if there is skew.
    pub(super) fn phase(&mut self, name: &str, phase: &'static str, seconds: f64, uses: Uses<'_>) {
        self.skew(name, seconds, uses);
        self.compute(name, phase, Time::Equal(seconds), uses);
    }

    /// A collective call that carries the rows of a tensor of the payload.
    pub(super) fn call(&mut self, name: impl Display, work: Work, channel: Channel, tensor: usize) {
        let segment = Segment { channel, ..Segment::new(name.to_string(), work) };
        self.push(segment, Time::Unknown, Some(tensor));
    }

    /// Whether ranks begin to compute at different times.
    pub(super) fn has_skew(&self) -> bool {
        self.skew.is_some()
    }

    /// A segment, how long it takes, and the tensor that it carries.
    pub(super) fn push(&mut self, segment: Segment, time: Time, tensor: Option<usize>) {
        self.segments.push(segment);
        self.times.push(time);
        self.tensors.push(tensor);
    }

    /// The workload, of the kind that `field` describes.
    pub(super) fn finish(
        self,
        kind: &'static str,
        field: &Field<'_>,
        dtypes: Vec<DType>,
        rows: Option<Rowset>,
    ) -> Result<Workload> {
        let Context { iterations, ranks, seed, .. } = *self.context;
        let has_noise = self.skew.is_some() || self.noise != Noise::default();
        let drawn = |(time, segment): (&Time, &Segment)| {
            let groups = segment.groups(ranks);
            match time {
                Time::PerRank(_) => u64::from(ranks),
                Time::Equal(_) | Time::Skew(_) if has_noise => u64::from(groups.count() * groups.size()),
                Time::Equal(_) | Time::Skew(_) | Time::Unknown => 1,
            }
        };
        check_durations(iterations, self.times.iter().zip(&self.segments).map(drawn).sum(), field)?;
        let mut durations = Durations::zeros(iterations, self.segments.len(), ranks);
        let set = |durations: &mut Durations, segment, seconds: &dyn Fn(usize) -> f64| {
            for (iteration, rank) in (0..iterations).flat_map(|i| (0..ranks).map(move |rank| (i, Rank(rank))))
            {
                durations.set(iteration, segment, rank, seconds(rank.index()));
            }
        };
        for (segment, time) in self.times.iter().enumerate() {
            match time {
                Time::Equal(seconds) => {
                    (0..iterations).for_each(|iteration| durations.set_all(iteration, segment, *seconds));
                }
                Time::PerRank(seconds) => set(&mut durations, segment, &|rank| seconds[rank]),
                Time::Skew(_) | Time::Unknown => {}
            }
        }
        for (segment, (time, work)) in self.times.iter().zip(&self.segments).enumerate() {
            let shape = Shape { iterations, among: work.groups(ranks) };
            match (time, self.skew) {
                (Time::Equal(_) | Time::PerRank(_), _) => {
                    self.noise.apply(segment, seed, shape, &mut durations);
                }
                (Time::Skew(compute_s), Some(skew)) => {
                    skew.draw(*compute_s, segment, seed, shape, &mut durations);
                }
                (Time::Skew(_) | Time::Unknown, _) => {}
            }
        }
        let job = Job { name: kind, rank_count: ranks, slots: self.slots, segments: self.segments };
        Ok(Workload::new(job, durations, dtypes, rows, self.tensors))
    }
}

/// No rank sends or receives more than the limit in a call.
pub(super) fn check_call(bytes: u64, field: &Field<'_>) -> Result<()> {
    check("bytes of a call on one rank", bytes, BYTES_LIMIT, field)
}

pub(super) fn check(what: &str, value: u64, limit: u64, field: &Field<'_>) -> Result<()> {
    if value <= limit {
        return Ok(());
    }
    Err(field.error(Problem::out_of_range(what, value, format!("at most {limit}"))))
}

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
        check_fit(&table.need_field(model_key(kind))?, &model, kind, context)?;
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
            Kind::Training => Compute::of_all(field)?,
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

    pub(super) fn prefix(&self, micro_batch: u32) -> String {
        if self.micro_batches > 1 { format!("M{micro_batch} ") } else { String::new() }
    }
}

/// Refuses a model whose BF16 weights alone are more than the ranks have memory for, and under `tp` one whose heads they cannot share.
fn check_fit(field: &Field<'_>, model: &Architecture, kind: Kind, context: &Context<'_>) -> Result<()> {
    let (width, ranks) = (DType::Bf16.width(), context.ranks);
    if kind == Kind::Tp {
        check_heads(field, model, ranks)?;
    }
    let weights = match kind {
        // Its dimensions say who has what.
        Kind::Training => return Ok(()),
        Kind::Dp => model.rank_bytes(width, 1),
        Kind::MoeTraining => model.rank_bytes_of_experts(width, ranks),
        _ => model.rank_bytes(width, ranks),
    };
    check_memory(field, weights, context.gpu_memory)
}

fn model_key(kind: Kind) -> &'static Key<Architecture> {
    if kind == Kind::MoeTraining { MODEL.of_experts } else { MODEL.of_layers }
}
