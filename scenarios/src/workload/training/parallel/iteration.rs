//! Segments of an iteration of a job with several dimensions: those of each stage in the order of its passes, and of all stages so that each waits only for what
//! is in front of it.
//!
//! Computation writes what a call sends, never another call: that is what real runs fill and compare.

use std::collections::HashMap;
use std::ops::Range;

use ndarray::ArcArray2;
use zipwire_codec::DType;
use zipwire_schedule::{CallKind, Channel, Groups, Rank, Segment, Slot, Work};

use super::super::builder::{Builder, Settings, Time};
use super::super::fsdp::shards;
use super::dimensions::{Parallel, Sharded};
use super::pipeline::{Block, Pass, PassKind, Pipeline};
use crate::compute::{self, Passes};
use crate::model::VALUE_BYTES;

/// Positions in the tensors of a payload.
pub(super) const PARAMETERS: usize = 0;
pub(super) const ACTIVATIONS: usize = 1;
pub(super) const GRADIENTS: usize = 2;

/// Buffers that the passes of a direction use in turn. Of each pair, computation fills the first and a call the second.
#[derive(Clone, Copy)]
struct Chain {
    /// Partial sums of a layer's output, and their sum.
    partial: [Slot; 2],
    /// Keys and values of own tokens, and of all.
    keys: [Slot; 2],
    /// Rows for experts, and rows of experts.
    tokens: [Slot; 2],
    /// Rows from experts, and results for own tokens.
    results: [Slot; 2],
    /// Where the layer before has left its output.
    output: Slot,
}

/// Parameters of a layer: the rank's own shard, and those of others.
#[derive(Clone, Copy)]
struct Gathered {
    own: Slot,
    others: Slot,
}

/// Buffers at the borders of a chunk, by micro-batch: what is sent and what is got.
struct Border {
    sent: Vec<Slot>,
    got: Vec<Slot>,
}

/// A segment before it has its place among others.
struct Made {
    segment: Segment,
    time: Time,
    tensor: Option<usize>,
}

/// A compute phase.
struct Phase<'p> {
    name: &'static str,
    seconds: f64,
    reads: &'p [Slot],
    writes: &'p [Slot],
}

/// Place of a pass.
#[derive(Clone, Copy)]
struct At {
    stage: u32,
    part: u32,
    pass: Pass,
}

impl At {
    fn is_forward(self) -> bool {
        self.pass.kind == PassKind::Forward
    }

    fn name(self, what: impl std::fmt::Display) -> String {
        format!("S{} M{} {what}", self.stage, self.pass.micro_batch)
    }

    fn of_layer(self, layer: u32, what: &str) -> String {
        self.name(format_args!("L{layer} {what}"))
    }
}

pub(super) struct Iteration<'a> {
    settings: &'a Settings,
    parallel: &'a Parallel,
    pipeline: Pipeline,
    pub(super) builder: Builder<'a>,
    /// Layers of each part.
    parts: Vec<Range<u32>>,
    gradient_dtype: DType,
    /// Forward and backward.
    chains: [Chain; 2],
    /// Forward and backward, by chunk.
    borders: [Vec<Border>; 2],
    parameters: Parameters,
    gradients: Gradients,
    /// Bytes from each rank to each for experts.
    rows: Option<ArcArray2<u64>>,
    made: Vec<Made>,
}

/// Gathered parameters of layers.
struct Parameters {
    /// By stage and layer, for the whole iteration: dense ones and those of experts.
    kept: HashMap<(u32, u32), [Option<Gathered>; 2]>,
    /// Where parameters are gathered for each pass: the uses of each stage in order, and how many have been gathered and used.
    uses: Vec<Vec<u32>>,
    gathered: Vec<Vec<[Option<Gathered>; 2]>>,
    used: Vec<usize>,
    /// Two buffers in turn.
    turns: [[Slot; 2]; 2],
}

/// Gradients of layers, dense ones and those of experts, by chunk and place of the layer in it, and where sums go.
struct Gradients {
    of_layer: Vec<Vec<[Slot; 2]>>,
    sums: Vec<Vec<[Slot; 2]>>,
    /// Sums that replicas have still to add up, by stage.
    of_replicas: Vec<Vec<ReplicaSum>>,
}

