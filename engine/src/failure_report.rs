//! Failure messages of ranks, the same on all executors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zipwire_schedule::machine::Machine;
use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{Failure, FailureKind, OpId, Rank};

use crate::chunks::Chunk;
use crate::run_program::failure;
use crate::transport::Ended;

/// Words for the failures of a plan with these segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureReport<'a> {
    pub(crate) segments: &'a [Arc<str>],
}

impl FailureReport<'_> {
    /// Nothing has ended on any rank for too long; `op` is the op that the rank is in.
    pub(crate) fn stuck(&self, machine: &Machine, op: Option<OpId>, stuck_after: Duration) -> Failure {
        let seconds = stuck_after.as_secs_f64();
        let detail = format!("nothing has ended on any rank for {seconds} s; it {}", self.waits(machine));
        failure(machine, op, FailureKind::Timeout, detail)
    }

    /// Another rank has failed.
    pub(crate) fn cancelled(&self, machine: &Machine) -> Failure {
        failure(machine, None, FailureKind::Cancelled, format!("it {}", self.waits(machine)))
    }

    /// The transport has ended; `op` is the op that the rank is in.
    pub(crate) fn ended(&self, machine: &Machine, op: Option<OpId>, ended: &Ended) -> Failure {
        match ended {
            Ended::Aborted => self.cancelled(machine),
            Ended::Stopped => stopped(machine),
            Ended::Lost(_) => failure(machine, op, FailureKind::PeerLost, ended.to_string()),
            Ended::Broken(_) => failure(machine, op, FailureKind::Transport, ended.to_string()),
        }
    }

    /// A transfer in a state that it cannot be in.
    pub(crate) fn confused(&self, machine: &Machine, key: &TransferKey, what: &str) -> Failure {
        let TransferKey { segment, stage, src, dst, number } = key;
        let segment = self.segments.get(segment.index()).map_or("an unknown segment", |name| name);
        let detail =
            format!("{} transfer {number} of {segment} from rank {src} to rank {dst} {what}", stage.name());
        failure(machine, None, FailureKind::Transport, detail)
    }

    /// A chunk differs from what its origin had.
    pub(crate) fn altered(&self, machine: &Machine, op: Option<OpId>, chunk: &Chunk, offset: u64) -> Failure {
        let segment = &self.segments[chunk.id.segment.index()];
        let src = chunk.id.chunk.origin;
        let detail = format!("byte {offset} of the {segment} chunk from rank {src} is not what was sent");
        failure(machine, op, FailureKind::Corrupt, detail)
    }

    /// Describes the ops and peers that this rank waits for.
    fn waits(&self, machine: &Machine) -> String {
        machine.status().describe(self.segments)
    }
}

/// The user wants the run to end.
pub(crate) fn stopped(machine: &Machine) -> Failure {
    failure(machine, None, FailureKind::Cancelled, "stopped by the user")
}

/// The ends of a transfer have different lengths.
pub(crate) fn other_length(machine: &Machine, op: OpId, src: Rank, bytes: u64, expected: u64) -> Failure {
    let detail = format!("rank {src} sends {bytes} bytes where {expected} were announced");
    failure(machine, Some(op), FailureKind::Corrupt, detail)
}

/// One end of a transfer has bytes, the other one a size.
pub(crate) fn other_content(machine: &Machine, op: OpId, src: Rank) -> Failure {
    let detail = format!("rank {src} and this rank disagree about what moves");
    failure(machine, Some(op), FailureKind::Corrupt, detail)
}

/// Watches whether anything ends anywhere.
pub(crate) struct Standstill {
    progress: u64,
    since: Instant,
}

impl Standstill {
    /// From now on; `progress` is what changes when something ends.
    pub(crate) fn new(progress: u64) -> Self {
        Self { progress, since: Instant::now() }
    }

    /// Whether nothing has ended for `limit`.
    pub(crate) fn lasts(&mut self, progress: u64, limit: Duration) -> bool {
        if progress != self.progress {
            *self = Self::new(progress);
        }
        self.since.elapsed() >= limit
    }
}
