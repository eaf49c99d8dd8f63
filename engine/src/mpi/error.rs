//! Errors of joint operations of processes.

use std::time::Duration;

use zipwire_mpi::MpiError;
use zipwire_schedule::{Failure, Rank};

use super::Member;
use crate::transport::Ended;

/// Errors of joint operations of processes.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// MPI cannot be had, or has failed.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// Other processes are lost, or have failed.
    #[error("the processes of the job have lost one another: {0}")]
    Ended(#[from] Ended),
    /// The plan needs more tags than the library has.
    #[error("the plan's transfers need tags up to {needed}, and those of the MPI library end at {largest}")]
    Tags { needed: u64, largest: u32 },
    /// Another number of ranks.
    #[error("the plan has {ranks} ranks, and the job has {processes} processes")]
    Ranks { ranks: u32, processes: u32 },
    /// Another version of this program.
    #[error(
        "rank {rank} on host `{host}` is version {theirs} of zipwire, and rank 0 is {own}\nhelp: install one version on all hosts"
    )]
    Version { rank: Rank, host: String, theirs: String, own: String },
    /// A process has reported that it cannot take part.
    #[error("rank {} cannot take part: {}", .0.rank, .0.detail)]
    Refused(Failure),
    /// A collective of MPI that this program does not carry out.
    #[error("{bytes} B are not equal parts of whole values for {processes} processes, or too many")]
    Parts { bytes: u64, processes: u32 },
    /// A process does not answer.
    #[error(
        "rank {rank} (process {} on `{}`) has said nothing for {} s, and all wait for it to begin",
        member.process, member.host, patience.as_secs_f64()
    )]
    Silent { rank: Rank, member: Member, patience: Duration },
}