/// Sums of a layer's gradients that are in one replica, behind the last pass that adds to them.
struct ReplicaSum {
    at: At,
    name: String,
    values: u64,
    summed: Slot,
}

impl<'a> Iteration<'a> {
    pub(super) fn new(
        mut builder: Builder<'a>,
        settings: &'a Settings,
        parallel: &'a Parallel,
        gradient_dtype: DType,
    ) -> Self {
        let pipeline = parallel.pipeline(settings.micro_batches);
        let parts = split(settings.model.layers, pipeline.parts());
        let mut pair = |name| [builder.slot(name), builder.slot(name)];
        let chains = [(); 2].map(|()| Chain {
            partial: pair("partial"),
            keys: pair("keys"),
            tokens: pair("tokens"),
            results: pair("results"),
            output: pair("output")[0],
        });
        let count = pipeline.micro_batches_of_chunk();
        let mut slots = |name| (0..count).map(|_| builder.slot(name)).collect();
        let mut border = |names: [&'static str; 2]| Border { sent: slots(names[0]), got: slots(names[1]) };
        let mut of_chunks = |names| (0..pipeline.chunks).map(|_| border(names)).collect();
        let borders =
            [of_chunks(["activations out", "activations in"]), of_chunks(["gradients out", "gradients in"])];
        let most = parts.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
        let mut pair = |name| [builder.slot(name), builder.slot(name)];
        let mut of_layers = |name| {
            let of_chunk = |_| (0..most).map(|_| pair(name)).collect();
            (0..pipeline.chunks).map(of_chunk).collect()
        };
        let (of_layer, sums) = (of_layers("gradients"), of_layers("sums"));
        let turns = [pair("parameters"), pair("expert parameters")];
        let gradients =
            Gradients { of_layer, sums, of_replicas: (0..parallel.pp).map(|_| Vec::new()).collect() };
        let stages = parallel.pp as usize;
        let parameters = Parameters {
            kept: HashMap::new(),
            uses: vec![Vec::new(); stages],
            gathered: vec![Vec::new(); stages],
            used: vec![0; stages],
            turns,
        };
        Self {
            settings,
            parallel,
            pipeline,
            builder,
            parts,
            gradient_dtype,
            chains,
            borders,
            parameters,
            gradients,
            rows: None,
            made: Vec::new(),
        }
    }

    pub(super) fn build(&mut self) {
        let order = self.pipeline.order();
        match self.parallel.sharded {
            Sharded::Optimizer => self.gather_all(),
            Sharded::Parameters => self.list_uses(&order),
            Sharded::Nothing => {}
        }
        for (stage, block) in order {
            let mut all: Vec<Vec<Made>> = Vec::new();
            for pass in block {
                let at = At { stage, part: self.pipeline.part(stage, pass.chunk), pass };
                self.pass(at);
                all.push(std::mem::take(&mut self.made));
            }
            self.push_in_turn(all);
        }
        let due: Vec<ReplicaSum> = self.gradients.of_replicas.iter_mut().flat_map(std::mem::take).collect();
        self.sum_replicas(due);
        self.sum_twins();
        let made = std::mem::take(&mut self.made);
        self.push_in_turn(vec![made]);
    }

    /// Pushes a phase or call of each pass in turn, if several are carried out together: while one computes, the other moves something.
    fn push_in_turn(&mut self, all: Vec<Vec<Made>>) {
        let mut all: Vec<_> = all.into_iter().map(Vec::into_iter).collect();
        loop {
            let next: Vec<Made> = all.iter_mut().filter_map(Iterator::next).collect();
            if next.is_empty() {
                return;
            }
            next.into_iter().for_each(|made| self.builder.push(made.segment, made.time, made.tensor));
        }
    }

    fn pass(&mut self, at: At) {
        let layers = self.parts[at.part as usize].clone();
        match at.pass.kind {
            PassKind::Forward => {
                self.begin(at);
                layers.for_each(|layer| self.forward(at, layer));
                if at.part + 1 == self.pipeline.parts() {
                    self.head(at);
                }
                self.send(at);
            }
            PassKind::Backward | PassKind::Inputs => {
                self.begin(at);
                if at.part + 1 == self.pipeline.parts() {
                    self.head(at);
                }
                layers.rev().for_each(|layer| self.backward(at, layer));
                self.send(at);
            }
            PassKind::Weights => {
                if at.part + 1 == self.pipeline.parts() {
                    self.head(at);
                }
                layers.rev().for_each(|layer| self.weights(at, layer));
            }
        }
    }

    fn chain(&self, at: At) -> Chain {
        self.chains[usize::from(!at.is_forward())]
    }

    /// The first layer of a pass takes what the stage before has sent.
    fn begin(&mut self, at: At) {
        let is_first = if at.is_forward() { at.part == 0 } else { at.part + 1 == self.pipeline.parts() };
        let index = usize::from(!at.is_forward());
        self.chains[index].output = if is_first {
            self.chains[index].partial[1]
        } else {
            self.borders[index][at.pass.chunk as usize].got[at.pass.micro_batch as usize]
        };
    }

    /// Sends what a pass has made to the stage that goes on with it.
    fn send(&mut self, at: At) {
        let to = if at.is_forward() {
            Some(at.part + 1).filter(|part| *part < self.pipeline.parts())
        } else {
            at.part.checked_sub(1)
        };
        let Some(to) = to else { return };
        let (stage, chunk) = self.pipeline.holder(to, at.pass.chunk);
        let (index, micro_batch) = (usize::from(!at.is_forward()), at.pass.micro_batch as usize);
        let sent = self.borders[index][at.pass.chunk as usize].sent[micro_batch];
        let got = self.borders[index][chunk as usize].got[micro_batch];
        let reads = [self.chain(at).output];
        let what = if at.is_forward() { "output" } else { "output backward" };
        let name = at.name(format_args!("P{} {what}", at.part));
        self.compute(at, &name, &Phase { name: "output", seconds: 0.0, reads: &reads, writes: &[sent] });
        // The ranks that share a layer share what is sent, too.
        let bytes = self.values_of_tokens().div_ceil(u64::from(self.parallel.tp)) * VALUE_BYTES;
        let from = Rank(u32::from(at.stage > stage));
        let work = Work::of_call(DType::Bf16, [sent, got], CallKind::Send { bytes, from });
        let (name, tensor) =
            if at.is_forward() { ("send", ACTIVATIONS) } else { ("send backward", GRADIENTS) };
        let groups = self.parallel.between([at.stage, stage]);
        let part = at.part;
        let segment = Segment::new(at.name(format_args!("P{part} {name}")), work).among(groups, "pp");
        self.made.push(Made { segment, time: Time::Unknown, tensor: Some(tensor) });
    }

    /// Values of the tokens of a rank behind a layer, of those that share a layer together.
    fn values_of_tokens(&self) -> u64 {
        self.settings.tokens.total() / u64::from(self.parallel.cp) * u64::from(self.settings.model.hidden)
    }

    fn compute(&mut self, at: At, name: &str, phase: &Phase<'_>) {
        let &Phase { name: kind, seconds, reads, writes } = phase;
        let groups = self.parallel.of_stage(at.stage);
        let work = |phase| Work::Compute { phase, reads: reads.to_vec(), writes: writes.to_vec() };
        let segment = |name: &str, phase| Segment { among: Some(groups), ..Segment::new(name, work(phase)) };
        if self.builder.has_skew() && seconds > 0.0 {
            let (segment, time) = (segment(&format!("{name} skew"), "skew"), Time::Skew(seconds));
            self.made.push(Made { segment, time, tensor: None });
        }
        self.made.push(Made { segment: segment(name, kind), time: Time::Equal(seconds), tensor: None });
    }

    /// A call, if there is more than one rank in its groups.
    fn call(
        &mut self,
        name: String,
        work: Work,
        among: (Groups, &'static str),
        tensor: usize,
        channel: Channel,
    ) {
        if among.0.size() > 1 {
            let segment = Segment { channel, ..Segment::new(name, work).among(among.0, among.1) };
            self.made.push(Made { segment, time: Time::Unknown, tensor: Some(tensor) });
        }
    }
}

/// Layers of each part: as many each, or, where the parts do not share them evenly, embedding and head count as a layer each.
pub(super) fn split(layers: u32, parts: u32) -> Vec<Range<u32>> {
    let extra = if layers.is_multiple_of(parts) { 0 } else { 2 };
    let (each, more) = ((layers + extra) / parts, (layers + extra) % parts);
    let mut begin = 0;
    let of_part = |part| {
        let of_ends = u32::from(part == 0) + u32::from(part + 1 == parts);
        let count = each + u32::from(part < more) - if extra > 0 { of_ends } else { 0 };
        begin += count;
        begin - count..begin
    };
    (0..parts).map(of_part).collect()
}

// Layers.

/// Seconds of the phases of a layer on one rank.
struct Seconds {
    projection: f64,
    attention: f64,
    gate: f64,
    mlp: f64,
    experts: f64,
}

impl Iteration<'_> {
    fn seconds(&self, layer: u32, kind: PassKind) -> Seconds {
        let Settings { model, tokens, compute, .. } = self.settings;
        let flops = model.layer_flops(layer, *tokens);
        let ranks = f64::from(self.parallel.tp) * f64::from(self.parallel.cp);
        let of = |passes: Passes| match kind {
            PassKind::Forward => passes.seconds(compute::Pass::Forward),
            PassKind::Backward => passes.seconds(compute::Pass::Backward),
            // Gradients of weights take as long as those of inputs.
            PassKind::Inputs | PassKind::Weights => passes.seconds(compute::Pass::Backward) / 2.0,
        };
        let dense = of(compute.dense(flops.dense() / ranks)) / flops.dense();
        // Without sharing sequences nothing is between the projections and the rest.
        let scores = tokens.sequences as f64 * model.attention.score_flops(tokens.sequence as f64);
        let projection = if self.parallel.cp > 1 { (flops.attention - scores) / 2.0 } else { 0.0 };
        let experts = if flops.experts > 0.0 { of(compute.experts(flops.experts / ranks)) } else { 0.0 };
        Seconds {
            projection: dense * projection,
            attention: dense * (flops.attention - projection),
            gate: dense * flops.gate,
            mlp: dense * flops.mlp,
            experts,
        }
    }

    /// A phase of a layer, which reads what is in front of it and parameters.
    fn phase(
        &mut self,
        at: At,
        layer: u32,
        name: &'static str,
        seconds: f64,
        (input, parameters): (Slot, &[Slot]),
        writes: &[Slot],
    ) {
        let reads = [&[input], parameters].concat();
        self.compute(at, &at.of_layer(layer, name), &Phase { name, seconds, reads: &reads, writes });
    }

    fn has_experts(&self, layer: u32) -> bool {
        self.settings.model.layer_parameters(layer).experts > 0
    }

    fn forward(&mut self, at: At, layer: u32) {
        let [dense, of_experts] = self.parameters(at, layer);
        let seconds = self.seconds(layer, PassKind::Forward);
        let Chain { partial, keys, tokens, results, output: mut input } = self.chain(at);
        let name = |what: &str| at.of_layer(layer, what);
        if self.parallel.cp > 1 {
            self.phase(at, layer, "projection", seconds.projection, (input, &dense), &[keys[0]]);
            self.gather_keys(at, name("keys all-gather"));
            input = keys[1];
        }
        self.phase(at, layer, "attention", seconds.attention, (input, &dense), &partial[..1]);
        let input = self.sum(at, name("attention all-reduce"));
        if !self.has_experts(layer) {
            self.phase(at, layer, "mlp", seconds.mlp, (input, &dense), &partial[..1]);
            let output = self.sum(at, name("mlp all-reduce"));
            self.leave(at, output);
            return;
        }
        self.phase(at, layer, "gate", seconds.gate, (input, &dense), &tokens[..1]);
        let input = self.exchange_tokens(at, name("dispatch"), tokens);
        self.phase(at, layer, "experts", seconds.experts, (input, &of_experts), &results[..1]);
        let input = self.exchange_tokens(at, name("combine"), results);
        self.phase(at, layer, "shared experts", seconds.mlp, (input, &dense), &partial[..1]);
        let output = self.gather_tokens(at, name("tokens all-gather"));
        self.leave(at, output);
    }

    fn backward(&mut self, at: At, layer: u32) {
        let [dense, of_experts] = self.parameters(at, layer);
        let seconds = self.seconds(layer, at.pass.kind);
        let Chain { partial, keys, tokens, results, output: mut input } = self.chain(at);
        let name = |what: &str| at.of_layer(layer, what);
        let [of_dense, of_routed] = self.gradient_slots(at, layer);
        let with = |slot: Slot, more: Option<Slot>| [slot].into_iter().chain(more).collect::<Vec<_>>();
        if self.has_experts(layer) {
            self.phase(at, layer, "shared experts backward", seconds.mlp, (input, &dense), &tokens[..1]);
            input = self.exchange_tokens(at, name("combine backward"), tokens);
            let writes = with(results[0], of_routed);
            self.phase(at, layer, "experts backward", seconds.experts, (input, &of_experts), &writes);
            input = self.exchange_tokens(at, name("dispatch backward"), results);
            self.phase(at, layer, "gate backward", seconds.gate, (input, &dense), &partial[..1]);
            input = self.gather_tokens(at, name("tokens all-gather backward"));
        } else {
            self.phase(at, layer, "mlp backward", seconds.mlp, (input, &dense), &partial[..1]);
            input = self.sum(at, name("mlp backward all-reduce"));
        }
        let last = with(partial[0], of_dense);
        let has_keys = self.parallel.cp > 1;
        let writes = if has_keys { &keys[..1] } else { &last };
        self.phase(at, layer, "attention backward", seconds.attention, (input, &dense), writes);
        if has_keys {
            self.scatter_keys(at, name("keys reduce-scatter"));
            self.phase(at, layer, "projection backward", seconds.projection, (keys[1], &dense), &last);
        }
        let output = self.sum(at, name("attention backward all-reduce"));
        self.leave(at, output);
        self.sum_gradients(at, layer);
    }

    /// Gradients of the weights of a layer, of which those of inputs have been made before.
    fn weights(&mut self, at: At, layer: u32) {
        let Seconds { projection, attention, gate, mlp, experts } = self.seconds(layer, PassKind::Weights);
        let writes: Vec<Slot> = self.gradient_slots(at, layer).into_iter().flatten().collect();
        let seconds = projection + attention + gate + mlp + experts;
        let name = at.of_layer(layer, "weights backward");
        let phase = Phase { name: "weights backward", seconds, reads: &[], writes: &writes };
        self.compute(at, &name, &phase);
        self.sum_gradients(at, layer);
    }

    /// Embedding, head and loss, a third of them forward.
    fn head(&mut self, at: At) {
        let Settings { model, tokens, compute, .. } = self.settings;
        let ranks = f64::from(self.parallel.tp) * f64::from(self.parallel.cp);
        let all_s = compute.head_s(model.head_flops(*tokens) / ranks);
        let (name, third) = match at.pass.kind {
            PassKind::Forward => ("head", 1.0),
            PassKind::Backward => ("head backward", 2.0),
            PassKind::Inputs => ("head backward", 1.0),
            PassKind::Weights => ("head weights", 1.0),
        };
        if all_s > 0.0 {
            // Gradients of weights are of what the pass before has left.
            let reads = [self.chain(at).output];
            let reads = if at.pass.kind == PassKind::Weights { &reads[..0] } else { &reads };
            let phase = Phase { name, seconds: all_s * third / 3.0, reads, writes: &[] };
            self.compute(at, &at.name(name), &phase);
        }
    }

    fn leave(&mut self, at: At, output: Slot) {
        self.chains[usize::from(!at.is_forward())].output = output;
    }

    fn tensor(at: At) -> usize {
        if at.is_forward() { ACTIVATIONS } else { GRADIENTS }
    }

    /// Sums partial outputs of a layer over the ranks that share it; where they are then.
    fn sum(&mut self, at: At, name: String) -> Slot {
        let [input, output] = self.chain(at).partial;
        let groups = self.parallel.of_tp(at.stage);
        let bytes = self.values_of_tokens() * VALUE_BYTES;
        let work = Work::of_call(DType::Bf16, [input, output], CallKind::AllReduce { bytes });
        self.call(name, work, (groups, "tp"), Self::tensor(at), Channel::Main);
        if groups.size() > 1 { output } else { input }
    }

    /// Gathers the tokens of the ranks that share a layer, of which each has sent some to experts.
    fn gather_tokens(&mut self, at: At, name: String) -> Slot {
        let [input, output] = self.chain(at).partial;
        let groups = self.parallel.of_tp(at.stage);
        let bytes = shards(self.values_of_tokens(), groups.size(), DType::Bf16);
        let work = Work::of_call(DType::Bf16, [input, output], CallKind::AllGather { bytes });
        self.call(name, work, (groups, "tp"), Self::tensor(at), Channel::Main);
        if groups.size() > 1 { output } else { input }
    }

    /// Rows of all ranks for all experts of a layer, or back: as many for each.
    fn exchange_tokens(&mut self, at: At, name: String, [input, output]: [Slot; 2]) -> Slot {
        let groups = self.parallel.of_ep(at.stage);
        let Some(experts) = &self.settings.model.experts else { return input };
        let ranks = groups.size() as usize;
        let of_rank = self.values_of_tokens() / u64::from(self.parallel.tp) * u64::from(experts.top_k);
        let bytes = of_rank.div_ceil(ranks as u64) * VALUE_BYTES;
        // One for all layers.
        let bytes = self.rows.get_or_insert_with(|| ArcArray2::from_elem((ranks, ranks), bytes)).clone();
        let kind = CallKind::AllToAll { bytes, tokens: None };
        let work = Work::of_call(DType::Bf16, [input, output], kind);
        self.call(name, work, (groups, "ep"), Self::tensor(at), Channel::Main);
        if ranks > 1 { output } else { input }
    }

    /// Values of keys and values of the tokens of a rank.
    fn values_of_keys(&self) -> u64 {
        let tokens = self.settings.tokens.total() / u64::from(self.parallel.cp);
        tokens * self.settings.model.attention.cached_values(self.parallel.tp)
    }

    fn gather_keys(&mut self, at: At, name: String) {
        let groups = self.parallel.of_cp(at.stage);
        let bytes = vec![self.values_of_keys() * VALUE_BYTES; groups.size() as usize];
        let work = Work::of_call(DType::Bf16, self.chain(at).keys, CallKind::AllGather { bytes });
        self.call(name, work, (groups, "cp"), ACTIVATIONS, Channel::Main);
    }

    fn scatter_keys(&mut self, at: At, name: String) {
        let groups = self.parallel.of_cp(at.stage);
        let bytes = vec![self.values_of_keys() * VALUE_BYTES; groups.size() as usize];
        let work = Work::of_call(DType::Bf16, self.chain(at).keys, CallKind::ReduceScatter { bytes });
        self.call(name, work, (groups, "cp"), GRADIENTS, Channel::Main);
    }
}

// Parameters and gradients.

impl Iteration<'_> {
    fn values_of_layer(&self, layer: u32) -> [u64; 2] {
        self.parallel.values_of_layer(&self.settings.model, layer)
    }

