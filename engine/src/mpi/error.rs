//! Why processes cannot do something together.

use std::time::Duration;

use zipwire_mpi::MpiError;
use zipwire_schedule::{Failure, Rank};

use super::Member;
use crate::transport::Ended;

/// Why processes cannot do something together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// MPI cannot be had, or has failed.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// The others are gone, or have failed.
    #[error("the processes of the job have lost one another: {0}")]
    Ended(#[from] Ended),
    /// The plan needs more tags than the library has.
    #[error("the plan's transfers need tags up to {needed}, and those of the MPI library end at {largest}")]
    Tags {
        /// The largest that is needed.
        needed: u64,
        /// The largest that there is.
        largest: u32,
    },
    /// Another number of ranks.
    #[error("the plan has {ranks} ranks, and the job has {processes} processes")]
    Ranks {
        /// Those of the plan.
        ranks: u32,
        /// Those of the job.
        processes: u32,
    },
    /// Another version of this program.
    #[error(
        "rank {rank} on host `{host}` is version {theirs} of zipwire, and rank 0 is {own}\nhelp: install one version on all hosts"
    )]
    Version {
        /// The rank.
        rank: Rank,
        /// Its host.
        host: String,
        /// Its version.
        theirs: String,
        /// The version of rank 0.
        own: String,
    },
    /// A process cannot do what all are to do, and has said why.
    #[error("rank {} cannot take part: {}", .0.rank, .0.detail)]
    Refused(Failure),
    /// A collective of MPI that this program does not carry out.
    #[error("{bytes} B are not equal parts of whole values for {processes} processes, or too many")]
    Parts {
        /// Bytes.
        bytes: u64,
        /// Processes.
        processes: u32,
    },
    /// A process does not answer.
    #[error(
        "rank {rank} (process {} on `{}`) has said nothing for {} s, and all wait for it to begin",
        member.process, member.host, patience.as_secs_f64()
    )]
    Silent {
        /// The rank.
        rank: Rank,
        /// Who that is.
        member: Member,
        /// For how long.
        patience: Duration,
    },
}
