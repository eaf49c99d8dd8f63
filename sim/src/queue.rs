//! The event queue: virtual time in seconds, ties broken by what happens, then by rank, op and
//! transfer, so that every run is the same.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use zipwire_schedule::machine::TransferId;
use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{OpId, Rank};

/// A number, for the keys of maps and heaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered(pub(crate) f64);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A compute or codec op ends, or an exchange is finished on the host.
    Ended { rank: Rank, op: OpId },
    /// An exchange is open: the rank is there.
    Opened { rank: Rank, op: OpId },
    /// A send is announced.
    Announced { rank: Rank, transfer: TransferId },
    /// One end of a transfer is offered.
    Offered { rank: Rank, transfer: TransferId },
    /// A rank learns that its peer is ready for a transfer. An event of its own, so that of what happens at one moment
    /// everything is known before anybody chooses.
    PeerReady { rank: Rank, key: TransferKey },
    /// The latency of a transfer is over: its first byte moves.
    Moves {
        /// The sender.
        rank: Rank,
        /// The sender's end of it.
        transfer: TransferId,
        /// Its position in the simulator's list.
        transit: u32,
    },
    /// A delayed transfer ends.
    Arrives {
        /// The sender.
        rank: Rank,
        /// The sender's end of it.
        transfer: TransferId,
        /// Its position in the simulator's list.
        transit: u32,
    },
    /// The latency of a call of the library is over: its first byte moves.
    CallMoves {
        /// The last rank that issued it.
        rank: Rank,
        /// That rank's op.
        op: OpId,
        /// Its position in the simulator's list.
        call: u32,
    },
    /// A machine asked to be polled.
    Wake { rank: Rank },
    /// A rank does nothing any more.
    Dies { rank: Rank },
    /// The last deadline: ranks that have not ended by now never will.
    LastDeadline,
}

/// Events in the order of their times.
///
/// Much happens at the same moment where many ranks do the same, so events wait unsorted by moment and are sorted when it
/// comes: a heap of all of them would compare each with many others.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Events of the moment that has come, the last event first.
    now: Vec<Event>,
    /// Events added to that moment since, or to an earlier one.
    late: BinaryHeap<Reverse<(Ordered, Event)>>,
    moment: Option<Ordered>,
    /// Events of later moments.
    later: BTreeMap<Ordered, Vec<Event>>,
}

impl Queue {
    pub(crate) fn push(&mut self, time_s: f64, event: Event) {
        let time = Ordered(time_s);
        if self.moment.is_some_and(|moment| time <= moment) {
            self.late.push(Reverse((time, event)));
        } else {
            self.later.entry(time).or_default().push(event);
        }
    }

    /// Time of the next event, infinite when there is none.
    pub(crate) fn next_s(&self) -> f64 {
        let late = self.late.peek().map(|Reverse((time, _))| *time);
        let now = self.moment.filter(|_| !self.now.is_empty());
        let known = late.into_iter().chain(now).min();
        let next = known.or_else(|| self.later.first_key_value().map(|(&time, _)| time));
        next.map_or(f64::INFINITY, |Ordered(time_s)| time_s)
    }

    /// The next event that is not after `now_s`.
    pub(crate) fn pop(&mut self, now_s: f64) -> Option<Event> {
        if self.next_s() > now_s {
            return None;
        }
        if self.now.is_empty() && self.late.is_empty() {
            let (time, events) = self.later.pop_first()?;
            (self.moment, self.now) = (Some(time), events);
            self.now.sort_unstable_by(|a, b| b.cmp(a));
        }
        let now = self.moment.zip(self.now.last().copied());
        match self.late.peek() {
            Some(Reverse(late)) if now.is_none_or(|now| *late < now) => self.late.pop().map(|late| late.0.1),
            Some(_) | None => {
                let event = self.now.pop();
                if self.now.is_empty() {
                    // A moment may have been that of a million events.
                    self.now = Vec::new();
                }
                event
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
    /// Whatever was added in between, the least of what is there comes next.
    #[test]
    fn events_added_meanwhile_take_their_place() {
        let mut queue = Queue::default();
        let mut all = BTreeSet::new();
        let mut now_s = 0.0;
        for step in 0..20_000_u32 {
            let random = step.wrapping_mul(2_654_435_761) >> 8;
            if random % 5 < 3 {
                // Now and then in the past, mostly at few moments.
                let time_s = now_s + f64::from(random % 7) - 1.0;
                let event = Event::Wake { rank: Rank(step ^ 0x155) };
                queue.push(time_s, event);
                all.insert((Ordered(time_s), event));
            } else {
                now_s += f64::from(random % 2);
                let next = all.first().copied().filter(|(time, _)| time.0 <= now_s);
                next.iter().for_each(|next| assert!(all.remove(next)));
                assert_eq!(queue.pop(now_s), next.map(|(_, event)| event));
            }
            assert_eq!(queue.next_s(), all.first().map_or(f64::INFINITY, |(time, _)| time.0));
        }
    }
}
