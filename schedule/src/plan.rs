//! The plan: what every rank does, as data. No clock, no thread, no device.
//!
//! A [`Plan`] holds one [`Program`] per rank: ops in topological order over the rank's buffers. Compressed
//! lengths are unknown when a plan is built; they enter it as *sizes*, single-assignment variables over
//! regions of static capacity, so memory is planned although lengths are not.

mod bytes;
mod chunk;
mod library;
mod numbers;
mod region;
mod transfer;

use std::sync::Arc;

pub use self::chunk::{Chunk, Leg};
pub use self::library::{CallKey, Library, Share};
pub(crate) use self::numbers::{Misnumbered, Numbers};
pub use self::region::{Buffer, Region};
pub use self::transfer::{Content, Transfer, TransferKey};

use zipwire_codec::{DType, Layout, Spec};

use crate::{Channel, Lane, OpId, Order, Protocol, Rank, SegmentId, SizeId, Stage, Window};

/// What all ranks do in one iteration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Workload kind of the job that was planned.
    pub job: &'static str,
    /// The protocol of each segment; `None` for those that are no collectives.
    pub protocols: Vec<Option<Protocol>>,
    /// The codec of its encode and decode ops; `None` if it has none.
    pub codec: Option<Spec>,
    /// Name of each segment, by [`SegmentId`].
    pub segments: Vec<Arc<str>>,
    /// One program per rank.
    pub programs: Vec<Arc<Program>>,
}

/// What one rank does in one iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The rank.
    pub rank: Rank,
    /// Ops in topological order; the position of an op is its [`OpId`].
    pub ops: Vec<Op>,
    /// Buffers, by [`BufferId`](crate::BufferId).
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
    /// Those that it is the largest of: at least one, and no maxima.
    pub of: Vec<SizeId>,
}

impl Program {
    /// The sizes that must be defined for `size` to be known: itself, or those that it is the maximum of.
    pub fn operands<'a>(&'a self, size: &'a SizeId) -> &'a [SizeId] {
        let maximum = self.maxima.iter().find(|maximum| maximum.size == *size);
        maximum.map_or(std::slice::from_ref(size), |maximum| &maximum.of)
    }
}

/// One call that an executor issues.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// Its position in the program.
    pub id: OpId,
    /// The segment that it belongs to.
    pub segment: SegmentId,
    /// What it does.
    pub kind: OpKind,
    /// Earlier ops of the same rank that must finish first, derived from hazards; sorted.
    pub deps: Vec<OpId>,
}

/// What an op does.
#[derive(Clone, Debug, PartialEq)]
pub enum OpKind {
    /// The model's own computation; its duration is an input of the run, not of the plan.
    Compute(Compute),
    /// Writes the rests of blocks that travel apart from their frames.
    Split(Batch),
    /// Encodes blocks into frames and defines the sizes of their dynamic sections.
    Encode(Batch),
    /// Decodes frames into blocks.
    Decode(Batch),
    /// Puts rows of received chunks together to others.
    Copy(Copy),
    /// Moves bytes between ranks.
    Exchange(Exchange),
    /// Adds up values.
    Reduce(Reduce),
    /// Calls a collective of a library.
    Library(Library),
}

/// A compute phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// Low-cardinality name.
    pub name: &'static str,
    /// What it needs.
    pub reads: Vec<Region>,
    /// What it fills.
    pub writes: Vec<Region>,
    /// Whether no collective of the main channel overlaps it.
    pub is_exclusive: bool,
}

/// The blocks of one split, encode or decode call.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Layout of the frames.
    pub layout: Layout,
    /// Type of the values.
    pub dtype: DType,
    /// One block per chunk: an encode's own, a decode's from others.
    pub blocks: Vec<Block>,
}

/// A chunk of values and its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The chunk.
    pub chunk: Chunk,
    /// The values, in full.
    pub values: Region,
    /// What of the values travels apart from the frame, a byte per value; empty if nothing does.
    pub rests: Region,
    /// The static section of the frame, in full but for the rests that travel apart; empty in the `compact` layout.
    pub static_section: Region,
    /// Capacity of the dynamic section.
    pub dynamic_section: Region,
    /// Live bytes of the dynamic section: defined by encode, read by decode.
    pub size: SizeId,
}

/// The sums of one call, each added up in FP32 and in the order of its terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// What is added up; no sum reads what another one writes.
    pub additions: Vec<Addition>,
    /// Whether the kernel adds up that moves the terms: then it has no launch of its own.
    pub fused: bool,
}

/// One sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Addition {
    /// What is added, in order; at least one.
    pub terms: Vec<Term>,
    /// What the sum is.
    pub chunk: Chunk,
    /// Where it goes: as many values as each term has, of the type that the chunk's sum says.
    pub values: Region,
}

