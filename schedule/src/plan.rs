//! The plan: what every rank does, as data. No clock, no thread, no device.
//!
//! A [`Plan`] holds one [`Program`] per rank: ops in topological order over the rank's buffers. Compressed
//! lengths are unknown when a plan is built; they enter it as *sizes*, single-assignment variables over
//! regions of static capacity, so memory is planned although lengths are not.

mod local;
mod shares;
mod transfer;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use zipwire_cluster::{Group, Groups};
use zipwire_codec::Spec;

use crate::{BufferId, Lane, OpId, Protocol, Rank, SegmentId, SizeId, Stage, Sum, Symmetry};

pub use self::local::{Addition, Batch, Block, Gather, GatherRows, Local, LocalKind, Reduce, Term};
pub use self::shares::{Lens, Row, Share, Shares};
pub use self::transfer::{CallKey, Content, Exchange, Library, Transfer, TransferKey};
pub(crate) use self::transfer::{Misnumbered, Numbers};

/// Programs of all ranks for one iteration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Workload kind of the job that was planned.
    pub job: &'static str,
    /// The protocol of each segment; `None` for compute phases and for explicit flows that travel as they are.
    pub protocols: Vec<Option<Protocol>>,
    /// The codec of its encode and decode ops; `None` if it has none.
    pub codec: Option<Spec>,
    /// Name of each segment, by [`SegmentId`].
    pub segments: Vec<Arc<str>>,
    /// Groups of ranks that do each segment; `None` is all ranks.
    pub among: Vec<Option<Groups>>,
    /// The ranks that stand for others; each for itself, unless ranks are alike.
    pub symmetry: Symmetry,
    /// One program per rank, of those that stand for others.
    pub programs: Vec<Arc<Program>>,
    /// Bytes of values that these ranks get and add up, if some of their transfers stand for others; `None` if each stands for itself.
    pub merged: Option<MergedBytes>,
}

/// Bytes of values of the ranks of a folded plan, before transfers that are alike were merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergedBytes {
    /// That they get.
    pub delivered: u64,
    /// That they add up.
    pub reduced: u64,
}

/// Program of one rank for one iteration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The rank.
    pub rank: Rank,
    /// Ops in topological order; the position of an op is its [`OpId`].
    pub ops: Vec<Op>,
    /// Buffers, by [`BufferId`].
    pub buffers: Vec<Buffer>,
    /// Number of sizes.
    pub size_count: u32,
    /// Sizes that follow from others.
    pub maxima: Vec<Maximum>,
}

/// A size that is known when the last of some others is: the largest of them. What is padded has it as its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maximum {
    /// The size.
    pub size: SizeId,
    /// Operands: at least one, and no maxima.
    pub of: Vec<SizeId>,
}

impl Program {
    /// The sizes that must be defined for `size` to be known: itself, or those that it is the maximum of.
    pub fn operands<'a>(&'a self, size: &'a SizeId) -> &'a [SizeId] {
        let maximum = self.maxima.iter().find(|maximum| maximum.size == *size);
        maximum.map_or(std::slice::from_ref(size), |maximum| &maximum.of)
    }

    /// The values that the rank gets from others, and where, whether by a decoder, by a transfer, or put together from what
    /// it got as a gateway.
    pub fn delivered(&self) -> impl Iterator<Item = (Chunk, Region)> + '_ {
        self.ops.iter().flat_map(|op| op.kind.delivered(self.rank))
    }
}

/// Bytes of values that a rank gets by some of its ops.
pub(crate) fn bytes_delivered(ops: &[Op], rank: Rank) -> u64 {
    let delivered = |kind: &OpKind| match kind {
        OpKind::Library(library) => library.bytes_delivered(),
        kind => kind.delivered(rank).iter().map(|(_, region)| region.len).sum(),
    };
    ops.iter().map(|op| delivered(&op.kind)).sum()
}

/// Bytes of sums that a rank makes or gets by some of its ops.
pub(crate) fn bytes_reduced(ops: &[Op]) -> u64 {
    let reduced = |kind: &OpKind| match kind {
        OpKind::Library(library) => library.bytes_reduced(),
        kind => kind.values().sums.iter().map(|(_, region)| region.len).sum(),
    };
    ops.iter().map(|op| reduced(&op.kind)).sum()
}

