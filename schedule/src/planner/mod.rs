//! Planners: a job becomes a plan. A collective is a file here that states the pieces that a rank has or gets, and the steps in which they
//! move; a protocol is a function in `protocols.rs` that states the stages; a selection says which pieces are coded, and parts how they are
//! cut.

mod all_gather;
mod all_to_all;
mod broadcast;
mod call;
mod dedup;
mod flows;
mod folded;
mod frames;
mod protocols;
mod reduction;

use std::collections::HashMap;
use std::sync::Arc;

use zipwire_codec::{CHUNK_ALIGN, Codec, DType, Layout, Spec};

use self::call::{Buffers, Call, Phase};
use self::dedup::Forward;
use self::flows::FlowsByRank;
use self::frames::{FrameBuffers, Frames, Scratch, Shape};
use self::reduction::Operands;
use crate::builder::ProgramBuilder;
use crate::plan::{Batch, Compute, Lens, Library, Local, Maximum, Op, OpKind, Plan, Program, Reduce, Region};
use crate::rank_order::Members;
use crate::{
    Algorithm, BufferId, CallKind, Job, Order, Protocol, Rank, Segment, SegmentId, Slot, Symmetry, Work,
};

pub use self::call::part_count;
pub(crate) use self::call::{PART_ALIGN, range};
pub use self::folded::{folding, plan_folded};

/// Plans a job, all of whose collectives travel alike. The plan is valid by construction; `Plan::validate` proves it.
///
/// # Panics
/// In the same cases as [`plan_each`].
pub fn plan(job: &Job, choice: &Choice) -> Plan {
    plan_each(job, &vec![choice; job.segments.len()])
}

/// Plans a job whose segments travel each in its own way, those of `choices`, by segment; compute phases ask for none, and explicit
/// flows for neither algorithm nor order.
///
/// # Panics
/// If there are not as many choices as segments, if they have different codecs, if a coded protocol is chosen without a
/// codec that supports the job's values, [`Protocol::Speculative`] without a slot, or an algorithm that a collective of the job
/// does not have ([`Work::algorithms`]; [`Algorithm::PaddedRing`] only with a coded protocol), if tokens are not
/// those that the bytes of a call count, or if coded flows are no whole values: resolve scenarios first.
pub fn plan_each(job: &Job, choices: &[&Choice]) -> Plan {
    let planner = Planner::new(job, choices);
    let programs = (0..job.rank_count).map(|rank| Arc::new(planner.program(Rank(rank))));
    planner.plan(Symmetry::none(job.rank_count), programs.collect())
}

struct Planner<'a> {
    job: &'a Job,
    choices: &'a [&'a Choice],
    spec: Option<&'a Spec>,
    codec: Option<Box<dyn Codec>>,
    flows: Vec<FlowsByRank<'a>>,
    /// Bytes of each rank's block or shard, by segment; none where there are no such.
    lens: Vec<Arc<Lens>>,
    /// See [`exclusive_slots`].
    exclusive: Vec<bool>,
}

impl Planner<'_> {
    fn plan(&self, symmetry: Symmetry, programs: Vec<Arc<Program>>) -> Plan {
        let Self { job, choices, .. } = self;
        let protocol = |(segment, choice): (&Segment, &&Choice)| {
            let has_one = segment.work.is_collective() || is_coded(segment, choice);
            has_one.then_some(choice.protocol)
        };
        Plan {
            job: job.name,
            protocols: job.segments.iter().zip(*choices).map(protocol).collect(),
            codec: self.spec.cloned(),
            segments: job.segments.iter().map(|segment| Arc::clone(&segment.name)).collect(),
            among: job.segments.iter().map(|segment| segment.among).collect(),
            symmetry,
            programs,
            merged: None,
        }
    }

    fn program(&self, rank: Rank) -> Program {
        self.program_with(rank, |_, _| {})
    }

    /// The program of a rank of which the ops of each segment, once they have their dependencies, are given to `change`, with its sizes that are maxima.
    fn program_with(&self, rank: Rank, change: impl FnMut(&mut [Op], &[Maximum])) -> Program {
        let mut builder = ProgramBuilder::new(rank);
        self.build_program(&mut builder, change);
        builder.finish()
    }
}

