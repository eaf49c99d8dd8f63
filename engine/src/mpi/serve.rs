//! Serving with processes.

use std::sync::Arc;
use std::time::Duration;

use zipwire_schedule::{Failure, FailureKind, Rank};

use super::World;
use super::link::Link;
use super::packet::Packet;
use super::rank::MpiRank;
use super::shared::Shared;
use crate::memory::Memory;
use crate::report::RankReport;
use crate::serving::{self, Process, ServeError, Served, Setup};
use crate::transport::{Ended, Event, Incoming, Message, Outgoing, Transport};

impl World {
    /// Serves all requests, as all other processes do; `name` is what the run is called. Rank 0 decides for all and has what they came to,
    /// the others have nothing. Clocks are to be [aligned](Self::align) before.
    ///
    /// # Errors
    /// If the setup does not fit together or the job, which all processes find; at rank 0 if any rank fails, and elsewhere if this one does.
    pub fn serve(&mut self, name: &str, setup: &Setup<'_>) -> Result<Option<Served>, ServeError> {
        let own = Own {
            shared: &self.shared,
            name,
            rank: self.rank,
            size: self.size,
            stuck_after: setup.stuck_after,
        };
        let result = serving::serve(setup, &own);
        match &result {
            Ok(_) => self.shared.note(|| format!("has ended its part of `{name}`")),
            Err(ServeError::Setup(_) | ServeError::Kv(_)) => {}
            Err(error) => {
                let is_told = match error {
                    ServeError::Stopped => true,
                    ServeError::Failed { kind, .. } => *kind == FailureKind::Cancelled,
                    _ => false,
                };
                self.note_end(name, is_told, &error.to_string());
                self.has_failed = true;
            }
        }
        result
    }
}

/// This process in one serving run.
struct Own<'a> {
    shared: &'a Arc<Shared>,
    name: &'a str,
    rank: Rank,
    size: u32,
    stuck_after: Duration,
}

impl Process for Own<'_> {
    fn rank(&self, memory: Arc<Memory>) -> impl Transport {
        self.shared.with(|link| link.begin_run(Arc::clone(&memory), 1));
        MpiRank::new(Arc::clone(self.shared), self.name, self.rank, memory, self.stuck_after)
    }

    fn coordinator(&self) -> impl Transport + Send {
        Coordinator { shared: Arc::clone(self.shared), memory: Arc::new(Memory::empty()), size: self.size }
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn is_stopped(&self) -> bool {
        self.shared.is_cancelled()
    }
}

/// The coordinator's connection with all ranks: it tells them something and hears of them.
struct Coordinator {
    shared: Arc<Shared>,
    memory: Arc<Memory>,
    size: u32,
}

impl Transport for Coordinator {
    fn rank(&self) -> Rank {
        Rank(self.size)
    }

    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    fn now_s(&self) -> f64 {
        self.shared.with(|link| link.clock.now_s())
    }

    fn barrier(&mut self, _: &[u8]) -> Result<Vec<Vec<u8>>, Ended> {
        unreachable!("ranks meet, and who decides for them does not")
    }

    fn send(&mut self, _: Outgoing) -> Result<(), Ended> {
        unreachable!("who decides has no bytes")
    }

    fn receive(&mut self, _: Incoming) -> Result<(), Ended> {
        unreachable!("who decides has no bytes")
    }

    fn tell(&mut self, to: Rank, message: Message) -> Result<(), Ended> {
        self.shared.with(|link| match &link.ended {
            Some(ended) => Err(ended.clone()),
            None => link.tell_anybody(to, Packet::Told(message)),
        })
    }

    fn poll(&mut self, timeout: Duration) -> Result<Option<Event>, Ended> {
        if self.is_stopped() {
            return Err(Ended::Stopped);
        }
        let found = self.shared.wait(timeout, |link| match link.reported.pop_front() {
            Some(message) => Some(Ok(Event::Told(message))),
            None => link.ended.clone().map(Err),
        });
        found.transpose()
    }

    fn count_progress(&mut self) {
        self.shared.with(Link::count_progress);
    }

    fn progress(&self) -> u64 {
        self.shared.with(|link| link.progress())
    }

    fn abort(&mut self, _: &Failure) {
        self.shared.with(Link::abort);
    }

    fn is_stopped(&self) -> bool {
        self.shared.is_cancelled()
    }

    fn gather(&mut self, _: RankReport) -> Option<Vec<RankReport>> {
        unreachable!("ranks report, and who decides for them does not")
    }
}
