//! How much memory a run takes, and how much it may take.

use std::fmt;

use zipwire_schedule::{Plan, PlanSize};

use crate::available::available;

/// Bytes that a span takes until it is written, with what a simulation keeps of its transfer: an All-to-All of 1024 ranks peaks at
/// 195 for each beside the plan, in one burst, and at 110 in rounds.
pub(crate) const SPAN_BYTES: u64 = 200;

/// Bytes that a run may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemoryLimit {
    /// Stated by the user.
    Stated(u64),
    /// Memory that was available at the time of the query.
    Available(u64),
    /// The system does not say.
    Unknown,
}

impl MemoryLimit {
    /// The stated limit, or what the system could give now.
    pub(crate) fn new(stated: Option<u64>) -> Self {
        match (stated, available()) {
            (Some(bytes), _) => Self::Stated(bytes),
            (None, Some(bytes)) => Self::Available(bytes),
            (None, None) => Self::Unknown,
        }
    }

    /// Bytes, if there is a limit.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            Self::Stated(bytes) | Self::Available(bytes) => Some(bytes),
            Self::Unknown => None,
        }
    }

    /// Whether a run of so many bytes stays within it.
    pub(crate) fn allows(self, bytes: u64) -> bool {
        self.bytes().is_none_or(|limit| bytes <= limit)
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Stated(bytes) => write!(f, "`--memory` allows {}", gigabytes(bytes)),
            Self::Available(bytes) => write!(f, "{} are available", gigabytes(bytes)),
            Self::Unknown => write!(f, "it is not known how much is available"),
        }
    }
}

/// Bytes as people read them.
pub(crate) fn gigabytes(bytes: u64) -> String {
    if bytes < 100_000_000 {
        format!("{:.2} MB", bytes as f64 / 1e6)
    } else {
        format!("{:.2} GB", bytes as f64 / 1e9)
    }
}

/// Bytes that the timeline of running `plan` takes: those of all spans.
pub(crate) fn timeline_bytes(plan: &Plan, iterations: u32) -> u64 {
    PlanSize::of(plan).spans * u64::from(iterations) * SPAN_BYTES
}
