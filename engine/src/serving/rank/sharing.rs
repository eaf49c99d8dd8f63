//! Declared time of a coder that groups of several shards share evenly: with n of them, each takes n times as long.
//!
//! One counter holds the coder time that each present group has had; a group ends when it has grown by the group's own duration.

use std::collections::BinaryHeap;

use super::Due;

/// Groups that are coded at the same time.
#[derive(Default)]
pub(super) struct Sharing {
    groups: BinaryHeap<Group>,
    begun: u64,
    /// Coder seconds until `since_s` of a group that was present all the time.
    had_s: f64,
    since_s: f64,
}

struct Group {
    /// Value of `had_s` at which the group ends.
    until_s: f64,
    number: u64,
    due: Due,
}

impl Sharing {
    /// Adds a group that takes `seconds` alone; it begins no earlier than the last end.
    pub(super) fn begin(&mut self, at_s: f64, seconds: f64, due: Due) {
        self.advance(at_s.max(self.since_s));
        self.groups.push(Group { until_s: self.had_s + seconds, number: self.begun, due });
        self.begun += 1;
    }

    /// When the next group ends; infinite if there is none.
    pub(super) fn next_s(&self) -> f64 {
        let next = self.groups.peek();
        next.map_or(f64::INFINITY, |group| {
            self.since_s + (group.until_s - self.had_s).max(0.0) * self.groups.len() as f64
        })
    }

    /// Event at the end of the next group, if that is over, and when it ended.
    pub(super) fn pop(&mut self, now_s: f64) -> Option<(f64, Due)> {
        let next_s = self.next_s();
        if next_s > now_s {
            return None;
        }
        self.advance(next_s);
        self.groups.pop().map(|group| (next_s, group.due))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Removes all groups, in any order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Due> {
        self.groups.drain().map(|group| group.due)
    }

    fn advance(&mut self, to_s: f64) {
        if !self.groups.is_empty() {
            self.had_s += (to_s - self.since_s) / self.groups.len() as f64;
        }
        self.since_s = to_s;
    }
}

impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Group {}

impl PartialOrd for Group {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Group {
    /// Reversed: the heap yields what ends first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.until_s.total_cmp(&self.until_s).then_with(|| other.number.cmp(&self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_take_longer_while_there_are_others() {
        let mut sharing = Sharing::default();
        sharing.begin(1.0, 4.0, Due::Computed(0));
        assert_eq!(sharing.next_s(), 5.0);
        // Two of the first one's seconds are left: until 4 it has one of them, and the short one ends.
        sharing.begin(3.0, 0.5, Due::Computed(1));
        assert!(sharing.pop(3.9).is_none());
        assert!(matches!(sharing.pop(9.0), Some((4.0, Due::Computed(1)))));
        assert!(matches!(sharing.pop(9.0), Some((5.5, Due::Computed(0)))));
        assert!(sharing.is_empty() && sharing.next_s().is_infinite());
        // News of the past count from the last end on.
        sharing.begin(5.0, 1.0, Due::Computed(2));
        assert_eq!(sharing.next_s(), 6.5);
    }
}
