//! Messages between a machine and its driver, and troubles that become messages at known times.

use std::ops::Range;

use crate::{Moment, RequestId};

/// A part of a cache on its way, all shards together; ids are used again once a flow has arrived or was stopped.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Position in a table of flows; stays below the largest number of flows that were open at once.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// News from the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are named by the docs of their variants")]
pub enum Input {
    /// A request is there; requests arrive in the order of their ids.
    Arrived(RequestId),
    /// A prefill instance has computed the next group of layers of its [`PrefillStep`].
    Computed { instance: u32 },
    /// All shards of a flow are decoded where they belong.
    Moved(FlowId),
    /// A decode instance has ended its step.
    Stepped { instance: u32 },
    /// A user does not want an answer any more.
    Cancelled(RequestId),
    /// A prefill instance is gone, and with it all caches that it had.
    PrefillLost { instance: u32 },
    /// A decode instance is gone.
    DecodeLost { instance: u32 },
}

/// Next action of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are named by the docs of their variants")]
pub enum Step {
    /// A prefill instance computes; [`Input::Computed`] is expected once for each group of layers, in their order.
    Prefill(PrefillStep),
    /// A part of a cache moves; [`Input::Moved`] is expected when it is there.
    Move(FlowId, Flow),
    /// Nobody waits for a flow any more: its id is free from here on, so [`Input::Moved`] must not follow. What has moved may be lost.
    Stop(FlowId),
    /// A decode instance computes; [`Input::Stepped`] is expected.
    Decode(DecodeStep),
    /// A decode instance has ended a step, in which so many sequences got a token that had one in its step before; those that somebody
    /// still waits for.
    Tokens {
        instance: u32,
        /// How many.
        continuing: u32,
    },
    /// Something has happened to a request.
    Note(RequestId, Moment),
}

/// Tokens of a prompt that an instance computes at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefillStep {
    /// Which instance.
    pub instance: u32,
    /// Which request.
    pub request: RequestId,
    /// Which tokens of the prompt.
    pub tokens: Range<u32>,
}

/// A part of a request's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Which request.
    pub request: RequestId,
    /// From which instance.
    pub prefill: u32,
    /// To which instance.
    pub decode: u32,
    /// Which tokens.
    pub tokens: Range<u32>,
    /// Which group of layers.
    pub group: u32,
    /// Whether it is the first of its request.
    pub is_first: bool,
}

/// A step of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeStep {
    /// Which instance.
    pub instance: u32,
    /// Sequences of the batch.
    pub sequences: u32,
    /// Tokens that they have so far.
    pub context_tokens: u64,
}

/// A user who does not want an answer any more, or an instance that is gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trouble {
    /// When, in seconds of the run.
    pub at_s: f64,
    /// Kind.
    pub what: Loss,
}

/// Loss that a machine is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The interest in an answer.
    Request(RequestId),
    /// A prefill instance.
    Prefill(u32),
    /// A decode instance.
    Decode(u32),
}

impl Loss {
    /// Message to a [`Machine`](crate::Machine).
    pub fn input(self) -> Input {
        match self {
            Self::Request(request) => Input::Cancelled(request),
            Self::Prefill(instance) => Input::PrefillLost { instance },
            Self::Decode(instance) => Input::DecodeLost { instance },
        }
    }
}