/// One call that an executor issues.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// Its position in the program.
    pub id: OpId,
    /// The segment that it belongs to.
    pub segment: SegmentId,
    /// Kind and operands.
    pub kind: OpKind,
    /// Seconds after the iteration's start before which it is not issued; 0 of all but the coding of explicit flows.
    pub not_before_s: f64,
    /// Earlier ops of the same rank that must finish first, derived from hazards; sorted.
    pub deps: Vec<OpId>,
}

/// Memory of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Purpose, for the plan's text.
    pub name: Cow<'static, str>,
    /// Bytes.
    pub capacity: u64,
}

/// A byte range of a buffer. Its length is the capacity that was planned for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The buffer.
    pub buffer: BufferId,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl Region {
    /// First byte after the region.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// Whether both name at least one common byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.buffer == other.buffer && self.offset.max(other.offset) < self.end().min(other.end())
    }

    /// Whether every byte of `other` is in this region.
    pub fn covers(&self, other: &Self) -> bool {
        self.buffer == other.buffer && self.offset <= other.offset && other.end() <= self.end()
    }
}

/// Kind of an op, with its operands.
#[derive(Clone, Debug, PartialEq)]
pub enum OpKind {
    /// The model's own computation; its duration is an input of the run, not of the plan.
    Compute(Compute),
    /// Works on bytes of the rank itself: codes, adds up, puts together.
    Local(Local),
    /// Moves bytes between ranks.
    Exchange(Exchange),
    /// Calls a collective of a library.
    Library(Library),
}

impl OpKind {
    /// Effects on memory, sizes and peers.
    pub fn effects(&self) -> Effects {
        match self {
            Self::Compute(compute) => compute.effects(),
            Self::Local(local) => local.effects(),
            Self::Exchange(exchange) => exchange.effects(),
            Self::Library(library) => library.effects(),
        }
    }

    /// Values that it takes, delivers and adds up, by chunk.
    pub fn values(&self) -> Values {
        match self {
            Self::Compute(_) => Values::default(),
            Self::Local(local) => local.values(),
            Self::Exchange(exchange) => exchange.values(),
            Self::Library(library) => library.values(),
        }
    }

    /// The exchange, if it is one.
    pub fn exchange(&self) -> Option<&Exchange> {
        if let Self::Exchange(exchange) = self { Some(exchange) } else { None }
    }

    /// The call of a library, if it is one.
    pub fn library(&self) -> Option<&Library> {
        if let Self::Library(library) = self { Some(library) } else { None }
    }

    /// The local work, if it is that.
    pub fn local(&self) -> Option<&Local> {
        if let Self::Local(local) = self { Some(local) } else { None }
    }

    /// The blocks that it encodes, if it does.
    pub fn encoded(&self) -> Option<&Batch> {
        if let Self::Local(Local::Encode(batch)) = self { Some(batch) } else { None }
    }

    /// Stage that it carries, if it is an exchange or a call of a library.
    pub fn stage(&self) -> Option<Stage> {
        self.exchange().map(|exchange| exchange.stage).or(self.library().map(|library| library.stage))
    }

    /// The blocks, if it codes some.
    pub fn batch(&self) -> Option<&Batch> {
        self.local()?.batch()
    }

    /// The lane that it occupies.
    pub fn lane(&self) -> Lane {
        match self {
            Self::Compute(_) => Lane::Compute,
            Self::Local(_) => Lane::Codec,
            Self::Exchange(exchange) => exchange.channel.lane(),
            Self::Library(library) => library.channel.lane(),
        }
    }

    /// The same op by ranks of a group, whose positions its ranks are.
    #[must_use]
    pub(crate) fn within(self, group: &Group) -> Self {
        match self {
            Self::Compute(_) => self,
            Self::Local(local) => Self::Local(local.within(group)),
            Self::Exchange(exchange) => Self::Exchange(exchange.within(group)),
            Self::Library(library) => Self::Library(library.within(group)),
        }
    }

