//! Members of a broadcast.

use crate::Rank;
use crate::rank_order::RankOrder;

/// A contiguous range of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RankRange {
    /// The first one.
    pub begin: Rank,
    /// The one behind the last one.
    pub end: Rank,
}

impl RankRange {
    /// All ranks of so many.
    pub fn all(rank_count: u32) -> Self {
        Self { begin: Rank(0), end: Rank(rank_count) }
    }

    /// Whether a rank is one of them.
    pub fn contains(self, rank: Rank) -> bool {
        (self.begin..self.end).contains(&rank)
    }

    /// The ranks, in order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Rank> + Clone {
        (self.begin.0..self.end.0).map(Rank)
    }
}

/// Root and receivers of a broadcast, by distance from the root: in rank order, wrapping from the last one to the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Members {
    root: Rank,
    to: RankRange,
}

impl Members {
    pub(crate) fn new(root: Rank, to: RankRange) -> Self {
        Self { root, to }
    }

    /// How many there are, the root among them.
    pub(crate) fn count(self) -> u32 {
        self.to.end.0 - self.to.begin.0 + u32::from(!self.to.contains(self.root))
    }

    /// Whether the rank gets something.
    pub(crate) fn gets(self, rank: Rank) -> bool {
        rank != self.root && self.to.contains(rank)
    }

    pub(crate) fn receivers(self) -> impl Iterator<Item = Rank> + Clone {
        self.to.iter().filter(move |rank| *rank != self.root)
    }

    /// The member at a distance below [`count`](Self::count).
    pub(crate) fn at(self, distance: u32) -> Rank {
        let (begin, len) = (self.to.begin.0, self.to.end.0 - self.to.begin.0);
        match distance {
            0 => self.root,
            _ if self.to.contains(self.root) => Rank(begin + (self.root.0 - begin + distance) % len),
            _ => Rank(begin + distance - 1),
        }
    }

    /// How far a member is from the root.
    pub(crate) fn distance(self, rank: Rank) -> u32 {
        let (begin, len) = (self.to.begin.0, self.to.end.0 - self.to.begin.0);
        if rank == self.root {
            0
        } else if self.to.contains(self.root) {
            (rank.0 + len - self.root.0) % len
        } else {
            rank.0 - begin + 1
        }
    }

    /// The members from the root on, around an order of all ranks.
    pub(crate) fn chain(self, order: RankOrder, rank_count: u32) -> Vec<Rank> {
        let first = order.position(self.root, rank_count);
        let around = (0..rank_count).map(|step| order.rank((first + step) % rank_count, rank_count));
        around.filter(|rank| *rank == self.root || self.to.contains(*rank)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_and_members_are_inverse() {
        for (begin, end, ranks) in [(0, 5, 5), (1, 4, 5), (0, 1, 1), (3, 6, 6), (2, 3, 4)] {
            let to = RankRange { begin: Rank(begin), end: Rank(end) };
            for root in (0..ranks).map(Rank) {
                let members = Members::new(root, to);
                let mut all: Vec<Rank> = (0..members.count()).map(|distance| members.at(distance)).collect();
                assert_eq!(all[0], root);
                assert!((0..).zip(&all).all(|(distance, rank)| members.distance(*rank) == distance));
                assert_eq!(members.chain(RankOrder::default(), ranks), all, "in rank order");
                all.sort_unstable();
                let mut expected: Vec<Rank> = members.receivers().chain([root]).collect();
                expected.sort_unstable();
                assert_eq!(all, expected);
                assert!(expected.iter().all(|rank| members.gets(*rank) == (*rank != root)));
            }
        }
    }
}
