//! Queue of events that are due at known times, the earliest first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events with their times. Events of one time keep their order.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    entries: BinaryHeap<Entry<T>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at_s: f64,
    /// Order of scheduling, which breaks ties.
    number: u64,
    what: T,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Self {
        Self { entries: BinaryHeap::new(), pushed: 0 }
    }

    pub(crate) fn push(&mut self, at_s: f64, what: T) {
        self.entries.push(Entry { at_s, number: self.pushed, what });
        self.pushed += 1;
    }

    /// When the next thing is due; infinite if there is none.
    pub(crate) fn next_s(&self) -> f64 {
        self.entries.peek().map_or(f64::INFINITY, |entry| entry.at_s)
    }

    /// The next thing, if it is due, and when it was.
    pub(crate) fn pop(&mut self, now_s: f64) -> Option<(f64, T)> {
        if self.next_s() > now_s {
            return None;
        }
        self.entries.pop().map(|entry| (entry.at_s, entry.what))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes everything out, in any order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.entries.drain().map(|entry| entry.what)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// Reversed: the heap yields the earliest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at_s.total_cmp(&self.at_s).then_with(|| other.number.cmp(&self.number))
    }
}