    /// Groups that share the dense parameters of a stage, and those of experts.
    fn sharing(&self, stage: u32) -> [Groups; 2] {
        [self.parallel.of_dense(stage), self.parallel.of_experts(stage)]
    }

    /// Gathers all parameters at the start, in the order of their use: the states of the optimizer are sharded, which has just changed them.
    fn gather_all(&mut self) {
        for (chunk, stage) in
            (0..self.pipeline.chunks).flat_map(|c| (0..self.parallel.pp).map(move |s| (c, s)))
        {
            let layers = self.parts[self.pipeline.part(stage, chunk) as usize].clone();
            for layer in layers {
                let gathered = self.gather(stage, layer, &format!("S{stage} L{layer}"), [None; 2]);
                self.parameters.kept.insert((stage, layer), gathered);
            }
            let made = std::mem::take(&mut self.made);
            self.push_in_turn(vec![made]);
        }
    }

    /// Gathers the parameters of a layer, each kind into a buffer, a new one if none is given.
    fn gather(&mut self, stage: u32, layer: u32, name: &str, to: [Option<Slot>; 2]) -> [Option<Gathered>; 2] {
        let (values, sharing) = (self.values_of_layer(layer), self.sharing(stage));
        let names = ["all-gather", "experts all-gather"];
        std::array::from_fn(|index| {
            if sharing[index].size() < 2 || values[index] == 0 {
                return None;
            }
            let others = to[index].unwrap_or_else(|| self.builder.slot("parameters"));
            // Each call has a shard of its own to send, because payloads are drawn by call.
            let own = self.builder.slot("shard");
            let bytes = shards(values[index], sharing[index].size(), DType::Bf16);
            let work = Work::of_call(DType::Bf16, [own, others], CallKind::AllGather { bytes });
            let name = format!("{name} {}", names[index]);
            self.call(name, work, (sharing[index], "dp"), PARAMETERS, Channel::Background);
            Some(Gathered { own, others })
        })
    }