    /// Whether it has nothing to do: such ops are left out of programs.
    pub fn is_idle(&self) -> bool {
        match self {
            Self::Compute(_) => false,
            Self::Local(local) => local.is_idle(),
            Self::Exchange(exchange) => exchange.sends.is_empty() && exchange.receives.is_empty(),
            Self::Library(library) => library.inputs.is_empty() && library.outputs.is_empty(),
        }
    }

    /// Sizes that the host must know before it can issue the op, also where devices order the rest.
    pub fn host_sizes(&self) -> Vec<SizeId> {
        match self {
            Self::Compute(_) | Self::Local(_) => Vec::new(),
            Self::Exchange(exchange) => {
                let transfers = exchange.sends.iter().chain(&exchange.receives);
                transfers.filter_map(|t| t.content.measured_by()).collect()
            }
            Self::Library(library) => library.measured_by().collect(),
        }
    }

    /// Low-cardinality name, for timelines and texts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Compute(compute) => compute.name,
            Self::Local(local) => local.kind().name(),
            Self::Exchange(_) => "exchange",
            Self::Library(_) => "library",
        }
    }

    /// The values that it gives to the model of `rank`, which carries it out, and where it puts them.
    pub fn delivered(&self, rank: Rank) -> Vec<(Chunk, Region)> {
        let mut values = self.values().delivers;
        values.retain(|(chunk, _)| chunk.is_delivered(rank));
        values
    }
}

/// Everything that hazards and checks need to know about an op; each kind of op states it once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Regions whose content it needs.
    pub reads: Vec<Region>,
    /// Regions that it fills.
    pub writes: Vec<Region>,
    /// Sizes that it defines.
    pub defines: Vec<SizeId>,
    /// Sizes that it reads.
    pub uses: Vec<SizeId>,
    /// Ranks that it names, whether it moves something to them or codes it for them.
    pub peers: Vec<Rank>,
}

/// Values that an op works on, chunk by chunk: what verification fills and compares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// Values that it takes from the model, or hands on, and where they are.
    pub takes: Vec<(Chunk, Region)>,
    /// Values of other ranks that it puts where the rank, or a gateway, wants them, and where that is.
    pub delivers: Vec<(Chunk, Region)>,
    /// Sums that it makes, and where it puts them.
    pub sums: Vec<(Chunk, Region)>,
}

/// A compute phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// Low-cardinality name.
    pub name: &'static str,
    /// Regions that it needs.
    pub reads: Vec<Region>,
    /// Regions that it fills.
    pub writes: Vec<Region>,
    /// Whether no collective of the main channel overlaps it.
    pub is_exclusive: bool,
}

impl Compute {
    fn effects(&self) -> Effects {
        Effects { reads: self.reads.clone(), writes: self.writes.clone(), ..Effects::default() }
    }
}

impl Plan {
    /// Number of ranks, those among them that others stand for.
    pub fn rank_count(&self) -> u32 {
        self.symmetry.ranks()
    }

    /// The program of a rank, or of the one that stands for it.
    pub fn program(&self, rank: Rank) -> &Program {
        &self.programs[self.symmetry.place(rank)]
    }

    /// Bytes of all ranks, of those that the members have.
    fn of_all(&self, bytes: u64) -> u64 {
        bytes * u64::from(self.symmetry.alike())
    }

    /// The protocol of all its collectives; native if it has none, `None` if they have different ones.
    pub fn protocol(&self) -> Option<Protocol> {
        let mut protocols = self.protocols.iter().copied().flatten();
        let first = protocols.next().unwrap_or(Protocol::Native);
        protocols.all(|other| other == first).then_some(first)
    }

    /// Bytes of all buffers of all ranks.
    pub fn buffer_bytes(&self) -> u64 {
        self.of_all(
            self.programs.iter().flat_map(|program| &program.buffers).map(|buffer| buffer.capacity).sum(),
        )
    }

