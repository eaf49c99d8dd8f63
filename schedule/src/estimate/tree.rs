//! All-Reduces along trees.

use std::ops::Range;

use zipwire_codec::DType;

use super::Call;
use super::lockstep::Lockstep;
use super::network::Flow;
use crate::Rank;
use crate::rank_order::RankOrder;
use crate::sum::halves;

/// A rank of a tree that has others below it, by position.
struct Inner {
    position: u32,
    /// How far it is from the root.
    depth: u32,
    /// Those below it, and whether each has others below itself.
    children: Vec<(u32, bool)>,
}

/// All trees of a call; they have one shape and each an order of its own.
struct Trees {
    inner: Vec<Inner>,
    orders: Vec<RankOrder>,
    ranks: u32,
    slices: u32,
    /// Raw bytes of each slice, by tree.
    bytes: Vec<Vec<f64>>,
    /// Width of partial sums over that of contributions.
    widths: f64,
}

impl Call<'_> {
    /// Seconds if every rank contributes shards of so many bytes; a rank adds up what came before it goes on.
    pub(super) fn tree(&self, dtype: DType, shard: u64) -> f64 {
        let ranks = self.ranks();
        let orders = RankOrder::of_trees(self.way.channels, self.costs.topology.gpus_per_node, ranks);
        let tree_count = orders.len() as u32;
        let per_tree = ranks.div_ceil(tree_count);
        let slices = self.way.slices.clamp(1, per_tree);
        let mut bytes = vec![vec![0.0; slices as usize]; orders.len()];
        for index in 0..ranks {
            let slice = index / tree_count * slices / per_tree;
            bytes[(index % tree_count) as usize][slice as usize] += shard as f64;
        }
        let widths = self.choice.sums.of(dtype).width() as f64 / dtype.width() as f64;
        let trees = Trees { inner: inner(ranks), orders, ranks, slices, bytes, widths };
        let mut lockstep = Lockstep::new(self.network, self.costs.host.launch_s);
        for tick in 0..slices + 2 * trees.height() - 1 {
            lockstep.step(trees.flows(tick), 1.0, 0.0);
            for (rank, read) in trees.read(tick) {
                lockstep.work(rank, read / self.costs.host.reduce_bytes_per_s);
            }
        }
        lockstep.seconds()
    }
}

impl Trees {
    /// How far the lowest rank is from the root.
    fn height(&self) -> u32 {
        self.ranks.ilog2()
    }

    /// The ranks that exchange something with those below them in a step: their trees, and the bytes of the slice that comes up, or else
    /// goes down.
    fn moving(&self, tick: u32) -> impl Iterator<Item = (&Inner, RankOrder, f64, bool)> + '_ {
        let height = self.height();
        let slices = (0..self.slices).filter_map(move |slice| {
            let step = tick.checked_sub(slice).filter(|&step| step < 2 * height)?;
            let is_up = step < height;
            Some((slice, if is_up { height - step - 1 } else { step - height }, is_up))
        });
        slices.flat_map(move |(slice, depth, is_up)| {
            let inner = self.inner.iter().filter(move |inner| inner.depth == depth);
            inner.flat_map(move |inner| {
                let trees = self.orders.iter().zip(&self.bytes);
                trees.map(move |(&order, bytes)| (inner, order, bytes[slice as usize], is_up))
            })
        })
    }

    /// What the sum of those below a rank takes on its way, with `bytes` raw ones; what one rank contributes travels as it is.
    fn partial(&self, bytes: f64, is_sum: bool) -> f64 {
        if is_sum { bytes * self.widths } else { bytes }
    }

    fn flows(&self, tick: u32) -> impl Iterator<Item = Flow> + '_ {
        self.moving(tick).flat_map(move |(inner, order, bytes, is_up)| {
            inner.children.iter().map(move |&(child, is_sum)| {
                let (parent, child) = (order.rank(inner.position, self.ranks), order.rank(child, self.ranks));
                match is_up {
                    true => Flow { src: child, dst: parent, bytes: self.partial(bytes, is_sum) },
                    false => Flow { src: parent, dst: child, bytes },
                }
            })
        })
    }

    /// Bytes that ranks read to add up what came in a step.
    fn read(&self, tick: u32) -> impl Iterator<Item = (Rank, f64)> + '_ {
        let adding = self.moving(tick).filter(|(.., is_up)| *is_up);
        adding.map(|(inner, order, bytes, _)| {
            let partials = inner.children.iter().map(|&(_, is_sum)| self.partial(bytes, is_sum));
            (order.rank(inner.position, self.ranks), bytes + partials.sum::<f64>())
        })
    }
}

/// The ranks of a tree of so many that have others below them.
fn inner(count: u32) -> Vec<Inner> {
    let mut found = Vec::new();
    let mut open: Vec<(Range<u32>, u32)> = vec![(0..count, 0)];
    while let Some((tree, depth)) = open.pop() {
        let (position, below) = halves(tree);
        let below: Vec<Range<u32>> = below.into_iter().filter(|tree| tree.start < tree.end).collect();
        if !below.is_empty() {
            let child = |tree: &Range<u32>| (halves(tree.clone()).0, tree.end - tree.start > 1);
            found.push(Inner { position, depth, children: below.iter().map(child).collect() });
        }
        open.extend(below.into_iter().map(|tree| (tree, depth + 1)));
    }
    found
}