    fn list_uses(&mut self, order: &[(u32, Block)]) {
        for (stage, block) in order {
            for pass in block {
                let layers = self.parts[self.pipeline.part(*stage, pass.chunk) as usize].clone();
                let uses = &mut self.parameters.uses[*stage as usize];
                match pass.kind {
                    PassKind::Forward => uses.extend(layers),
                    PassKind::Backward | PassKind::Inputs => uses.extend(layers.rev()),
                    PassKind::Weights => {}
                }
            }
        }
    }

    /// Buffers with the parameters of a layer, dense ones and those of experts. Where they are gathered for each pass, those of the next pass are, too.
    fn parameters(&mut self, at: At, layer: u32) -> [Vec<Slot>; 2] {
        let stage = at.stage as usize;
        let gathered = match self.parallel.sharded {
            Sharded::Nothing => [None; 2],
            Sharded::Optimizer => self.parameters.kept[&(at.stage, layer)],
            Sharded::Parameters => {
                let index = self.parameters.used[stage];
                self.parameters.used[stage] += 1;
                for ahead in self.parameters.gathered[stage].len()..index + 2 {
                    let Some(&layer) = self.parameters.uses[stage].get(ahead) else { break };
                    let to = self.parameters.turns.map(|turns| Some(turns[ahead % 2]));
                    let gathered =
                        self.gather(at.stage, layer, &format!("S{stage} use {ahead} L{layer}"), to);
                    self.parameters.gathered[stage].push(gathered);
                }
                self.parameters.gathered[stage][index]
            }
        };
        gathered.map(|gathered| gathered.into_iter().flat_map(|all| [all.own, all.others]).collect())
    }