    /// Bytes of values that all ranks get in one iteration, uncompressed; what a rank has itself is excluded. On
    /// whatever path it comes, a block counts once for each rank that gets it, and not at gateways, which hand it on.
    /// In reductions this is what ranks get to add up, and sums that they get from others; of those of a library, what these
    /// are around a ring.
    pub fn bytes_raw(&self) -> u64 {
        let calls = self.ops().filter_map(|op| op.kind.library());
        self.bytes_delivered() + self.of_all(calls.map(Library::reduction_bytes).sum::<u64>())
    }

    /// Bytes of values that executors compare with what they must be, in one iteration: what ranks get, and sums.
    pub fn bytes_verified(&self) -> u64 {
        self.bytes_delivered() + self.bytes_reduced()
    }

    fn bytes_delivered(&self) -> u64 {
        let of_members =
            || self.programs.iter().map(|program| bytes_delivered(&program.ops, program.rank)).sum();
        self.of_all(self.merged.map_or_else(of_members, |bytes| bytes.delivered))
    }

    fn ops(&self) -> impl Iterator<Item = &Op> {
        self.programs.iter().flat_map(|program| &program.ops)
    }

    /// Bytes of sums that all ranks compute in one iteration.
    pub fn bytes_reduced(&self) -> u64 {
        let of_members = || self.programs.iter().map(|program| bytes_reduced(&program.ops)).sum();
        self.of_all(self.merged.map_or_else(of_members, |bytes| bytes.reduced))
    }
}

/// Counts of the parts that make up a plan, over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanSize {
    /// Ends of transfers: two of each.
    pub ends: u64,
    /// Blocks that are coded, at all who code them.
    pub blocks: u64,
    /// Inputs and outputs of calls of a library; rows of all ranks count as one.
    pub shares: u64,
    /// Spans of an iteration: of ops, of ends of transfers, and two of each call of a library. Overflow of slots is counted as if
    /// it happened.
    pub spans: u64,
}

impl PlanSize {
    /// Size of a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut size = Self::default();
        plan.programs.iter().flat_map(|program| &program.ops).for_each(|op| size.add(&op.kind, 1));
        size
    }

    /// Bytes that the plan takes, at the least.
    pub fn bytes(&self) -> u64 {
        self.ends * size_of::<Transfer>() as u64
            + self.blocks * size_of::<Block>() as u64
            + self.shares * size_of::<Share>() as u64
    }

    /// Adds an op that is there so many times.
    pub(crate) fn add(&mut self, kind: &OpKind, times: u64) {
        self.spans += times;
        match kind {
            OpKind::Exchange(exchange) => {
                let ends = exchange.sends.iter().chain(&exchange.receives);
                self.ends += times * ends.clone().count() as u64;
                // What slots could not hold moves only if there is any.
                let moves = ends.filter(|end| !matches!(end.content, Content::Overflow { .. }));
                self.spans += times * moves.count() as u64;
            }
            OpKind::Library(library) => {
                self.shares += times * (library.inputs.entries() + library.outputs.entries()) as u64;
                self.spans += times * 2;
            }
            OpKind::Local(local) => {
                self.blocks += times * local.batch().map_or(0, |batch| batch.blocks.len() as u64);
            }
            OpKind::Compute(_) => {}
        }
    }
}

