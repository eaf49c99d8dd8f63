//! The event queue: virtual time in seconds, ties broken by what happens, then by rank, op and
//! transfer, so that every run is the same.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use zipwire_schedule::machine::TransferId;
use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{OpId, Rank};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A compute or codec op ends, or an exchange is finished on the host.
    Ended {
        /// Where.
        rank: Rank,
        /// The op.
        op: OpId,
    },
    /// A send is announced.
    Announced {
        /// Where.
        rank: Rank,
        /// The send.
        transfer: TransferId,
    },
    /// One end of a transfer is offered.
    Offered {
        /// Where.
        rank: Rank,
        /// The transfer.
        transfer: TransferId,
    },
    /// A rank learns that its peer is ready for a transfer. An event of its own, so that of what happens at one moment
    /// everything is known before anybody chooses.
    PeerReady {
        /// Who learns it.
        rank: Rank,
        /// The transfer.
        key: TransferKey,
    },
    /// The latency of a transfer is over: its first byte moves.
    Moves {
        /// The sender.
        rank: Rank,
        /// The sender's end of it.
        transfer: TransferId,
        /// Its position in the simulator's list.
        transit: usize,
    },
    /// A delayed transfer ends.
    Arrives {
        /// The sender.
        rank: Rank,
        /// The sender's end of it.
        transfer: TransferId,
        /// Its position in the simulator's list.
        transit: usize,
    },
    /// A machine asked to be polled.
    Wake {
        /// Whose.
        rank: Rank,
    },
    /// A rank does nothing any more.
    Dies {
        /// Which.
        rank: Rank,
    },
    /// Whoever has not ended by now will not.
    LastDeadline,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time_s: f64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.time_s.total_cmp(&other.time_s).then_with(|| self.event.cmp(&other.event))
    }
}

/// Events in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct Queue(BinaryHeap<Reverse<Entry>>);

impl Queue {
    pub(crate) fn push(&mut self, time_s: f64, event: Event) {
        self.0.push(Reverse(Entry { time_s, event }));
    }

    /// Time of the next event, infinite when there is none.
    pub(crate) fn next_s(&self) -> f64 {
        self.0.peek().map_or(f64::INFINITY, |Reverse(entry)| entry.time_s)
    }

    /// The next event that is not after `now_s`.
    pub(crate) fn pop(&mut self, now_s: f64) -> Option<Event> {
        if self.next_s() > now_s {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_rank() {
        let mut queue = Queue::default();
        let wake = |rank| Event::Wake { rank: Rank(rank) };
        queue.push(2.0, wake(0));
        queue.push(1.0, wake(2));
        queue.push(1.0, wake(1));
        assert_eq!(queue.next_s(), 1.0);
        assert_eq!(queue.pop(0.5), None);
        let order: Vec<Event> = std::iter::from_fn(|| queue.pop(5.0)).collect();
        assert_eq!(order, [wake(1), wake(2), wake(0)]);
        assert_eq!(queue.next_s(), f64::INFINITY);
    }
}
