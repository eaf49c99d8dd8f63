//! What ranks report when something is wrong: the same words on all executors.

use std::sync::Arc;

use std::time::{Duration, Instant};

use zipwire_schedule::machine::Machine;
use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{Failure, FailureKind, OpId, Rank};

use crate::chunks::Chunk;
use crate::drive::failure;
use crate::meeting::Meeting;

/// Words for the failures of a plan with these segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Complaints<'a> {
    pub(crate) segments: &'a [Arc<str>],
}

impl Complaints<'_> {
    /// Nothing has ended anywhere for too long; `op` is what the rank is in.
    pub(crate) fn stuck(&self, machine: &Machine, op: Option<OpId>, stuck_after: Duration) -> Failure {
        let seconds = stuck_after.as_secs_f64();
        let detail = format!("nothing has ended on any rank for {seconds} s; it {}", self.waits(machine));
        failure(machine, op, FailureKind::Timeout, detail)
    }

    /// Somebody else has failed.
    pub(crate) fn cancelled(&self, machine: &Machine) -> Failure {
        failure(machine, None, FailureKind::Cancelled, format!("it {}", self.waits(machine)))
    }

    /// A peer cannot be told something.
    pub(crate) fn unreachable<N>(
        &self,
        machine: &Machine,
        meeting: &Meeting<'_, N>,
        op: OpId,
        peer: Rank,
    ) -> Failure {
        // Whoever has been told of a failure leaves at once; the note about it is on its way here.
        if meeting.first_failure().is_some() {
            return self.cancelled(machine);
        }
        failure(machine, Some(op), FailureKind::PeerLost, format!("rank {peer} is gone"))
    }

    /// A transfer in a state that it cannot be in.
    pub(crate) fn confused(&self, machine: &Machine, key: &TransferKey, what: &str) -> Failure {
        let TransferKey { segment, stage, src, dst, tag } = key;
        let segment = &self.segments[segment.index()];
        let detail =
            format!("{} transfer {tag} of {segment} from rank {src} to rank {dst} {what}", stage.name());
        failure(machine, None, FailureKind::Transport, detail)
    }

    /// A chunk differs from what its origin had.
    pub(crate) fn altered(&self, machine: &Machine, op: Option<OpId>, chunk: &Chunk, offset: u64) -> Failure {
        let segment = &self.segments[chunk.id.segment.index()];
        let src = chunk.id.chunk.origin;
        let detail = format!("byte {offset} of the {segment} chunk from rank {src} is not what was sent");
        failure(machine, op, FailureKind::Corrupt, detail)
    }

    /// What this rank waits for, in words.
    fn waits(&self, machine: &Machine) -> String {
        machine.standing().describe(self.segments)
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
    /// From now on.
    pub(crate) fn new<N>(meeting: &Meeting<'_, N>) -> Self {
        Self { progress: meeting.progress(), since: Instant::now() }
    }

    /// Whether nothing has ended for `limit`.
    pub(crate) fn lasts<N>(&mut self, meeting: &Meeting<'_, N>, limit: Duration) -> bool {
        let progress = meeting.progress();
        if progress != self.progress {
            *self = Self { progress, since: Instant::now() };
        }
        self.since.elapsed() >= limit
    }
}