/// Why a plan cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum PlanError {
    /// A program or an op is not where its id says.
    #[error("program {position} is that of rank {rank}, and its ops are not in the order of their ids")]
    Misplaced { position: usize, rank: Rank },
    /// A region reaches beyond its buffer.
    #[error("op `{op}` of rank {rank} uses `{region}` beyond the end of its buffer")]
    OutOfBuffer { rank: Rank, op: OpId, region: String },
    /// Two parts of an op write the same bytes.
    #[error("op `{op}` of rank {rank} writes `{region}` twice")]
    WrittenTwice { rank: Rank, op: OpId, region: String },
    /// Local work that contradicts itself.
    #[error("op `{op}` of rank {rank} {defect}")]
    BadLocal { rank: Rank, op: OpId, defect: &'static str },
    /// The dependencies of an op are not those that its hazards demand.
    #[error("op `{op}` of rank {rank} has the dependencies {found:?}, its hazards demand {expected:?}")]
    Dependencies { rank: Rank, op: OpId, found: Vec<OpId>, expected: Vec<OpId> },
    /// A size is read before an op defines it, or does not exist.
    #[error("op `{op}` of rank {rank} reads size `{size}` before its definition")]
    SizeNotDefined { rank: Rank, op: OpId, size: SizeId },
    /// A size has no definition or several.
    #[error("size `{size}` of rank {rank} has {definitions} definitions, expected 1")]
    SizeNotDefinedOnce { rank: Rank, size: SizeId, definitions: usize },
    /// A maximum of no sizes, of sizes that come after it, or of other maxima.
    #[error(
        "size `{size}` of rank {rank} is the largest of sizes that do not precede it, of maxima, or of none"
    )]
    BadMaximum { rank: Rank, size: SizeId },
    /// A rank hands on what it has not received, or something else than that.
    #[error("exchange `{op}` of rank {rank} hands on what it has not received as the chunk of rank {origin}")]
    NotReceived { rank: Rank, op: OpId, origin: Rank },
    /// A rank does not get what the job wants it to have.
    #[error(
        "rank {rank} waits for {expected} bytes that are of rank {of} in `{segment}`, and the plan brings it {found} of them"
    )]
    Undelivered {
        rank: Rank,
        segment: String,
        /// Rank whose values they are, or, in a reduction, whose shard.
        of: Rank,
        expected: u64,
        found: u64,
    },
    /// A rank sends to itself or to a rank that does not exist.
    #[error("op `{op}` of rank {rank} names peer {peer}, which is not another rank of the plan")]
    BadPeer { rank: Rank, op: OpId, peer: Rank },
    /// A window that admits nothing.
    #[error("exchange `{op}` of rank {rank} has a window of zero")]
    EmptyWindow { rank: Rank, op: OpId },
    /// Two transfers of one exchange with the same peer have the same chunk: nothing says which of them comes first.
    #[error("exchange `{op}` of rank {rank} lists the same chunk twice for peer {peer}")]
    ListedTwice { rank: Rank, op: OpId, peer: Rank },
    /// A transfer has another number than its place in the program gives it.
    #[error(
        "exchange `{op}` of rank {rank} has a transfer with peer {peer} as number {found}, and its place in the program \
         makes it number {expected}"
    )]
    Misnumbered { rank: Rank, op: OpId, peer: Rank, found: u32, expected: u32 },
    /// A transfer of which one end is missing, or that several ends claim to be.
    #[error(
        "transfer {number} from rank {src} to rank {dst}, {stage} of segment {segment}: {sends} sends and {receives} \
         receives, expected one each",
        stage = .key.stage.name(), number = .key.number, segment = .key.segment.0, src = .key.src, dst = .key.dst
    )]
    Unmatched { key: TransferKey, sends: usize, receives: usize },
    /// The ends of a transfer mean different things: segment, stage, chunk, kind, capacity, or frames whose size it is.
    #[error(
        "the ends of transfer {number} from rank {src} to rank {dst} disagree about {about}\n\
         the sender: {sent}\n\
         the receiver: {received}"
    )]
    Disagreement { src: Rank, dst: Rank, number: u32, about: &'static str, sent: String, received: String },
    /// More transfers than the executor can tell apart by its tags ([`Plan::check_tags`]).
    #[error(
        "rank {src} sends {count} messages to rank {dst} in one iteration, and this executor has the tags 0 to {largest} \
         to tell them apart\n\
         help: cut calls into fewer chunks, or plan fewer layers or flows per iteration"
    )]
    TooManyTransfers { src: Rank, dst: Rank, count: u32, largest: u32 },
    /// A call of a library that is not what its collective is.
    #[error(
        "op `{op}` of rank {rank} calls a collective of a library for another number of ranks, or with what does not go into \
         it or does not come out"
    )]
    BadCall { rank: Rank, op: OpId },
    /// Ranks disagree about a call of a library, or one has it twice or not at all.
    #[error(
        "rank {rank} does not call the library as rank 0 does for the {stage} call {part} of segment {segment}",
        stage = .key.stage.name(), part = .key.part, segment = .key.segment.0
    )]
    UnmatchedCall { key: CallKey, rank: Rank },
    /// Ranks depend on one another in a circle: each op waits for the one before it, and the first for the last.
    #[error("ranks wait for one another for ever, in a circle: {}", circle(.ops))]
    Cycle { ops: Vec<(Rank, OpId)> },
    /// The windows let no transfer through.
    #[error(
        "ranks wait for one another for ever: no window admits both ends of a transfer; rank {rank} is in `{op}`"
    )]
    Blocked { rank: Rank, op: OpId },
}

