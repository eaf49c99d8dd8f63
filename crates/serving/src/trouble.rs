//! What goes wrong with a run at a known time.

use crate::{Input, RequestId};

/// A user who does not want an answer any more, or an instance that is gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trouble {
    /// When, in seconds of the run.
    pub at_s: f64,
    /// What.
    pub what: Loss,
}

/// What is lost.
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
    /// What a [`Machine`](crate::Machine) is told.
    pub fn input(self) -> Input {
        match self {
            Self::Request(request) => Input::Cancelled(request),
            Self::Prefill(instance) => Input::PrefillLost { instance },
            Self::Decode(instance) => Input::DecodeLost { instance },
        }
    }
}