    fn is_last(&self, at: At) -> bool {
        at.pass.micro_batch + 1 == self.pipeline.micro_batches_of_chunk()
    }

    /// Whether gradients of a chunk are summed behind a pass: once per iteration, or behind each where parameters are gathered for each.
    fn sums_behind(&self, at: At) -> bool {
        at.pass.kind != PassKind::Inputs && (self.is_last(at) || self.parallel.sharded == Sharded::Parameters)
    }

    /// Where a pass leaves the gradients of a layer, dense ones and those of experts, if they are summed behind it.
    fn gradient_slots(&self, at: At, layer: u32) -> [Option<Slot>; 2] {
        let place = (layer - self.parts[at.part as usize].start) as usize;
        let slots = self.gradients.of_layer[at.pass.chunk as usize][place];
        let (values, sharing) = (self.values_of_layer(layer), self.sharing(at.stage));
        let has_sums = |index: usize| {
            let has_others = sharing[index].size() > 1 || self.parallel.replicate > 1 || self.has_twin();
            self.sums_behind(at) && values[index] > 0 && has_others
        };
        [Some(slots[0]).filter(|_| has_sums(0)), Some(slots[1]).filter(|_| has_sums(1))]
    }

    /// Whether each part is on two stages.
    fn has_twin(&self) -> bool {
        self.pipeline.parts() < self.pipeline.stages * self.pipeline.chunks
    }

