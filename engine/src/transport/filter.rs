//! Filters of a transport's events, which change, hold back or drop them; one of them flips bytes of what arrives, as a scenario says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{FaultPlan, Rank};

use super::{Ended, Event, Incoming, LibraryCall, Meeting, Message, Outgoing, Received, Transport};
use crate::memory::Memory;

pub(crate) trait Filter {
    /// Passes, changes or holds back an event; `None` if it is held back or dropped.
    ///
    /// # Errors
    /// If the run has ended.
    fn pass(&mut self, event: Event, inner: &dyn Transport) -> Result<Option<Event>, Ended>;

    /// Takes note of grouped sends of this rank, or hands them on.
    fn begin_group(
        &mut self,
        losses: &mut dyn Iterator<Item = (TransferKey, f64)>,
        inner: &mut dyn Transport,
    ) {
        inner.begin_group(losses);
    }

    /// Takes note of a call of a library, or hands it on.
    ///
    /// # Errors
    /// If the run has ended.
    fn begin_call(&mut self, call: LibraryCall, inner: &mut dyn Transport) -> Result<(), Ended> {
        inner.begin_call(call)
    }
}

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

    fn memory(&self) -> &Arc<Memory> {
        self.inner.memory()
    }

    fn send(&mut self, transfer: Outgoing) -> Result<(), Ended> {
        self.inner.send(transfer)
    }

    fn receive(&mut self, transfer: Incoming) -> Result<(), Ended> {
        self.inner.receive(transfer)
    }

    fn begin_group(&mut self, losses: &mut dyn Iterator<Item = (TransferKey, f64)>) {
        self.filter.begin_group(losses, self.inner);
    }

    fn begin_call(&mut self, call: LibraryCall) -> Result<(), Ended> {
        self.filter.begin_call(call, self.inner)
    }

    fn tell(&mut self, to: Rank, message: Message) -> Result<(), Ended> {
        self.inner.tell(to, message)
    }

    fn sends_early(&self) -> bool {
        self.inner.sends_early()
    }
}

impl<F: Filter> Meeting for Filtered<'_, F> {
    meets_by!(inner);

    fn barrier(&mut self, word: &[u8]) -> Result<Vec<Vec<u8>>, Ended> {
        self.inner.barrier(word)
    }
}

/// Damages what a transport brings.
pub(crate) struct Flips<'a>(pub(crate) &'a FaultPlan);

impl Filter for Flips<'_> {
    fn pass(&mut self, event: Event, inner: &dyn Transport) -> Result<Option<Event>, Ended> {
        Ok(Some(match event {
            Event::Received(received) => Event::Received(self.damage(received, inner)),
            other => other,
        }))
    }
}

impl Flips<'_> {
    /// Flips the lowest bit of each byte that a fault names, modulo their number; those of the word are behind the others.
    fn damage(&self, mut received: Received, inner: &dyn Transport) -> Received {
        let Incoming { key, bytes: region, .. } = received.transfer;
        let flipped = self.0.fate(&key).map_or(&[][..], |fate| &fate.flipped);
        let (len, total) = (region.map_or(0, |region| region.len), received.transfer.shape().len());
        for place in flipped.iter().filter(|_| total > 0).map(|byte| byte % total) {
            if let Some(region) = region.filter(|_| place < len) {
                let index = usize::try_from(place).expect("it is within the region");
                inner.memory().write(&region)[index] ^= 1;
            } else {
                received.word = received.word.map(|word| word ^ 1 << (8 * (place - len)));
            }
        }
        received
    }
}
