//! `[compute]`: how long the model computes, as times or from its operations.

use crate::error::Result;
use crate::noise::Noise;
use crate::reader::{Field, Reader};
use crate::schema::{Condition, Key, Rule, Schema, compute_rate, optional, table, time};

/// What workload `moe` computes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ExpertTime {
    /// Seconds of the expert computation at mean load.
    pub(crate) expert_s: f64,
    pub(crate) noise: Noise,
}

/// Seconds of a forward pass and of the backward pass behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Passes {
    pub(crate) forward_s: f64,
    pub(crate) backward_s: f64,
}

/// Forward or backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Forward,
    Backward,
}

impl Passes {
    /// Seconds of one of them.
    pub(crate) fn seconds(self, pass: Pass) -> f64 {
        match pass {
            Pass::Forward => self.forward_s,
            Pass::Backward => self.backward_s,
        }
    }
}

/// How fast ranks compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Compute {
    /// The part of a layer that is no routed expert.
    dense: Speed,
    /// The routed experts of a rank at mean load.
    experts: Speed,
    /// Least seconds of the dense part of a layer.
    floor: Passes,
    /// Embedding, head and loss, both passes, if their time is given.
    head_s: Option<f64>,
    pub(crate) noise: Noise,
}

/// How long something takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Speed {
    /// Floating-point operations per second.
    FlopsPerS(f64),
    /// Seconds of a forward pass, whatever is computed.
    Seconds(f64),
}

/// The backward pass computes gradients of inputs and of weights.
const BACKWARD_PER_FORWARD: f64 = 2.0;

const KEYS: &[&str] = &[
    "expert",
    "attention",
    "layer",
    "dense",
    "expert_gemm",
    "floor_forward",
    "floor_backward",
    "head",
    "noise",
];
const ONE_LAYER_KEYS: &[&str] = &["expert", "noise"];
const EXPERTS_KEYS: &[&str] =
    &["attention", "dense", "expert", "expert_gemm", "floor_forward", "floor_backward", "head", "noise"];
const EXPERT_TIMES: &[&str] = &["expert_gemm", "expert"];
const FLOORS: &[&str] = &["floor_forward", "floor_backward"];
const DENSE_KEYS: &[&str] = &["layer", "dense", "floor_forward", "floor_backward", "head", "noise"];

impl ExpertTime {
    /// Reads the table for workload `moe`; without one there is no time.
    pub(crate) fn read(field: Option<&Field<'_>>) -> Result<Self> {
        let Some(field) = field else { return Ok(Self::default()) };
        let table = field.table(ONE_LAYER_KEYS)?;
        let Some(expert) = table.get("expert") else {
            table.refuse("noise", "without `expert`, computation takes no time")?;
            return Ok(Self::default());
        };
        Ok(Self { expert_s: expert.time()?, noise: noise(&table)? })
    }
}

impl Compute {
    /// Reads the table for layers with experts on several ranks.
    pub(crate) fn of_experts(field: &Field<'_>) -> Result<Self> {
        let table = field.table(EXPERTS_KEYS)?;
        let experts = match table.one_of(EXPERT_TIMES)? {
            ("expert", field) => Speed::Seconds(field.time()?),
            (_, field) => Speed::FlopsPerS(field.compute_rate()?),
        };
        Self::read(&table, "attention", Some(experts))
    }

    /// Reads the table for layers that each rank computes alike.
    pub(crate) fn of_layers(field: &Field<'_>) -> Result<Self> {
        Self::read(&field.table(DENSE_KEYS)?, "layer", None)
    }

    /// `explicit` is the key of the time of a layer's dense part. Without a speed of their own, experts have that of the
    /// rest.
    fn read(table: &Reader<'_>, explicit: &'static str, experts: Option<Speed>) -> Result<Self> {
        let dense = match table.one_of(&["dense", explicit])? {
            ("dense", field) => Speed::FlopsPerS(field.compute_rate()?),
            (_, field) => {
                FLOORS.iter().try_for_each(|key| table.refuse(key, "the time of a layer is given"))?;
                Speed::Seconds(field.time()?)
            }
        };
        let time = |key| table.get(key).map_or(Ok(0.0), |field| field.time());
        let floor = Passes { forward_s: time("floor_forward")?, backward_s: time("floor_backward")? };
        let head_s = table.get("head").map(|field| field.time()).transpose()?;
        Ok(Self { dense, experts: experts.unwrap_or(dense), floor, head_s, noise: noise(table)? })
    }

