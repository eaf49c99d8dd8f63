//! Reductions: bytes that move and sums between; All-Reduces along trees, too.

use std::ops::Range;

use zipwire_codec::DType;

use super::{Call, Flow, Lockstep, longest};
use crate::rank_order::RankOrder;
use crate::sum::halves;
use crate::{Algorithm, Rank};

impl Call<'_> {
    /// Seconds of reading so many bytes to add them up, in a kernel that is launched.
    pub(super) fn sum_s(&self, bytes_read: f64) -> f64 {
        self.costs.host.launch_s + bytes_read / self.costs.host.reduce_bytes_per_s
    }

    /// A Reduce-Scatter of shards of so many bytes, as contributions.
    pub(super) fn scatter(&self, dtype: DType, shard: u64) -> f64 {
        let (ranks, topology) = (f64::from(self.ranks()), self.costs.topology);
        let nodes = f64::from(topology.nodes);
        let sums = self.choice.sums.of(dtype);
        let widths = sums.width() as f64 / dtype.width() as f64;
        let (raw, sum) = (shard as f64, shard as f64 * widths);
        match self.way.algorithm {
            Algorithm::Library => {
                let widened = if widths == 1.0 { 0.0 } else { self.sum_s(raw * ranks) };
                widened + self.call_s(sum, u64::from(self.ranks() - 1))
            }
            Algorithm::Ring => {
                let widened = if widths == 1.0 { 0.0 } else { self.sum_s(raw) };
                widened + self.costs.host.launch_s + self.ring_of_sums(shard, widths)
            }
            Algorithm::Hierarchical if self.has_levels() => {
                let of_node = shard * u64::from(topology.nodes);
                let within = of_node * u64::from(topology.gpus_per_node - 1);
                let between = (sum * (nodes - 1.0)) as u64;
                let sizes = 8.0 * nodes;
                self.coding(within, within, || self.network.within(sizes))
                    + self.steps(1, false, self.network.within(self.wire(of_node as f64)))
                    + self.sum_s(raw * ranks)
                    + self.coding(between, between, || self.network.between(8.0))
                    + self.steps(1, false, self.network.between(self.wire(sum)))
                    + self.sum_s(sum * nodes)
            }
            _ => {
                let others = shard * u64::from(self.ranks() - 1);
                self.coding(others, others, || self.network.pairs(8.0))
                    + self.steps(1, false, self.network.pairs(self.wire(raw)))
                    + self.sum_s(raw * ranks)
            }
        }
    }

    /// Shards of so many raw bytes around rings in slices, whose partial sums are `widths` times as wide: one kernel, without its launch.
    fn ring_of_sums(&self, shard: u64, widths: f64) -> f64 {
        let slices = self.parts(shard, self.way.slices);
        let times = slices.iter().map(|raw| {
            let sums: Vec<f64> = raw.iter().map(|raw| raw * widths).collect();
            let read: f64 = raw.iter().chain(&sums).sum();
            (self.around(&sums).seconds(), read / self.costs.host.reduce_bytes_per_s)
        });
        let times: Vec<(f64, f64)> = times.collect();
        // Exchanges follow one another, and so do sums; a slice goes on when it is added up.
        let (mut exchanged_s, mut added_s) = (0.0_f64, 0.0_f64);
        let mut ready_s = vec![0.0_f64; times.len()];
        for _ in 1..self.ranks() {
            for (&(exchange_s, add_s), ready_s) in times.iter().zip(&mut ready_s) {
                exchanged_s = exchanged_s.max(*ready_s) + exchange_s;
                added_s = added_s.max(exchanged_s) + add_s;
                *ready_s = added_s;
            }
        }
        exchanged_s.max(added_s)
    }

    pub(super) fn all_reduce(&self, dtype: DType, bytes: u64) -> f64 {
        let shard = longest(&self.work.shards(self.ranks()));
        match self.way.algorithm {
            Algorithm::Library => {
                let ranks = u64::from(self.ranks());
                self.call_s((2 * (ranks - 1) * bytes).div_ceil(ranks) as f64, 1)
            }
            Algorithm::Tree => self.tree(dtype, shard),
            Algorithm::Ring => self.scatter(dtype, shard) + self.gather(shard) - self.costs.host.launch_s,
            _ => self.scatter(dtype, shard) + self.coded_gather(shard),
        }
    }
}

/// A rank of a tree that has others below it, by position.
struct Inner {
    position: u32,
    /// Steps from the root.
    depth: u32,
    /// Children, and whether each has children itself.
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
    fn tree(&self, dtype: DType, shard: u64) -> f64 {
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

    /// Bytes that travel as the partial sum of a subtree of `bytes` raw ones; a single rank's contribution travels unwidened.
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