    /// Sums the gradients of a layer over the ranks that share it, and then those of the layer before it over replicas: taking over what a call has left is a
    /// compute phase, for which a pass waits, and by then the call has mostly ended.
    fn sum_gradients(&mut self, at: At, layer: u32) {
        let due = std::mem::take(&mut self.gradients.of_replicas[at.stage as usize]);
        let slots = self.gradient_slots(at, layer);
        let (values, sharing) = (self.values_of_layer(layer), self.sharing(at.stage));
        for (index, what) in ["", " experts"].into_iter().enumerate() {
            let Some(slot) = slots[index] else { continue };
            let name = |call: &str| at.name(format_args!("L{layer}{what} {call}"));
            let groups = sharing[index];
            let (kind, call) = if self.parallel.sharded == Sharded::Nothing {
                let bytes = values[index] * self.gradient_dtype.width() as u64;
                (CallKind::AllReduce { bytes }, "gradients all-reduce")
            } else {
                let bytes = shards(values[index], groups.size(), self.gradient_dtype);
                (CallKind::ReduceScatter { bytes }, "gradients reduce-scatter")
            };
            let place = (layer - self.parts[at.part as usize].start) as usize;
            let sums = self.gradients.sums[at.pass.chunk as usize][place][index];
            let work = Work::of_call(self.gradient_dtype, [slot, sums], kind);
            self.call(name(call), work, (groups, "dp"), GRADIENTS, Channel::Background);
            if self.parallel.replicate > 1 && self.is_last(at) {
                let (name, values) = (name("replicas all-reduce"), self.values_left(values[index], groups));
                let summed = if groups.size() > 1 { sums } else { slot };
                self.gradients.of_replicas[at.stage as usize].push(ReplicaSum { at, name, values, summed });
            }
        }
        self.sum_replicas(due);
    }

