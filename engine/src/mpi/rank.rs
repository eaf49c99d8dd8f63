//! Transports of one process: its rank's, and on rank 0 that of the coordinator of a serving run.

use std::sync::Arc;
use std::time::Duration;

use zipwire_schedule::{Failure, FailureKind, Rank};

use super::World;
use super::link::{Link, Shared};
use super::packet::Packet;
use crate::memory::Memory;
use crate::report::RankReport;
use crate::serving::{self, Process, ServeError, Served, ServingSetup};
use crate::transport::{Ended, Event, Incoming, Meeting, Message, Outgoing, Transport};

/// How often a waiting rank checks whether its peers are alive.
const LOOK: Duration = Duration::from_millis(200);
/// How long ranks may take to report after the user or the launcher has stopped the run.
const REPORTS_WHEN_STOPPED: Duration = Duration::from_millis(300);
/// How long ranks may take to report an iteration that has failed elsewhere.
const REPORTS_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// A rank's connection with the others in one run; or that of the coordinator of a serving run, which only tells and hears.
pub(super) struct MpiRank {
    shared: Arc<Shared>,
    name: String,
    rank: Rank,
    memory: Arc<Memory>,
    stuck_after: Duration,
    is_coordinator: bool,
}

impl MpiRank {
    pub(super) fn new(
        shared: Arc<Shared>,
        name: &str,
        rank: Rank,
        memory: Arc<Memory>,
        stuck_after: Duration,
    ) -> Self {
        Self { shared, name: name.to_owned(), rank, memory, stuck_after, is_coordinator: false }
    }

    fn assert_rank(&self) {
        assert!(!self.is_coordinator, "the coordinator only tells and hears");
    }

    /// Waits for a result that depends on peers, as long as these are alive.
    fn wait_for<R>(&self, mut found: impl FnMut(&mut Link) -> Option<R>) -> Result<R, Ended> {
        loop {
            let step = self.shared.wait(LOOK, |link| match found(link) {
                Some(result) => Some(Ok(result)),
                None => link.ended.clone().map(Err),
            });
            if let Some(step) = step {
                return step;
            }
            if self.is_stopped() {
                return Err(Ended::Stopped);
            }
            if let Some(silent) = self.shared.with(|link| link.silent(self.stuck_after)) {
                return Err(Ended::Lost(silent));
            }
        }
    }

    fn link<R>(&self, what: impl FnOnce(&mut Link) -> Result<R, Ended>) -> Result<R, Ended> {
        self.shared.with(|link| match &link.ended {
            Some(ended) => Err(ended.clone()),
            None => what(link),
        })
    }
}

impl Meeting for MpiRank {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn now_s(&self) -> f64 {
        self.shared.with(|link| link.clock.now_s())
    }

    fn keeps_notes(&self) -> bool {
        !self.is_coordinator && self.shared.keeps_notes()
    }

    fn note(&mut self, doing: &str) {
        self.shared.note(|| format!("{doing} in `{}`", self.name));
    }

    fn barrier(&mut self, word: &[u8]) -> Result<Vec<Vec<u8>>, Ended> {
        self.assert_rank();
        self.note("waits for all to begin an iteration");
        if self.rank != Rank(0) {
            self.link(|link| link.tell(Rank(0), &Packet::Word(word.to_vec())))?;
            return self.wait_for(|link| link.met.take());
        }
        self.link(|link| {
            link.words[0] = Some(word.to_vec());
            Ok(())
        })?;
        self.wait_for(|link| link.words.iter().all(Option::is_some).then_some(()))?;
        self.link(|link| {
            let words: Vec<Vec<u8>> = link.words.iter_mut().filter_map(Option::take).collect();
            let packet = Packet::Words(words);
            link.tell_all(&packet)?;
            let Packet::Words(words) = packet else { unreachable!("it was made of words") };
            Ok(words)
        })
    }

    fn rest(&mut self, timeout: Duration) -> Result<(), Ended> {
        if self.is_stopped() {
            return Err(Ended::Stopped);
        }
        self.shared.wait(timeout, |link| link.ended.clone()).map_or(Ok(()), Err)
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

    fn gather(&mut self, mut report: RankReport) -> Option<Vec<RankReport>> {
        self.assert_rank();
        if let (Some(end), Some(time)) = (&mut report.failed, self.shared.with(Link::suspension)) {
            let why = format!("for {:.1} s, as it was stopped, or its host was", time.as_secs_f64());
            end.failure = Failure::new(self.rank, None, FailureKind::StoodStill, why);
        }
        if self.rank != Rank(0) {
            // If it cannot be sent, this rank is gone as far as rank 0 can see.
            let _ = self.shared.with(|link| link.tell(Rank(0), &Packet::Report(Box::new(report))));
            return None;
        }
        self.shared.with(|link| link.reports[0] = Some(report));
        let mut failed_since = None;
        loop {
            let all = self.shared.wait(LOOK, |link| link.has_all_reports().then_some(()));
            let has_failed = self.shared.with(|link| {
                let failed = link.reports.iter().flatten().any(|report| report.failed.is_some());
                failed || link.ended.is_some() || link.silent(self.stuck_after).is_some()
            });
            if all.is_none() && has_failed {
                let since = *failed_since.get_or_insert_with(std::time::Instant::now);
                // Who was told to end soon is ended.
                let limit = if self.is_stopped() { REPORTS_WHEN_STOPPED } else { REPORTS_AFTER_FAILURE };
                if since.elapsed() < limit {
                    continue;
                }
            } else if all.is_none() {
                continue;
            }
            return Some(self.shared.with(|link| link.reports.iter_mut().filter_map(Option::take).collect()));
        }
    }
}

impl Transport for MpiRank {
    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    fn send(&mut self, transfer: Outgoing) -> Result<(), Ended> {
        self.assert_rank();
        self.link(|link| link.send(transfer))
    }

    fn receive(&mut self, transfer: Incoming) -> Result<(), Ended> {
        self.assert_rank();
        self.link(|link| link.receive(transfer))
    }

    fn sends_early(&self) -> bool {
        true
    }

    fn tell(&mut self, to: Rank, message: Message) -> Result<(), Ended> {
        self.link(|link| {
            let packet = if to.0 == link.size { Packet::Reported(message) } else { Packet::Told(message) };
            link.tell_anybody(to, packet)
        })
    }

    fn poll(&mut self, timeout: Duration) -> Result<Option<Event>, Ended> {
        if self.is_stopped() {
            return Err(Ended::Stopped);
        }
        let next = |link: &mut Link| match self.is_coordinator {
            true => link.reported.pop_front().map(Event::Told),
            false => link.events.pop_front(),
        };
        let found = self.shared.wait(timeout, |link| match next(link) {
            Some(event) => Some(Ok(event)),
            None => link.ended.clone().map(Err),
        });
        found.transpose()
    }
}

impl World {
    /// Serves all requests, as all other processes do; `name` is what the run is called. Rank 0 decides for all and has what they came to,
    /// the others have nothing. Clocks are to be [aligned](Self::align) before.
    ///
    /// # Errors
    /// If the setup does not fit together or the job, which all processes find; at rank 0 if any rank fails, and elsewhere if this one does.
    pub fn serve(&mut self, name: &str, setup: &ServingSetup<'_>) -> Result<Option<Served>, ServeError> {
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
        let (shared, memory) = (Arc::clone(self.shared), Arc::new(Memory::empty()));
        let rank = MpiRank::new(shared, self.name, Rank(self.size), memory, self.stuck_after);
        MpiRank { is_coordinator: true, ..rank }
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn is_stopped(&self) -> bool {
        self.shared.is_cancelled()
    }
}
