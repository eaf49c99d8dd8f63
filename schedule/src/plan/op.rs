//! Ops. Each kind states its [`Effects`]; hazards, validation, verification and memory estimates follow from these.

use super::{Batch, Chunk, Exchange, Library, Local, Region};
use crate::{Lane, Rank, SizeId, Stage};

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
            Self::Library(library) => library.shares().filter_map(|s| s.content.measured_by()).collect(),
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
}

/// Everything that hazards, checks, verification and estimates need to know about an op; each kind of op states it once.
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
    pub(super) fn effects(&self) -> Effects {
        Effects { reads: self.reads.clone(), writes: self.writes.clone(), ..Effects::default() }
    }
}
