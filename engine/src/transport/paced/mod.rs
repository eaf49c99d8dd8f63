//! Links of a cluster: what a transport has brought is held back until they would have brought it.
//!
//! It takes a transport of threads, which says at both ends that a transfer has begun, and whose `Control` the links share.
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

pub(crate) use self::wire::{Parcel, Stream, Wire, mean_bytes};

/// Holds back the ends of transfers of one rank.
pub(crate) struct Paced {
    /// To the thread that moves time along the links.
    wire: Sender<Parcel>,
    /// Ends of transfers that are reported and not due.
    held: HashMap<TransferKey, Event>,
    /// Arrival times of transfers whose end has not been reported here yet.
    arrived_s: HashMap<TransferKey, f64>,
    /// The stream that a transfer is part of.
    stream: fn(&TransferKey) -> Option<Stream>,
}

impl Paced {
    pub(crate) fn new(wire: Sender<Parcel>) -> Self {
        Self::of_streams(wire, |_| None)
    }

    /// A filter for transfers that are parts of streams.
    pub(crate) fn of_streams(wire: Sender<Parcel>, stream: fn(&TransferKey) -> Option<Stream>) -> Self {
        Self { wire, held: HashMap::new(), arrived_s: HashMap::new(), stream }
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
                // The thread of the links ends before its ranks only when the run is over: somebody has failed, and this rank is
                // about to hear of it.
                let stream = (self.stream)(&key);
                self.wire.send(Parcel { key, bytes, begin_s: at_s, stream }).map_err(|_| Ended::Aborted)?;
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

/// Changes the end time of an event.
fn ended_at(event: Event, at_s: f64) -> Event {
    match event {
        Event::Received(received) => Event::Received(super::Received { end_s: at_s, ..received }),
        Event::Sent { key, begin_s, .. } => Event::Sent { key, begin_s, end_s: at_s },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use zipwire_schedule::{Rank, SegmentId, Stage};

    use super::*;
    use crate::control::Control;
    use crate::sync::mpsc::channel;
    use crate::transport::local::{Local, Process};

    /// The links end as soon as a rank has failed. Another one that has a transfer for them then has not failed itself.
    #[test]
    fn who_finds_the_links_gone_is_not_to_blame() {
        let cancel = AtomicBool::new(false);
        let (control, mut inboxes) = Control::new(1, Instant::now(), &cancel);
        let process = Process { control: &control, memories: &[] };
        let local = Local::new(process, Rank(0), inboxes.remove(0));
        let (wire, links) = channel();
        drop(links);
        let key =
            TransferKey { src: Rank(1), dst: Rank(0), number: 0, segment: SegmentId(0), stage: Stage::Raw };
        let begun = Event::Begun { key, bytes: 1, at_s: 0.0 };
        assert_eq!(Paced::new(wire).pass(begun, &local).unwrap_err(), Ended::Aborted);
    }
}