/// Lets a program go on with the ranks that do a segment together; false if its rank leaves that out.
fn enter(builder: &mut ProgramBuilder, segment: &Segment, job: &Job) -> bool {
    builder.enter(None);
    let Some(groups) = segment.among else { return true };
    let group = groups.of(builder.rank());
    builder.enter(group.filter(|group| !group.is_all(job.rank_count)));
    group.is_some()
}

/// Whether a codec may code what a segment moves.
fn is_coded(segment: &Segment, choice: &Choice) -> bool {
    segment.work.communicates() && choice.protocol.is_coded()
}

/// Whether the flows of a segment are whole values; so is all that is no flow.
fn has_whole_values(segment: &Segment) -> bool {
    match &segment.work {
        Work::Transfers { dtype, flows, .. } => {
            flows.iter().all(|flow| flow.bytes.is_multiple_of(dtype.width() as u64))
        }
        Work::Call { .. } | Work::Compute { .. } => true,
    }
}

/// Whether chunks have as many bytes as their tokens, where these are known.
fn has_its_tokens(work: &Work) -> bool {
    match work {
        Work::Call { kind: CallKind::AllToAll { bytes, tokens: Some(tokens) }, .. } => {
            let counted = tokens.bytes();
            bytes.dim() == counted.dim()
                && bytes.indexed_iter().all(|((src, dst), &len)| src == dst || len == counted[[src, dst]])
        }
        Work::Call { .. } | Work::Compute { .. } | Work::Transfers { .. } => true,
    }
}

enum Planned {
    Call {
        call: Call,
        /// The parts in which it is coded; none if it is not.
        parts: Vec<(Call, Frames)>,
        /// Gather and exchange of gateways for each part; none without gateways.
        forwards: Vec<Forward>,
    },
    Reduce(Reduce),
    Library(Library),
}

