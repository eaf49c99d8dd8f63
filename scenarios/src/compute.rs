//! `[compute]`: how long the model computes, as times or from its operations.

use crate::error::Result;
use crate::language::{
    Condition, Field, Key, Keys, Reader, Rule, Schema, bandwidth, compute_rate, custom, keys, table, time,
};
use crate::noise::Noise;

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

#[derive(Clone, Copy, Debug, PartialEq)]
enum Speed {
    /// Floating-point operations per second.
    FlopsPerS(f64),
    /// Seconds of a forward pass, whatever is computed.
    Seconds(f64),
}

/// The backward pass computes gradients of inputs and of weights.
const BACKWARD_PER_FORWARD: f64 = 2.0;

// What one or another workload reads.
keys! { pub(crate) static KEYS =
    expert: f64 = time(), "time of the expert computation of a layer at mean load, forward; `moe` and `moe-training`";
    attention: f64 = time(), "time of the rest of a layer, forward; `moe-training`";
    layer: f64 = time(), "time of a layer, forward; `fsdp`, `dp`, `tp` and `training`";
    dense: f64 = compute_rate(), "speed of everything but the routed experts; training, and `serving`, where it is that of all";
    expert_gemm: f64 = compute_rate(), "speed of the routed experts; `moe-training` and `training`, where it is that of the rest by default";
    floor_forward: f64 = time(), "least time of a layer without its routed experts, forward; none by default";
    floor_backward: f64 = time(), "the same, backward";
    head: f64 = time(), "time of embedding, head and loss, forward and backward; that of the head's operations by default";
    prefill_token: f64 = time(), "time of a token of a prompt, in place of `dense`; `serving`";
    prefill_step: f64 = time(), "time of each chunk of a prompt besides; none by default; `serving`";
    memory: f64 = bandwidth(), "bytes per second that a GPU reads of weights and caches; `serving`", example = "\"3 TB/s\"";
    decode_step: f64 = time(), "time of a step in which each sequence gets a token, in place of `memory`; `serving`";
    decode_sequence: f64 = time(), "time of each sequence of a step besides; none by default; `serving`";
    noise: Noise = custom(Noise::read, Noise::schema), "relative standard deviation of each computation, drawn anew per rank and iteration; 0 by default";
}

static ONE_LAYER: Keys<'static> = &[KEYS.expert, KEYS.noise];
/// Keys for layers whose experts are on several ranks.
static EXPERTS: Keys<'static> = &[
    KEYS.attention,
    KEYS.dense,
    KEYS.expert,
    KEYS.expert_gemm,
    KEYS.floor_forward,
    KEYS.floor_backward,
    KEYS.head,
    KEYS.noise,
];
/// Keys for layers of either kind.
static ALL_LAYERS: Keys<'static> = &[
    KEYS.layer,
    KEYS.dense,
    KEYS.expert_gemm,
    KEYS.floor_forward,
    KEYS.floor_backward,
    KEYS.head,
    KEYS.noise,
];
/// Keys for layers that every rank computes alike.
static LAYERS: Keys<'static> =
    &[KEYS.layer, KEYS.dense, KEYS.floor_forward, KEYS.floor_backward, KEYS.head, KEYS.noise];

impl ExpertTime {
    /// Reads the table for workload `moe`; without one there is no time.
    pub(crate) fn read(field: Option<&Field<'_>>) -> Result<Self> {
        let Some(field) = field else { return Ok(Self::default()) };
        let table = field.table(ONE_LAYER)?;
        table.check(&[Self::rule()])?;
        let expert_s = table.get(KEYS.expert)?.unwrap_or(0.0);
        Ok(Self { expert_s, noise: table.get(KEYS.noise)?.unwrap_or_default() })
    }

    pub(crate) fn schema() -> Schema {
        table(ONE_LAYER).with(vec![Self::rule()])
    }

    fn rule() -> Rule {
        Condition::Lacks(KEYS.expert).refuses(&[KEYS.noise], "without `expert`, computation takes no time")
    }
}
impl Compute {
    /// Reads the table for layers with experts on several ranks.
    pub(crate) fn of_experts(field: &Field<'_>) -> Result<Self> {
        let table = field.table(EXPERTS)?;
        table.check(&Self::rules_of_experts())?;
        let experts = match table.get(KEYS.expert)? {
            Some(seconds) => Speed::Seconds(seconds),
            None => Speed::FlopsPerS(table.need(KEYS.expert_gemm)?),
        };
        Self::read(&table, KEYS.attention, Some(experts))
    }

    /// Reads the table for layers that each rank computes alike.
    pub(crate) fn of_layers(field: &Field<'_>) -> Result<Self> {
        let table = field.table(LAYERS)?;
        table.check(&Self::rules(KEYS.layer))?;
        Self::read(&table, KEYS.layer, None)
    }

    /// Reads the table for layers of either kind. If routed experts have no speed of their own, they have that of the rest, or are in the time of a layer.
    pub(crate) fn of_all(field: &Field<'_>) -> Result<Self> {
        let table = field.table(ALL_LAYERS)?;
        table.check(&Self::rules(KEYS.layer))?;
        let of_layer = table.field(KEYS.layer).map(|_| Speed::Seconds(0.0));
        let experts = table.get(KEYS.expert_gemm)?.map(Speed::FlopsPerS).or(of_layer);
        Self::read(&table, KEYS.layer, experts)
    }

    /// Schema of the table that [`of_all`](Self::of_all) accepts.
    pub(crate) fn schema_of_all() -> Schema {
        table(ALL_LAYERS).with(Self::rules(KEYS.layer))
    }

    /// `explicit` is the key of the time of a layer's dense part. Without a speed of their own, experts have that of the
    /// rest.
    fn read(table: &Reader<'_>, explicit: &Key<f64>, experts: Option<Speed>) -> Result<Self> {
        let dense = match table.get(explicit)? {
            Some(seconds) => Speed::Seconds(seconds),
            None => Speed::FlopsPerS(table.need(KEYS.dense)?),
        };
        let time = |key| table.get(key).map(|seconds| seconds.unwrap_or(0.0));
        let floor = Passes { forward_s: time(KEYS.floor_forward)?, backward_s: time(KEYS.floor_backward)? };
        let noise = table.get(KEYS.noise)?.unwrap_or_default();
        Ok(Self { dense, experts: experts.unwrap_or(dense), floor, head_s: table.get(KEYS.head)?, noise })
    }

    fn rules(explicit: &'static Key<f64>) -> Vec<Rule> {
        let floors: Keys<'_> = &[KEYS.floor_forward, KEYS.floor_backward];
        vec![
            Rule::one_of(&[KEYS.dense, explicit]),
            Condition::Has(explicit).refuses(floors, "the time of a layer is given"),
        ]
    }

    fn rules_of_experts() -> Vec<Rule> {
        let times = Rule::one_of(&[KEYS.expert_gemm, KEYS.expert]);
        [vec![times], Self::rules(KEYS.attention)].concat()
    }

    /// Schema of the table that [`of_experts`](Self::of_experts) accepts.
    pub(crate) fn schema_of_experts() -> Schema {
        table(EXPERTS).with(Self::rules_of_experts())
    }

    /// Schema of the table that [`of_layers`](Self::of_layers) accepts.
    pub(crate) fn schema_of_layers() -> Schema {
        table(LAYERS).with(Self::rules(KEYS.layer))
    }

    /// The dense part of a layer, by the operations of its forward pass.
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

    /// Seconds of embedding, head and loss, both passes; if they are not given, those of a head with `flops` operations, and
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
