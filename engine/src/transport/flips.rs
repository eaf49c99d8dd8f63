//! Faults that flip bytes of what arrives, as a scenario says, before anybody looks.

use zipwire_schedule::FaultPlan;

use super::filter::Filter;
use super::{Ended, Event, Incoming, Received, Transport};

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