impl<'a> Planner<'a> {
    /// # Panics
    /// If nothing can be planned from the choices.
    fn new(job: &'a Job, choices: &'a [&'a Choice]) -> Self {
        assert_eq!(choices.len(), job.segments.len(), "every segment has a choice");
        let coded =
            || job.segments.iter().zip(choices).filter(|&(segment, choice)| is_coded(segment, choice));
        let mut specs =
            coded().map(|(_, choice)| choice.codec.as_ref().expect("coded protocols have a codec"));
        let spec = specs.next();
        assert!(specs.all(|other| Some(other) == spec), "all that is coded in a plan has one codec");
        let lacks_slots = |(segment, choice): (&Segment, &&Choice)| {
            segment.work.communicates()
                && choice.protocol == Protocol::Speculative
                && choice.speculative_capacity.is_none()
        };
        assert!(!job.segments.iter().zip(choices).any(lacks_slots), "what is speculative has slots");
        assert!(
            job.segments.iter().all(|segment| has_its_tokens(&segment.work)),
            "tokens have the bytes of chunks"
        );
        assert!(coded().all(|(segment, _)| has_whole_values(segment)), "coded flows are whole values");
        let mut first = 0;
        let flows = job.segments.iter().map(|segment| match &segment.work {
            Work::Transfers { flows, .. } => {
                let flows = FlowsByRank::new(flows, job.rank_count, first);
                first = flows.end();
                flows
            }
            // A send has the channel of one flow.
            Work::Call { kind: CallKind::Send { .. }, .. } => {
                let flows = FlowsByRank::one(first);
                first = flows.end();
                flows
            }
            Work::Call { .. } | Work::Compute { .. } => FlowsByRank::default(),
        });
        let flows = flows.collect();
        // Layers are alike: calls of the same lengths share them.
        let mut known: HashMap<Vec<u64>, Arc<Lens>> = HashMap::new();
        let lens = |segment: &Segment| {
            let bytes = match segment.work.call() {
                Some(CallKind::AllGather { bytes }) => bytes.clone(),
                _ => segment.work.shards(segment.groups(job.rank_count).size()),
            };
            let of = |bytes: &Vec<u64>| Lens::new(bytes.clone(), CHUNK_ALIGN as u64);
            Arc::clone(known.entry(bytes).or_insert_with_key(of))
        };
        let lens = job.segments.iter().map(lens).collect();
        let exclusive = exclusive_slots(job);
        Self { job, choices, spec, codec: spec.map(Spec::codec), flows, lens, exclusive }
    }

    fn build_program(&self, builder: &mut ProgramBuilder, mut change: impl FnMut(&mut [Op], &[Maximum])) {
        // All memory is laid out before the first op, because compute phases claim whole buffers.
        let mut laid_out = ProgramBuilder::new(builder.rank());
        let (mut main, mut background) = (Scratch::new(false), Scratch::new(true));
        if !builder.is_counting() {
            let slots = self.slots(&mut laid_out);
            for segment in 0..self.job.segments.len() {
                self.place(&mut laid_out, segment, &slots, [&mut main, &mut background]);
            }
        }
        builder.adopt(laid_out);
        let claimed = std::mem::replace(&mut main, Scratch::new(false));
        background = Scratch::new(true);
        let slots = self.slots(builder);
        for (index, segment) in self.job.segments.iter().enumerate() {
            let maxima = builder.maxima();
            let phases = self.place(builder, index, &slots, [&mut main, &mut background]);
            if !enter(builder, segment, self.job) {
                continue;
            }
            builder.begin(SegmentId(index as u32));
            match (phases, &segment.work) {
                (Some(phases), _) => self.build(builder, index, phases),
                (None, Work::Compute { phase, reads, writes }) => {
                    compute(builder, phase, &slots, (reads, writes), &self.exclusive, &claimed);
                }
                (None, Work::Transfers { pace, input, output, .. }) => {
                    let [input, output] = [slots[input.index()], slots[output.index()]];
                    flows::build_raw(builder, &self.flows[index], *pace, input, output);
                }
                (None, Work::Call { .. }) => unreachable!("every collective is laid out"),
            }
            builder.end(maxima, &mut change);
        }
    }

    fn slots(&self, builder: &mut ProgramBuilder) -> Vec<BufferId> {
        self.job.slots.iter().map(|name| builder.buffer(*name)).collect()
    }

    /// Pushes the ops of a segment's phases.
    fn build(&self, builder: &mut ProgramBuilder, segment: usize, phases: Vec<Planned>) {
        for phase in phases {
            match phase {
                Planned::Call { call, parts, forwards } => {
                    build(builder, self.choices[segment], &call, parts, forwards);
                }
                Planned::Reduce(reduce) => builder.push(OpKind::Local(Local::Reduce(reduce))),
                Planned::Library(library) => builder.push(OpKind::Library(library)),
            }
        }
    }

    /// Places the memory of a segment, and returns its phases, if it is a collective or coded flows and the rank takes part. Memory of calls is that of
    /// their channel, the main one's or that of the background.
    fn place(
        &self,
        builder: &mut ProgramBuilder,
        index: usize,
        slots: &[BufferId],
        [main, background]: [&mut Scratch; 2],
    ) -> Option<Vec<Planned>> {
        let (segment, choice) = (&self.job.segments[index], self.choices[index]);
        let (flows, lens) = (&self.flows[index], &self.lens[index]);
        let scratch = if segment.channel.is_background() { background } else { main };
        if !enter(builder, segment, self.job) {
            return None;
        }
        let phases = lay_out(builder, self.job, choice, (segment, flows, lens), slots, scratch)?;
        // Flows that are open together have memory of their own each.
        let mut shared: Option<(FrameBuffers, (u64, u64))> = None;
        let phase = |phase: Phase| match phase {
            Phase::Reduce(reduce) => Planned::Reduce(reduce),
            Phase::Library(library) => Planned::Library(Library { channel: segment.channel, ..library }),
            Phase::Call(mut call, forwards) => {
                let is_flow = call.channel.flow().is_some();
                if !is_flow {
                    call.channel = segment.channel;
                }
                let coded = choice.layout().zip(self.codec.as_deref());
                let parts = coded.map_or_else(Vec::new, |(layout, codec)| {
                    call.select(builder.rank(), &choice.selection, codec.supports(call.dtype));
                    let parts = call.cut(choice.parts);
                    let shape = Shape {
                        layout,
                        slot: choice.speculative_capacity,
                        sends_sign_mantissa: choice.protocol.sends_sign_mantissa(),
                    };
                    let (buffers, ends) = match &mut shared {
                        Some(shared) if is_flow => shared,
                        shared => shared.insert((scratch.frames(builder, choice.arenas), (0, 0))),
                    };
                    Frames::place_parts(builder, parts, codec, shape, *buffers, ends)
                });
                Planned::Call { call, parts, forwards }
            }
        };
        Some(phases.into_iter().map(phase).collect())
    }
}

/// Pushes the ops of one call. All parts are encoded before the first is waited for: while one travels, the next is coded.
/// Where there are gateways, they hand on one part while the next travels.
fn build(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    call: &Call,
    mut parts: Vec<(Call, Frames)>,
    forwards: Vec<Forward>,
) {
    // A segment may have several calls: none is a part of the one before.
    builder.begin_part(0);
    let Some(exchange) = protocols::exchanges(choice.protocol) else {
        if forwards.is_empty() {
            return protocols::native(builder, call);
        }
        for ((part, forward), number) in call.cut(choice.parts).iter().zip(forwards).zip(0..) {
            builder.begin_part(number);
            protocols::native(builder, part);
            forward.build(builder);
        }
        return;
    };
    protocols::uncoded(builder, call);
    for (_, frames) in &mut parts {
        let blocks = std::mem::take(&mut frames.encode.blocks);
        protocols::encode(builder, choice.protocol, Batch { blocks, ..frames.encode }, call.not_before_s);
    }
    let mut forwards = forwards.into_iter();
    for ((part, frames), number) in parts.into_iter().zip(0..) {
        builder.begin_part(number);
        exchange(builder, &part, &frames);
        builder.push(OpKind::Local(Local::Decode(frames.decode)));
        if let Some(forward) = forwards.next() {
            forward.build(builder);
        }
    }
}

/// Reserves the slots that a segment uses, and returns its phases, if it is a collective or coded flows.
fn lay_out(
    builder: &mut ProgramBuilder,
    job: &Job,
    choice: &Choice,
    (segment, flows, lens): (&Segment, &FlowsByRank<'_>, &Arc<Lens>),
    slots: &[BufferId],
    scratch: &mut Scratch,
) -> Option<Vec<Phase>> {
    let ends =
        |input: &Slot, output: &Slot| Buffers { input: slots[input.index()], output: slots[output.index()] };
    let work = &segment.work;
    let (dtype, ends, kind) = match work {
        Work::Compute { .. } => return None,
        Work::Transfers { dtype, pace, input, output, .. } => {
            let (ends, rank) = (ends(input, output), builder.rank());
            let (sent, received) = flows.capacities(rank);
            builder.reserve(ends.input, sent);
            builder.reserve(ends.output, received);
            let calls = || flows::coded_calls(flows, *pace, *dtype, rank, ends);
            let phases = || calls().into_iter().map(|call| Phase::Call(call, Vec::new())).collect();
            return choice.protocol.is_coded().then(phases);
        }
        Work::Call { dtype, input, output, kind } => (*dtype, ends(input, output), kind),
    };
    let mut operands = |builder: &mut ProgramBuilder| Operands {
        dtype,
        shards: Arc::clone(lens),
        ends,
        summands: scratch.summands(builder, choice.arenas),
        algorithm: work.algorithm(choice.protocol, choice.algorithm).expect("reductions have algorithms"),
        ranks_per_node: choice.ranks_per_node,
        sums: choice.sums.of(dtype),
    };
    let call = match kind {
        CallKind::AllToAll { bytes, tokens } => {
            if let Some((ranks_per_node, tokens)) = choice.dedup.zip(tokens.as_deref()) {
                let buffers = scratch.gateway(builder, choice.arenas);
                let shape = (dtype, segment.channel);
                let (call, forwards) =
                    dedup::call(builder, choice, shape, (tokens, bytes, ranks_per_node), ends, buffers);
                return Some(vec![Phase::Call(call, forwards)]);
            }
            all_to_all::call(builder, choice, dtype, bytes, ends)
        }
        CallKind::Send { bytes, from } => {
            flows::send(builder, choice, (flows.first, *bytes, *from), dtype, ends)
        }
        CallKind::AllGather { .. } => {
            return Some(vec![all_gather::phase(builder, choice, dtype, lens, ends)]);
        }
        CallKind::Broadcast { bytes, root, to } => {
            let members = Members::new(*root, *to);
            let rank_count = segment.groups(job.rank_count).size();
            broadcast::call(builder, choice, rank_count, dtype, *bytes, members, ends)
        }
        CallKind::ReduceScatter { .. } => {
            let operands = operands(builder);
            return Some(reduction::reduce_scatter(builder, choice, &operands));
        }
        CallKind::AllReduce { .. } => {
            let operands = operands(builder);
            return Some(reduction::all_reduce(builder, choice, &operands));
        }
    };
    Some(vec![Phase::Call(call, Vec::new())])
}

/// The slots that a compute phase must claim to be one that no collective of the main channel overlaps: all but those that
/// only collectives of the background channel use.
fn exclusive_slots(job: &Job) -> Vec<bool> {
    let mut used = vec![[false; 2]; job.slots.len()];
    for segment in &job.segments {
        for slot in segment.work.slots().into_iter().flatten() {
            used[slot.index()][usize::from(segment.channel.is_background())] = true;
        }
    }
    used.into_iter().map(|[main, background]| main || !background).collect()
}

/// A phase that claims every slot of the main channel is one that no collective there overlaps: it claims the scratch memory, too.
/// Otherwise a rank that is late would receive and hand on frames, and only not decode them.
fn compute(
    builder: &mut ProgramBuilder,
    name: &'static str,
    slots: &[BufferId],
    (reads, writes): (&[Slot], &[Slot]),
    exclusive: &[bool],
    scratch: &Scratch,
) {
    let whole = |builder: &ProgramBuilder, list: &[Slot]| -> Vec<Region> {
        list.iter().map(|slot| builder.whole(slots[slot.index()])).collect()
    };
    let (reads, mut regions) = (whole(builder, reads), whole(builder, writes));
    let is_claimed = |slot: usize| writes.iter().any(|write| write.index() == slot);
    let is_exclusive = exclusive.iter().enumerate().all(|(slot, must)| !must || is_claimed(slot));
    if is_exclusive {
        regions.extend(scratch.buffers().map(|buffer| builder.whole(buffer)));
    }
    builder.push(OpKind::Compute(Compute { name, reads, writes: regions, is_exclusive }));
}

/// How a collective travels.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its algorithm, if it has several; `None` is its default.
    pub algorithm: Option<Algorithm>,
    /// Layout of the frames; `None` is that of the protocol. Only some protocols have several
    /// ([`Protocol::takes_layout`]).
    pub layout: Option<Layout>,
    /// The order of transfers within an exchange; algorithms that order their transfers themselves do not ask.
    pub order: Order,
    /// Open sends, and open receives, per rank; `None` means all peers at once. Asked where [`Self::order`] is, but not
    /// by [`Order::ShiftedRounds`].
    pub window: Option<u32>,
    /// The codec; coded protocols need one.
    pub codec: Option<Spec>,
    /// Which pieces a coded protocol codes.
    pub selection: Selection,
    /// In how many parts a coded protocol cuts what ranks have for each other: while one part travels, the next is coded.
    /// At least 1. With [`Self::dedup`] for every protocol: while one part travels, another is handed on.
    pub parts: u32,
    /// Ranks of a node, for [`Algorithm::Hierarchical`] and for channels: they divide the ranks.
    pub ranks_per_node: u32,
    /// Rings of a collective that travels around rings over several nodes, each with a part of every block: from 1 to the ranks of a
    /// node. They enter and leave nodes at different places, so with as many as a node has NICs, all are used alike. At least 1.
    pub channels: u32,
    /// Slices of what a channel has in each step of a reduction around a ring, and in how many a block travels along a chain: while one is
    /// added up, the next travels. At least 1.
    pub slices: u32,
    /// Type in which partial sums travel, and that of the sums of a Reduce-Scatter.
    pub sums: SumType,
    /// Ranks of a node, if what several ranks of a node want of another one crosses the network once. Asked where it is known
    /// which tokens these are ([`Work::tokens`](crate::Work::tokens)).
    pub dedup: Option<u32>,
    /// How many calls of a channel have memory of their own for frames, summands and rows at gateways, at least 1: call k
    /// shares it with call k + `arenas`. With one, a call is coded only when the one before has been decoded.
    pub arenas: u32,
    /// Whether All-to-Alls are grouped sends and receives of a library ([`Exchange::grouped`](crate::plan::Exchange::grouped)).
    pub grouped: bool,
    /// Bytes of a frame that its slot holds, over those of its values: for [`Protocol::Speculative`], which needs it.
    pub speculative_capacity: Option<f64>,
}

impl Choice {
    /// Arenas where nothing else is said: one to code into while another travels.
    pub const ARENAS: u32 = 2;

