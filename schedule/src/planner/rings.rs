//! Rings of a collective, one for each of its channels.

use crate::Rank;
use crate::rank_order::RankOrder;

/// The rings of a call: as many as it has channels, each in an order of its own, so that each uses other NICs of a node.
pub(super) struct Rings {
    orders: Vec<RankOrder>,
    rank_count: u32,
}

/// A rank on a ring.
#[derive(Clone, Copy)]
pub(super) struct Around {
    pub(super) order: RankOrder,
    rank_count: u32,
    pub(super) position: u32,
    /// To whom it hands on.
    pub(super) next: Rank,
    /// From whom it gets.
    pub(super) previous: Rank,
}

impl Rings {
    /// A ring for each of so many channels, or as many as are of use.
    pub(super) fn new(channels: u32, ranks_per_node: u32, rank_count: u32) -> Self {
        // A single node has no NIC on the way, and nodes that divide no ranks have no places.
        let has_nodes = ranks_per_node < rank_count && rank_count.is_multiple_of(ranks_per_node);
        let channels = if has_nodes { channels.clamp(1, ranks_per_node) } else { 1 };
        let order = |channel| RankOrder::of_ring(channel, channels, ranks_per_node);
        Self { orders: (0..channels).map(order).collect(), rank_count }
    }

    pub(super) fn count(&self) -> u32 {
        self.orders.len() as u32
    }

    pub(super) fn orders(&self) -> impl Iterator<Item = RankOrder> {
        self.orders.iter().copied()
    }

    /// Where a rank is on one of them.
    pub(super) fn around(&self, rank: Rank, channel: u32) -> Around {
        let (order, rank_count) = (self.orders[channel as usize], self.rank_count);
        let position = order.position(rank, rank_count);
        let at = |position: u32| order.rank(position % rank_count, rank_count);
        let (next, previous) = (at(position + 1), at(position + rank_count - 1));
        Around { order, rank_count, position, next, previous }
    }
}

impl Around {
    /// Position so many steps before the rank.
    pub(super) fn position_back(&self, steps: u32) -> u32 {
        (self.position + self.rank_count - steps) % self.rank_count
    }

    /// The rank so many steps before it.
    pub(super) fn back(&self, steps: u32) -> Rank {
        self.order.rank(self.position_back(steps), self.rank_count)
    }
}