    /// The dense part of a layer, of so many operations in its forward pass.
    pub(crate) fn dense(&self, flops: f64) -> Passes {
        let Passes { forward_s, backward_s } = self.dense.passes(flops);
        Passes {
            forward_s: forward_s.max(self.floor.forward_s),
            backward_s: backward_s.max(self.floor.backward_s),
        }
    }

    /// The routed experts of a rank at mean load.
    pub(crate) fn experts(&self, flops: f64) -> Passes {
        self.experts.passes(flops)
    }

    /// Seconds of embedding, head and loss, both passes; if they are not given, those of a head of so many operations, and
    /// none if layers have times.
    pub(crate) fn head_s(&self, flops: f64) -> f64 {
        let passes = match self.dense {
            Speed::FlopsPerS(_) => self.dense.passes(flops),
            Speed::Seconds(_) => Passes { forward_s: 0.0, backward_s: 0.0 },
        };
        self.head_s.unwrap_or(passes.forward_s + passes.backward_s)
    }
}

impl Speed {
    fn passes(self, flops: f64) -> Passes {
        let forward_s = match self {
            Self::FlopsPerS(rate) => flops / rate,
            Self::Seconds(seconds) => seconds,
        };
        Passes { forward_s, backward_s: BACKWARD_PER_FORWARD * forward_s }
    }
}

fn noise(table: &Reader<'_>) -> Result<Noise> {
    table.get("noise").map_or(Ok(Noise::default()), |field| Noise::read(&field))
}

/// What is read by one or another workload.
pub(crate) fn schema() -> Schema {
    table(KEYS, keys(KEYS))
}

impl ExpertTime {
    /// What [`read`](Self::read) reads.
    pub(crate) fn schema() -> Schema {
        let table = table(ONE_LAYER_KEYS, keys(ONE_LAYER_KEYS));
        table.when(Condition::Lacks("expert"), Rule::Refuses(&["noise"]))
    }
}

impl Compute {
    /// What [`of_experts`](Self::of_experts) reads.
    pub(crate) fn schema_of_experts() -> Schema {
        let table = table(EXPERTS_KEYS, keys(EXPERTS_KEYS)).with_one_of(EXPERT_TIMES);
        table.with_one_of(&["dense", "attention"]).when(Condition::Has("attention"), Rule::Refuses(FLOORS))
    }

    /// What [`of_layers`](Self::of_layers) reads.
    pub(crate) fn schema_of_layers() -> Schema {
        let table = table(DENSE_KEYS, keys(DENSE_KEYS)).with_one_of(&["dense", "layer"]);
        table.when(Condition::Has("layer"), Rule::Refuses(FLOORS))
    }
}

/// The schema of those of `valid`.
fn keys(valid: &[&'static str]) -> Vec<Key> {
    #[rustfmt::skip]
    let all = [
        ("expert", "time of the expert computation of a layer at mean load, forward; `moe` and `moe-training`", time()),
        ("attention", "time of the rest of a layer, forward; `moe-training`", time()),
        ("layer", "time of a layer, forward; `fsdp`, `dp` and `tp`", time()),
        ("dense", "speed of everything but the routed experts; training only", compute_rate()),
        ("expert_gemm", "speed of the routed experts; `moe-training`", compute_rate()),
        ("floor_forward", "least time of a layer without its routed experts, forward; none by default", time()),
        ("floor_backward", "the same, backward", time()),
        ("head", "time of embedding, head and loss, forward and backward; that of the head's operations by default", time()),
        ("noise", "relative standard deviation of each computation, drawn anew per rank and iteration; 0 by default", Noise::schema()),
    ];
    let known = all.into_iter().filter(|(name, ..)| valid.contains(name));
    known.map(|(name, about, schema)| optional(name, about, schema)).collect()
}