    /// A protocol in its plainest form: default algorithm, layout and order, no window, everything coded, in one part.
    pub fn of(protocol: Protocol, codec: Option<Spec>) -> Self {
        Self {
            protocol,
            algorithm: None,
            layout: None,
            order: Order::default(),
            window: None,
            codec,
            selection: Selection::default(),
            parts: 1,
            ranks_per_node: 1,
            channels: 1,
            slices: 1,
            sums: SumType::default(),
            dedup: None,
            arenas: Self::ARENAS,
            grouped: false,
            speculative_capacity: None,
        }
    }

    /// The algorithm of a collective: the first of those that it has, if no other is chosen.
    ///
    /// # Panics
    /// If it has not what is chosen.
    fn algorithm_of(&self, collective: &str, algorithms: &[Algorithm]) -> Algorithm {
        let algorithm = self.algorithm.unwrap_or(algorithms[0]);
        let name = algorithm.name();
        assert!(algorithms.contains(&algorithm), "{collective} does not travel as `{name}`");
        algorithm
    }

    /// Layout of the frames; `None` without frames.
    pub fn layout(&self) -> Option<Layout> {
        self.protocol.layout().map(|of_protocol| self.layout.unwrap_or(of_protocol))
    }
}

/// In which type partial sums leave a rank; additions are in FP32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SumType {
    /// FP32, whatever is contributed.
    #[default]
    Fp32,
    /// That of the contributions, as in NCCL: partial sums of BF16 values are rounded by every rank that hands them on.
    Sent,
}

impl SumType {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Fp32, Self::Sent];

    /// Name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "FP32",
            Self::Sent => "sent",
        }
    }

    /// The type of partial sums of values of another type.
    pub fn of(self, contributions: DType) -> DType {
        match self {
            Self::Fp32 => DType::F32,
            Self::Sent => contributions,
        }
    }
}

/// Which pieces of a coded call are coded; the others travel as they are, beside the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Pieces of fewer bytes stay as they are: what coding costs them does not depend on their length.
    pub least_bytes: u64,
    /// Ranks of a node, if pieces for a rank of the same node stay as they are. For All-to-Alls: other collectives hand pieces on
    /// from node to node.
    pub ranks_per_node: Option<u32>,
}

impl Selection {
    /// Whether a piece of `len` bytes between two ranks is coded; no peer, if it is for all.
    pub fn includes(&self, rank: Rank, peer: Option<Rank>, len: u64) -> bool {
        let is_near = |ranks: u32, other: Rank| rank.0 / ranks == other.0 / ranks;
        let stays = self.ranks_per_node.zip(peer).is_some_and(|(ranks, other)| is_near(ranks, other));
        len >= self.least_bytes && !stays
    }
}