fn circle(ops: &[(Rank, OpId)]) -> String {
    let named: Vec<String> = ops.iter().map(|(rank, op)| format!("`{op}` of rank {rank}")).collect();
    named.join(", ")
}

/// Identity of a piece of values: origin, destination and place. A payload is drawn for it and checked against it, whatever the
/// path on which it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk {
    /// The rank that contributes them.
    pub origin: Rank,
    /// The rank that they are for; `None` if every rank gets the same.
    pub destination: Option<Rank>,
    /// Tells explicit flows between the same two ranks apart; 0 in collectives.
    pub flow: u32,
    /// Part of the data between the ranks that it is, counted from 0; 0 where nothing is cut into parts.
    pub part: u32,
    /// Its first byte in the data between the ranks.
    pub offset: u64,
    /// Contributions that are added up in it, in reductions: the origin is then the rank that added, and the shard is that of the
    /// destination, or of the origin if it is for all. `None` where nothing is added up.
    pub sum: Option<Sum>,
    /// Whether it goes straight from the origin to the destination.
    pub leg: Leg,
}

/// Leg of the way from its origin that a chunk is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leg {
    /// All of it.
    #[default]
    Direct,
    /// To the rank that serves the origin in another node, which is the destination. The chunk holds each token that the
    /// origin has for a rank of that node, once, in the order of the tokens.
    ToGateway {
        /// Ranks of a node.
        ranks_per_node: u32,
    },
    /// From there, as what the origin has for the destination.
    FromGateway,
}

impl Chunk {
    /// Chunk of one rank for another in a collective.
    pub fn between(origin: Rank, destination: Rank) -> Self {
        Self { destination: Some(destination), ..Self::for_all(origin) }
    }

    /// Chunk of one rank for every other rank.
    pub fn for_all(origin: Rank) -> Self {
        Self { origin, destination: None, flow: 0, part: 0, offset: 0, sum: None, leg: Leg::Direct }
    }

    /// The same, with what is added up in it.
    #[must_use]
    pub fn with_sum(self, sum: Sum) -> Self {
        Self { sum: Some(sum), ..self }
    }

    /// The same by ranks of a group, whose positions its ranks are.
    #[must_use]
    pub(crate) fn within(self, group: &Group) -> Self {
        Self {
            origin: group.at(self.origin.0),
            destination: self.destination.map(|rank| group.at(rank.0)),
            sum: self.sum.map(|sum| sum.within(group)),
            ..self
        }
    }

    /// The rank whose shard it is, in reductions.
    pub fn shard(&self) -> Rank {
        self.destination.unwrap_or(self.origin)
    }

    /// Whether the model of `rank`, which has it, waits for it; gateways also get chunks that they hand on.
    pub fn is_delivered(&self, rank: Rank) -> bool {
        match self.leg {
            Leg::Direct => true,
            Leg::ToGateway { .. } => false,
            Leg::FromGateway => self.destination == Some(rank),
        }
    }

    /// Appends the part of the data between two ranks that it is, if that is cut into parts.
    pub(crate) fn write_part(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.part == 0 { Ok(()) } else { write!(f, " part {} at {}", self.part, self.offset) }
    }

    /// Appends the sum that the chunk holds, if it holds one.
    pub(crate) fn write_sum(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sum.map_or(Ok(()), |sum| write!(f, ", shard {}, {sum}", self.shard()))
    }

    /// Remark on the rows that it holds, if they are not simply those for its destination.
    pub(crate) fn leg_text(&self) -> &'static str {
        match self.leg {
            Leg::Direct | Leg::FromGateway => "",
            Leg::ToGateway { .. } => ", each row once",
        }
    }
}