/// Values that are added to others. Their type is in the chunk's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// What they are.
    pub chunk: Chunk,
    /// The values.
    pub values: Region,
}

impl Reduce {
    /// Bytes that are read: what the cost of a sum is proportional to.
    pub fn bytes_read(&self) -> u64 {
        self.additions.iter().flat_map(|addition| &addition.terms).map(|term| term.values.len).sum()
    }

    /// Bytes that are written.
    pub fn bytes_written(&self) -> u64 {
        self.additions.iter().map(|addition| addition.values.len).sum()
    }
}

/// One gather of rows: a kernel of the device that the codec runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// What it makes.
    pub gathers: Vec<Gather>,
}

/// A chunk that is made of rows of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    /// What is made.
    pub chunk: Chunk,
    /// The rows to choose from.
    pub from: Region,
    /// The rows that are chosen.
    pub to: Region,
    /// For each row of [`Self::to`] its position in [`Self::from`].
    pub rows: Arc<[u32]>,
    /// Bytes of a row.
    pub row_bytes: u64,
}

/// A set of transfers that are opened together.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The exchanges that it waits for are those of the same channel.
    pub channel: Channel,
    /// Whether it is opened as soon as the previous exchange of its channel is open, instead of when that has completed.
    /// Both then share the window, and transfers of the earlier one come first.
    pub joins_previous: bool,
    /// Whether it is a further step of the kernel that the exchange before it has launched, as in the ring of a library: then it has
    /// no launch of its own.
    pub fused: bool,
    /// What it carries.
    pub stage: Stage,
    /// The order in which transfers enter the window. `sends` and `receives` are listed in it, as far as it is known
    /// beforehand: [`Order::AnyReady`] starts from the rotation.
    pub order: Order,
    /// How many transfers are open at a time.
    pub window: Window,
    /// Transfers that leave this rank.
    pub sends: Vec<Transfer>,
    /// Transfers that arrive.
    pub receives: Vec<Transfer>,
}

impl OpKind {
    /// The exchange, if it is one.
    pub fn exchange(&self) -> Option<&Exchange> {
        match self {
            Self::Exchange(exchange) => Some(exchange),
            Self::Compute(_)
            | Self::Split(_)
            | Self::Encode(_)
            | Self::Decode(_)
            | Self::Reduce(_)
            | Self::Copy(_)
            | Self::Library(_) => None,
        }
    }

    /// The call of a library, if it is one.
    pub fn library(&self) -> Option<&Library> {
        if let Self::Library(library) = self { Some(library) } else { None }
    }

    /// What it carries, if it is an exchange or a call of a library.
    pub fn stage(&self) -> Option<Stage> {
        self.exchange().map(|exchange| exchange.stage).or(self.library().map(|library| library.stage))
    }

    /// The blocks, if it codes some.
    pub fn batch(&self) -> Option<&Batch> {
        match self {
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => Some(batch),
            Self::Compute(_) | Self::Exchange(_) | Self::Reduce(_) | Self::Copy(_) | Self::Library(_) => None,
        }
    }

    /// The lane that it occupies.
    pub fn lane(&self) -> Lane {
        match self {
            Self::Compute(_) => Lane::Compute,
            Self::Split(_) | Self::Encode(_) | Self::Decode(_) | Self::Reduce(_) | Self::Copy(_) => {
                Lane::Codec
            }
            Self::Exchange(exchange) => exchange.channel.lane(),
            Self::Library(library) => library.channel.lane(),
        }
    }

    /// Whether it has nothing to do: such ops are left out of programs.
    pub fn is_idle(&self) -> bool {
        match self {
            Self::Compute(_) => false,
            Self::Split(batch) | Self::Encode(batch) | Self::Decode(batch) => batch.blocks.is_empty(),
            Self::Copy(copy) => copy.gathers.is_empty(),
            Self::Exchange(exchange) => exchange.sends.is_empty() && exchange.receives.is_empty(),
            Self::Reduce(reduce) => reduce.additions.is_empty(),
            Self::Library(library) => library.inputs.is_empty() && library.outputs.is_empty(),
        }
    }

