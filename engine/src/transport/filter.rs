//! A transport whose events pass through something that changes, holds or drops them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zipwire_schedule::{Failure, Rank};

use super::{Ended, Event, Incoming, Message, Outgoing, Transport};
use crate::memory::Memory;
use crate::report::RankReport;

/// A filter of a transport's events.
pub(crate) trait Filter {
    /// Passes, changes or holds back an event; `None` if it is held back or dropped.
    ///
    /// # Errors
    /// If the run has ended.
    fn pass(&mut self, event: Event, inner: &dyn Transport) -> Result<Option<Event>, Ended>;
}

/// A transport behind a filter.
pub(crate) struct Filtered<'a, F> {
    pub(crate) inner: &'a mut dyn Transport,
    pub(crate) filter: F,
}

impl<F: Filter> Transport for Filtered<'_, F> {
    fn poll(&mut self, timeout: Duration) -> Result<Option<Event>, Ended> {
        let begin = Instant::now();
        // What the filter holds back is no end of waiting.
        while let Some(event) = self.inner.poll(timeout.saturating_sub(begin.elapsed()))? {
            if let Some(event) = self.filter.pass(event, self.inner)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn rank(&self) -> Rank {
        self.inner.rank()
    }

    fn memory(&self) -> &Arc<Memory> {
        self.inner.memory()
    }

    fn now_s(&self) -> f64 {
        self.inner.now_s()
    }

    fn barrier(&mut self, word: &[u8]) -> Result<Vec<Vec<u8>>, Ended> {
        self.inner.barrier(word)
    }

    fn send(&mut self, transfer: Outgoing) -> Result<(), Ended> {
        self.inner.send(transfer)
    }

    fn receive(&mut self, transfer: Incoming) -> Result<(), Ended> {
        self.inner.receive(transfer)
    }

    fn tell(&mut self, to: Rank, message: Message) -> Result<(), Ended> {
        self.inner.tell(to, message)
    }

    fn sends_early(&self) -> bool {
        self.inner.sends_early()
    }

    fn keeps_notes(&self) -> bool {
        self.inner.keeps_notes()
    }

    fn note(&mut self, doing: &str) {
        self.inner.note(doing);
    }

    fn count_progress(&mut self) {
        self.inner.count_progress();
    }

    fn progress(&self) -> u64 {
        self.inner.progress()
    }

    fn abort(&mut self, failure: &Failure) {
        self.inner.abort(failure);
    }

    fn is_stopped(&self) -> bool {
        self.inner.is_stopped()
    }

    fn gather(&mut self, report: RankReport) -> Option<Vec<RankReport>> {
        self.inner.gather(report)
    }
}