    /// Sums what calls have left once more, over replicas of the ranks that share a layer.
    fn sum_replicas(&mut self, due: Vec<ReplicaSum>) {
        for ReplicaSum { at, name, values, summed } in due {
            self.sum_again(name, &[(at, summed)], self.parallel.of_replicas(at.stage), values);
        }
    }

    /// Where each part is on two stages, sums what both have made of it.
    fn sum_twins(&mut self) {
        let last = self.pipeline.micro_batches_of_chunk() - 1;
        let twins = if self.has_twin() { self.pipeline.parts() } else { 0 };
        for part in 0..twins {
            let ends = [0, 1].map(|chunk| {
                let (stage, chunk) = self.pipeline.holder(part, chunk);
                At { stage, part, pass: Pass { kind: PassKind::Weights, micro_batch: last, chunk } }
            });
            let (groups, sharing) =
                (self.parallel.between(ends.map(|at| at.stage)), self.sharing(ends[0].stage));
            for (place, layer) in self.parts[part as usize].clone().enumerate() {
                for (index, what) in ["", " experts"].into_iter().enumerate() {
                    let values = self.values_of_layer(layer)[index];
                    let Gradients { of_layer, sums, .. } = &self.gradients;
                    let summed = if sharing[index].size() > 1 { sums } else { of_layer };
                    let summed = ends.map(|at| (at, summed[at.pass.chunk as usize][place][index]));
                    let values = self.values_left(values, sharing[index]);
                    self.sum_again(
                        format!("P{part} L{layer}{what} twins all-reduce"),
                        &summed,
                        groups,
                        values,
                    );
                }
            }
        }
    }

    /// Values of a sum that a rank has when the ranks that share a layer have added up theirs.
    fn values_left(&self, values: u64, sharing: Groups) -> u64 {
        if self.parallel.sharded == Sharded::Nothing {
            values
        } else {
            values.div_ceil(sharing.size().into())
        }
    }

    /// Sums what calls have left, over the groups of its stages.
    fn sum_again(&mut self, name: String, summed: &[(At, Slot)], groups: Groups, values: u64) {
        if values > 0 {
            let [input, output] = [0; 2].map(|_| self.builder.slot("shards of sums"));
            for &(at, summed) in summed {
                let phase = Phase { name: "shards", seconds: 0.0, reads: &[summed], writes: &[input] };
                self.compute(at, &format!("{name} shards of S{}", at.stage), &phase);
            }
            let bytes = values * self.gradient_dtype.width() as u64;
            let work = Work::of_call(self.gradient_dtype, [input, output], CallKind::AllReduce { bytes });
            self.call(name, work, (groups, "dp"), GRADIENTS, Channel::Background);
        }
    }
}
