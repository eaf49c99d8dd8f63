//! The plan: what every rank does, as data. No clock, no thread, no device.
//!
//! A [`Plan`] holds one [`Program`] per rank: ops in topological order over the rank's buffers. Compressed
//! lengths are unknown when a plan is built; they enter it as *sizes*, single-assignment variables over
//! regions of static capacity, so memory is planned although lengths are not.

mod batch;
mod chunk;
mod error;
mod library;
mod local;
mod numbers;
mod op;
mod totals;
mod transfer;

use std::borrow::Cow;
use std::sync::Arc;

pub use self::batch::{Batch, Block};
pub use self::chunk::{Chunk, Leg};
pub use self::error::PlanError;
pub use self::library::{CallKey, Library, Share};
pub use self::local::{Addition, Gather, GatherRows, Local, LocalKind, Reduce, Term};
pub(crate) use self::numbers::{Misnumbered, Numbers};
pub use self::op::{Compute, Effects, OpKind};
pub use self::totals::PlanSize;
pub use self::transfer::{Content, Exchange, Transfer, TransferKey};

use zipwire_codec::Spec;

use crate::{BufferId, OpId, Protocol, Rank, SegmentId, SizeId};

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
    /// One program per rank.
    pub programs: Vec<Arc<Program>>,
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
