//! How a rank ends when it does not end well.

use std::fmt;

use crate::plan::TransferKey;
use crate::{OpId, Rank};

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum FailureKind {
    /// An op is overdue, or nothing happened for too long.
    Timeout,
    /// A peer is gone.
    PeerLost,
    /// Bytes that arrived are not what was sent.
    Corrupt,
    /// Ranks were about to run different plans, or the same plan with different codecs.
    Mismatch,
    /// The device or thread that carries out ops failed.
    Device,
    /// The wire failed.
    Transport,
    /// Its process did nothing for so long that others gave up.
    StoodStill,
    /// Somebody else failed first, or the user asked to stop.
    Cancelled,
}

impl FailureKind {
    /// Meaning in words, as the predicate of a sentence about the rank.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Timeout => "made no progress in time",
            Self::PeerLost => "lost a peer",
            Self::Corrupt => "received corrupt bytes",
            Self::Mismatch => "was to run something else",
            Self::Device => "had a device failure",
            Self::Transport => "had a transport failure",
            Self::StoodStill => "stood still",
            Self::Cancelled => "was cancelled",
        }
    }
}

/// The first thing that went wrong on a rank.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    /// The rank that reports it.
    pub rank: Rank,
    /// The op that failed, if one did.
    pub op: Option<OpId>,
    /// The transfer that failed, if one did.
    pub transfer: Option<TransferKey>,
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Details for people; may be empty.
    pub detail: String,
    /// The rank and the op in which it all began, once the reports of all ranks have been put together.
    pub culprit: Option<(Rank, Option<OpId>)>,
}

impl Failure {
    /// A failure that is not that of a transfer.
    pub fn new(rank: Rank, op: Option<OpId>, kind: FailureKind, detail: impl Into<String>) -> Self {
        Self { rank, op, transfer: None, kind, detail: detail.into(), culprit: None }
    }

    /// Failure of a transfer: the bytes that arrived at `rank` in exchange `op` are not those that were sent.
    pub fn corrupt_transfer(rank: Rank, op: OpId, key: TransferKey) -> Self {
        let detail = format!("the checksum of what rank {} sent does not fit", key.src);
        Self { transfer: Some(key), ..Self::new(rank, Some(op), FailureKind::Corrupt, detail) }
    }

    /// A rank that has said nothing until all deadlines were over.
    pub fn died(rank: Rank) -> Self {
        Self::new(rank, None, FailureKind::Timeout, "it has said nothing until all deadlines were over")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} {}", self.rank, self.kind.describe())?;
        if let Some(op) = self.op {
            write!(f, " in op `{op}`")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