    /// Low-cardinality name, for timelines and texts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Compute(compute) => compute.name,
            Self::Split(_) => "split",
            Self::Encode(_) => "encode",
            Self::Decode(_) => "decode",
            Self::Copy(_) => "copy",
            Self::Exchange(_) => "exchange",
            Self::Reduce(_) => "reduce",
            Self::Library(_) => "library",
        }
    }

    /// Regions whose content it needs.
    pub fn reads(&self) -> Vec<Region> {
        match self {
            Self::Compute(compute) => compute.reads.clone(),
            Self::Split(batch) | Self::Encode(batch) => {
                batch.blocks.iter().map(|block| block.values).collect()
            }
            Self::Decode(batch) => batch.rests().chain(batch.frames()).collect(),
            Self::Copy(copy) => copy.gathers.iter().map(|gather| gather.from).collect(),
            Self::Exchange(exchange) => exchange.sends.iter().filter_map(|t| t.content.region()).collect(),
            Self::Reduce(reduce) => {
                let terms = reduce.additions.iter().flat_map(|addition| &addition.terms);
                terms.map(|term| term.values).collect()
            }
            Self::Library(library) => library.inputs.iter().filter_map(|s| s.content.region()).collect(),
        }
    }

    /// Regions that it fills.
    pub fn writes(&self) -> Vec<Region> {
        match self {
            Self::Compute(compute) => compute.writes.clone(),
            Self::Split(batch) => batch.rests().collect(),
            Self::Encode(batch) => batch.frames().collect(),
            Self::Decode(batch) => batch.blocks.iter().map(|block| block.values).collect(),
            Self::Copy(copy) => copy.gathers.iter().map(|gather| gather.to).collect(),
            Self::Exchange(exchange) => exchange.receives.iter().filter_map(|t| t.content.region()).collect(),
            Self::Reduce(reduce) => reduce.additions.iter().map(|addition| addition.values).collect(),
            Self::Library(library) => library.outputs.iter().filter_map(|s| s.content.region()).collect(),
        }
    }

    /// Sizes that it defines.
    pub fn defines(&self) -> Vec<SizeId> {
        match self {
            Self::Encode(batch) => batch.blocks.iter().map(|block| block.size).collect(),
            Self::Exchange(exchange) => exchange.receives.iter().filter_map(|t| t.content.brings()).collect(),
            Self::Library(library) => library.outputs.iter().filter_map(|s| s.content.brings()).collect(),
            Self::Compute(_) | Self::Split(_) | Self::Decode(_) | Self::Reduce(_) | Self::Copy(_) => {
                Vec::new()
            }
        }
    }

    /// Sizes that it reads.
    pub fn uses(&self) -> Vec<SizeId> {
        match self {
            Self::Decode(batch) => batch.blocks.iter().map(|block| block.size).collect(),
            Self::Exchange(exchange) => {
                let sent =
                    exchange.sends.iter().filter_map(|t| t.content.brings().or(t.content.measured_by()));
                sent.chain(exchange.receives.iter().filter_map(|t| t.content.measured_by())).collect()
            }
            Self::Library(library) => {
                let given = library.inputs.iter();
                let given = given.filter_map(|s| s.content.brings().or(s.content.measured_by()));
                given.chain(library.outputs.iter().filter_map(|s| s.content.measured_by())).collect()
            }
            Self::Compute(_) | Self::Split(_) | Self::Encode(_) | Self::Reduce(_) | Self::Copy(_) => {
                Vec::new()
            }
        }
    }

    /// Sizes that the host must know before it can issue the op, also where devices order the rest.
    pub fn host_sizes(&self) -> Vec<SizeId> {
        match self {
            Self::Exchange(exchange) => {
                let transfers = exchange.sends.iter().chain(&exchange.receives);
                transfers.filter_map(|t| t.content.measured_by()).collect()
            }
            Self::Library(library) => library.shares().filter_map(|s| s.content.measured_by()).collect(),
            Self::Compute(_)
            | Self::Split(_)
            | Self::Encode(_)
            | Self::Decode(_)
            | Self::Reduce(_)
            | Self::Copy(_) => Vec::new(),
        }
    }
}

impl Block {
    /// Bytes whose number is known before anything is coded: those of the rests that travel apart, and of the static section.
    /// Together they are the static section of a whole frame.
    pub fn known_len(&self) -> u64 {
        self.rests.len + self.static_section.len
    }
}

impl Batch {
    /// Raw bytes of all blocks.
    pub fn bytes_raw(&self) -> u64 {
        self.blocks.iter().map(|block| block.values.len).sum()
    }

    fn rests(&self) -> impl Iterator<Item = Region> + '_ {
        self.blocks.iter().map(|block| block.rests)
    }

    fn frames(&self) -> impl Iterator<Item = Region> + '_ {
        self.blocks.iter().flat_map(|block| [block.static_section, block.dynamic_section])
    }
}

impl Copy {
    /// Bytes that it writes.
    pub fn bytes(&self) -> u64 {
        self.gathers.iter().map(|gather| gather.to.len).sum()
    }
}
