//! Links of a cluster: what a transport has brought is held back until they would have brought it.
//!
//! It takes a transport of threads, which says at both ends that a transfer has begun, and whose meeting the links share.
//!
//! The bytes come into the receiver's memory at once: what this machine takes to copy them does not come on top of the time
//! that they are declared to take.

mod ports;
mod wire;

use std::collections::HashMap;

use zipwire_schedule::plan::TransferKey;

use super::filter::Filter;
use super::{Ended, Event, Message, Transport, is_of_call};
use crate::sync::mpsc::Sender;

pub(crate) use self::wire::{Parcel, Wire};

/// Holds back the ends of transfers of one rank.
pub(crate) struct Paced {
    /// To the thread that moves time along the links.
    wire: Sender<Parcel>,
    /// Ends that have come and are not due.
    held: HashMap<TransferKey, Event>,
    /// When transfers arrived of which this end has not been heard yet.
    arrived_s: HashMap<TransferKey, f64>,
}

impl Paced {
    pub(crate) fn new(wire: Sender<Parcel>) -> Self {
        Self { wire, held: HashMap::new(), arrived_s: HashMap::new() }
    }

    /// Holds the end of a transfer until it is due.
    fn hold(&mut self, key: TransferKey, end: Event) -> Option<Event> {
        if let Some(at_s) = self.arrived_s.remove(&key) {
            return Some(ended_at(end, at_s));
        }
        self.held.insert(key, end);
        None
    }
}

impl Filter for Paced {
    fn pass(&mut self, event: Event, inner: &dyn Transport) -> Result<Option<Event>, Ended> {
        match event {
            // Links do not know of what a library moves.
            Event::Begun { key, .. } | Event::Sent { key, .. } if is_of_call(&key) => Ok(Some(event)),
            Event::Received(received) if is_of_call(&received.transfer.key) => Ok(Some(event)),
            // Both ends hear of it, and the receiver tells the links.
            Event::Begun { key, .. } if key.dst != inner.rank() => Ok(Some(event)),
            Event::Begun { key, bytes, at_s } => {
                let told = self.wire.send(Parcel { key, bytes, begin_s: at_s });
                told.map_err(|_| Ended::Broken("the thread of the links has ended".to_owned()))?;
                Ok(Some(event))
            }
            Event::Received(received) => Ok(self.hold(received.transfer.key, event)),
            Event::Sent { key, .. } => Ok(self.hold(key, event)),
            Event::Told(Message::Arrived { key, at_s }) => match self.held.remove(&key) {
                Some(end) => Ok(Some(ended_at(end, at_s))),
                None => {
                    self.arrived_s.insert(key, at_s);
                    Ok(None)
                }
            },
            Event::Told(_) | Event::Disagreed { .. } | Event::Repeated(_) => Ok(Some(event)),
        }
    }
}

/// The same end of a transfer at another time.
fn ended_at(event: Event, at_s: f64) -> Event {
    match event {
        Event::Received(received) => Event::Received(super::Received { end_s: at_s, ..received }),
        Event::Sent { key, begin_s, .. } => Event::Sent { key, begin_s, end_s: at_s },
        other => other,
    }
}
