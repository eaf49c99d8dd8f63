//! Ranks in order: members of a broadcast, and orders of ranks around rings and over trees. The channels of a collective each have one
//! of their own, so that together they use all NICs of a node.

use crate::Rank;

/// An order of all ranks, node by node.
///
/// Within a node it begins at a place of its own, so that channels enter and leave nodes through different NICs. With turns, every
/// other node is gone through backwards: the rank that leaves a node and the one that enters the next have equal places, so that a ring
/// stays on its rail wherever the number of nodes is even.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RankOrder {
    /// Ranks of a node; 0 in rank order, which has no other entries.
    node: u16,
    /// The place in a node with which it begins.
    place: u16,
    /// The node with which it begins.
    first_node: u16,
    turns: bool,
}

impl RankOrder {
    /// The order of channel `channel` of `channels` around a ring over nodes of `ranks_per_node` ranks; rank order where there is only
    /// one.
    ///
    /// # Panics
    /// If there are more channels than ranks in a node, or above 65 535 ranks in a node, as all constructors.
    pub(crate) fn of_ring(channel: u32, channels: u32, ranks_per_node: u32) -> Self {
        assert!(
            channel < channels && channels <= ranks_per_node.max(1),
            "each channel has a place of its own"
        );
        if channels == 1 {
            return Self::default();
        }
        let place = narrow(channel * ranks_per_node / channels);
        Self { node: narrow(ranks_per_node), place, first_node: 0, turns: true }
    }

    /// The orders of the trees of a call, one for each of so many channels, and at least two where there are two ranks, so that inner ranks
    /// of one are leaves of another. They begin at other places of their nodes and, so that no node is always near the root, at other
    /// nodes.
    pub(crate) fn of_trees(channels: u32, ranks_per_node: u32, rank_count: u32) -> Vec<Self> {
        let size = ranks_per_node;
        let has_nodes = 1 < size && size < rank_count && rank_count.is_multiple_of(size);
        // Without places in nodes, trees begin at other ranks.
        let (size, nodes) = if has_nodes { (size, rank_count / size) } else { (rank_count, 1) };
        let trees = channels.max(2).min(rank_count);
        let order = |tree| Self {
            node: narrow(size),
            place: narrow(tree * size / trees % size),
            first_node: narrow(tree % nodes),
            turns: false,
        };
        (0..trees).map(order).collect()
    }

    pub(crate) fn rank(self, position: u32, rank_count: u32) -> Rank {
        if self.node == 0 {
            return Rank(position);
        }
        let size = u32::from(self.node);
        let (index, step) = (position / size, position % size);
        let node = (index + u32::from(self.first_node)) % (rank_count / size);
        let step = if self.turns && index % 2 == 1 { size - 1 - step } else { step };
        Rank(node * size + (u32::from(self.place) + step) % size)
    }

    pub(crate) fn position(self, rank: Rank, rank_count: u32) -> u32 {
        if self.node == 0 {
            return rank.0;
        }
        let size = u32::from(self.node);
        let nodes = rank_count / size;
        let index = (rank.0 / size + nodes - u32::from(self.first_node)) % nodes;
        let step = (rank.0 % size + size - u32::from(self.place)) % size;
        index * size + if self.turns && index % 2 == 1 { size - 1 - step } else { step }
    }

    pub(crate) fn is_plain(self) -> bool {
        self.node == 0
    }

    /// Fields that tell it apart from other orders, for texts of plans: ranks of a node, the place and the node with which it
    /// begins, and whether it turns.
    pub(crate) fn parts(self) -> (u16, u16, u16, bool) {
        (self.node, self.place, self.first_node, self.turns)
    }
}

fn narrow(number: u32) -> u16 {
    u16::try_from(number).expect("ranks of nodes are counted in 16 bits")
}

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

    pub(crate) fn count(self) -> u32 {
        self.to.end.0 - self.to.begin.0 + u32::from(!self.to.contains(self.root))
    }

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
    fn positions_and_ranks_are_inverse() {
        for (nodes, size) in [(1, 1), (1, 8), (2, 3), (3, 4), (4, 8)] {
            let rank_count = nodes * size;
            let rings = (1..=size).flat_map(|n| (0..n).map(move |c| RankOrder::of_ring(c, n, size)));
            for order in rings.chain(RankOrder::of_trees(9, size, rank_count)) {
                let mut seen = vec![false; rank_count as usize];
                for position in 0..rank_count {
                    let rank = order.rank(position, rank_count);
                    assert_eq!(order.position(rank, rank_count), position, "{order:?}");
                    assert!(
                        !std::mem::replace(&mut seen[rank.index()], true),
                        "{order:?}: {rank} comes twice"
                    );
                }
            }
        }
    }

    /// Every NIC of a node is left by one ring and entered by one, in every node; and rings stay on their rails if nodes are even.
    #[test]
    fn rings_share_the_nics_of_a_node() {
        for (nodes, size, nics) in [(2, 8, 8), (4, 8, 8), (4, 8, 4), (3, 4, 4), (5, 8, 2), (2, 6, 3)] {
            let rank_count = nodes * size;
            let nic = |rank: Rank| (rank.0 / size, rank.0 % size * nics / size);
            let (mut out, mut into) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
            for channel in 0..nics {
                let order = RankOrder::of_ring(channel, nics, size);
                for position in 0..rank_count {
                    let rank = order.rank(position, rank_count);
                    let next = order.rank((position + 1) % rank_count, rank_count);
                    if rank.0 / size != next.0 / size {
                        *out.entry(nic(rank)).or_insert(0) += 1;
                        *into.entry(nic(next)).or_insert(0) += 1;
                        let stays = rank.0 % size == next.0 % size;
                        assert!(stays || nodes % 2 == 1, "{rank} to {next} leaves the rail");
                    }
                }
            }
            assert_eq!(out.len() as u32, nodes * nics, "every NIC sends");
            assert!(out.values().chain(into.values()).all(|&rings| rings == 1), "{out:?} {into:?}");
        }
    }

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
