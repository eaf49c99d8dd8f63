//! Connection of a process with the others of its job: MPI, or sockets that carry packets only.

use zipwire_mpi::{Bytes, Channel, Done, Endpoint, MpiError, Ticket};
use zipwire_schedule::Rank;

use super::WorldError;
use crate::transport::Ended;

/// Messages of bytes between processes, which are sent and received while other things are done.
pub(super) trait Connection: Send {
    fn rank(&self) -> u32;

    fn size(&self) -> u32;

    /// Largest tag that a message can have.
    fn largest_tag(&self) -> u32;

    /// Name and version of what connects the processes; the name of this host.
    fn names(&mut self) -> Result<(String, String), WorldError>;

    /// Takes note of which processes are on this host.
    fn set_near(&mut self, ranks: &[u32]);

    /// Begins to send a message. Those between two processes on one channel and with one tag arrive in the order in which they were sent.
    fn send(&mut self, channel: Channel, bytes: Bytes, to: u32, tag: u32) -> Result<Ticket, Ended>;

    /// Begins to receive a message from a process, or from any.
    fn receive(
        &mut self,
        channel: Channel,
        bytes: Bytes,
        from: Option<u32>,
        tag: u32,
    ) -> Result<Ticket, Ended>;

    /// Messages under way.
    fn under_way(&self) -> usize;

    /// Adds to `done` what has been sent and received since the last time, and moves what is under way. What came is in `done` also
    /// where it fails.
    fn test(&mut self, done: &mut Vec<Done>) -> Result<(), Ended>;

    /// Ends the connection, when all processes do. What is under way must be done.
    fn finish(self: Box<Self>) -> Result<(), WorldError>;

    /// MPI, if it is what connects the processes.
    fn mpi(&mut self) -> Option<&mut Endpoint> {
        None
    }
}

impl Connection for Endpoint {
    fn rank(&self) -> u32 {
        self.rank()
    }

    fn size(&self) -> u32 {
        self.size()
    }

    fn largest_tag(&self) -> u32 {
        self.largest_tag()
    }

    fn names(&mut self) -> Result<(String, String), WorldError> {
        Ok((self.version()?, self.host()?))
    }

    fn set_near(&mut self, ranks: &[u32]) {
        self.set_near(ranks);
    }

    fn send(&mut self, channel: Channel, bytes: Bytes, to: u32, tag: u32) -> Result<Ticket, Ended> {
        self.send(channel, bytes, to, tag).map_err(|error| lost(Rank(to), &error))
    }

    fn receive(
        &mut self,
        channel: Channel,
        bytes: Bytes,
        from: Option<u32>,
        tag: u32,
    ) -> Result<Ticket, Ended> {
        let broken = |error: MpiError| match from {
            Some(from) => lost(Rank(from), &error),
            None => Ended::Broken(error.to_string()),
        };
        self.receive(channel, bytes, from, tag).map_err(broken)
    }

    fn under_way(&self) -> usize {
        self.under_way()
    }

    fn test(&mut self, done: &mut Vec<Done>) -> Result<(), Ended> {
        self.test(done).map_err(|error| Ended::Broken(error.to_string()))
    }

    fn finish(self: Box<Self>) -> Result<(), WorldError> {
        Ok((*self).finish()?)
    }

    fn mpi(&mut self) -> Option<&mut Endpoint> {
        Some(self)
    }
}

/// Error of a message to or from a rank: `Lost` if MPI says that the process has failed.
pub(super) fn lost(peer: Rank, error: &MpiError) -> Ended {
    const PROCESS_FAILED: [i32; 3] = [75, 76, 77];
    match error {
        MpiError::Call { class, .. } if PROCESS_FAILED.contains(class) => Ended::Lost(peer),
        error => Ended::Broken(format!("{error} (rank {peer})")),
    }
}
