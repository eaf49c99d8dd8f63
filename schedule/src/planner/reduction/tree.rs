//! An All-Reduce along trees: partial sums travel up, and sums down, in slices that follow one another.
//!
//! Each shard belongs to one of several trees, which begin at different places of nodes and at different nodes, so that the work of
//! inner ranks and of NICs is spread. All ranks of a tree that are equally far from its root send a slice at the same time, so in each
//! step a rank exchanges one slice with its parent and one with each child, in both directions at once.

use std::ops::Range;

use super::super::call::Phase;
use super::{Scatter, exchange_in_kernel, reduce_in_kernel};
use crate::builder::ProgramBuilder;
use crate::plan::{Addition, Chunk, Region, Term};
use crate::planner::Choice;
use crate::rank_order::RankOrder;
use crate::sum::halves;
use crate::{Rank, Sum};

/// One of the trees, as a rank sees it. Positions are those of its order.
struct Tree {
    order: RankOrder,
    rank_count: u32,
    position: u32,
    /// The positions at and below the rank.
    below: Range<u32>,
    /// Steps from the root.
    depth: u32,
    parent: Option<u32>,
    /// The trees below the rank: first and last position.
    children: Vec<Range<u32>>,
}

impl Tree {
    fn new(order: RankOrder, rank: Rank, rank_count: u32) -> Self {
        let position = order.position(rank, rank_count);
        let (mut below, mut depth, mut parent) = (0..rank_count, 0, None);
        loop {
            let (root, halves) = halves(below.clone());
            if root == position {
                let children = halves.into_iter().filter(|half| half.start < half.end).collect();
                return Self { order, rank_count, position, below, depth, parent, children };
            }
            let [lower, upper] = halves;
            below = if position < root { lower } else { upper };
            (depth, parent) = (depth + 1, Some(root));
        }
    }

    fn root(&self) -> Rank {
        self.rank(halves(0..self.rank_count).0)
    }

    fn rank(&self, position: u32) -> Rank {
        self.order.rank(position, self.rank_count)
    }

    /// The sum of what is at and below some positions, in FP32.
    fn sum(&self, positions: Range<u32>) -> Sum {
        Sum::along_tree(self.order, positions, self.rank_count)
    }
}

#[derive(Default)]
struct Tick {
    sends: Vec<(Rank, Term)>,
    receives: Vec<(Rank, Term)>,
    additions: Vec<Addition>,
}

impl Scatter<'_> {
    /// The sums lie in the output.
    pub(super) fn tree(&mut self, builder: &mut ProgramBuilder, choice: &Choice) -> Vec<Phase> {
        let Self { rank, rank_count, .. } = *self;
        let tree = |order| Tree::new(order, rank, rank_count);
        let orders = RankOrder::of_trees(choice.channels, choice.ranks_per_node, rank_count);
        let trees: Vec<Tree> = orders.into_iter().map(tree).collect();
        let tree_count = trees.len() as u32;
        // Shards of a tree are dealt out to its slices.
        let per_tree = rank_count.div_ceil(tree_count);
        let slices = choice.slices.clamp(1, per_tree);
        // How far the lowest rank is from the root.
        let depth = rank_count.ilog2();
        let mut ticks: Vec<Tick> = (0..slices + 2 * depth).map(|_| Tick::default()).collect();
        for shard in 0..rank_count {
            let output = self.operands.shards.region(Rank(shard), self.operands.ends.output);
            let tree = &trees[(shard % tree_count) as usize];
            let slice = shard / tree_count * slices / per_tree;
            // In the first one the lowest ranks send this slice up; in the last one they get its sum.
            let ticks = &mut ticks[slice as usize..][..=(2 * depth) as usize - usize::from(depth > 0)];
            self.along(tree, Rank(shard), output, ticks);
        }
        builder.reserve(self.operands.summands, self.end);
        let (mut phases, mut is_running) = (Vec::new(), false);
        for Tick { sends, receives, additions } in ticks {
            if sends.len() + receives.len() > 0 {
                let call = exchange_in_kernel(self.operands.sums, &sends, &receives, is_running);
                phases.push(Phase::Call(call, Vec::new()));
                is_running = true;
            }
            phases.extend(reduce_in_kernel(additions));
        }
        phases
    }

    /// Adds this rank's part in a shard, whose sum goes to `output`.
    fn along(&mut self, tree: &Tree, shard: Rank, output: Region, ticks: &mut [Tick]) {
        let own = self.contribution(shard);
        if own.values.len == 0 {
            return;
        }
        let sums_in = self.operands.sums;
        // The lowest ranks are `height` from the root, and this one is `depth`.
        let (depth, height) = (tree.depth as usize, ticks.len() / 2);
        // What is at and below some positions, as it leaves the rank `origin`.
        let partial = |origin: Rank, positions: &Range<u32>| {
            let sum = match positions.end - positions.start {
                1 => self.one(origin),
                _ => tree.sum(positions.clone()).with_partials(sums_in).as_dtype(sums_in),
            };
            Chunk::between(origin, shard).with_sum(sum)
        };
        let len =
            |chunk: &Chunk| self.operands.len_in(chunk.sum.expect("it is a sum").dtype(), own.values.len);
        let root = tree.root();
        let total = tree.sum(0..tree.rank_count).with_partials(sums_in).as_dtype(self.sum_dtype);
        let total = Term { chunk: Chunk::between(root, shard).with_sum(total), values: output };

        let children: Vec<(Rank, Chunk)> = tree
            .children
            .iter()
            .map(|child| {
                let from = tree.rank(halves(child.clone()).0);
                (from, partial(from, child))
            })
            .collect();
        let up = partial(self.rank, &tree.below);
        let (up_len, child_lens) =
            (len(&up), children.iter().map(|(_, chunk)| len(chunk)).collect::<Vec<_>>());
        // Up: the rank gets the sums of its children, adds its own in their midst, and hands on.
        let mut terms: Vec<Term> = Vec::new();
        for (&(from, chunk), &len) in children.iter().zip(&child_lens) {
            let term = Term { chunk, values: self.reserve(len) };
            ticks[height - depth - 1].receives.push((from, term));
            terms.push(term);
        }
        let before = tree.children.iter().filter(|child| child.end <= tree.position).count();
        terms.insert(before, own);
        let is_root = tree.parent.is_none();
        let sum = match (is_root, children.is_empty()) {
            (true, _) => total,
            (false, true) => own,
            (false, false) => Term { chunk: up, values: self.reserve(up_len) },
        };
        if is_root || !children.is_empty() {
            let Term { chunk, values } = sum;
            // Where there is nobody else, the rank adds up what it has.
            let tick = height.saturating_sub(depth + 1);
            ticks[tick].additions.push(Addition { terms, chunk, values });
        }
        // Down: the rank gets the sum and hands it on.
        if let Some(parent) = tree.parent {
            let parent = tree.rank(parent);
            ticks[height - depth].sends.push((parent, sum));
            ticks[height + depth - 1].receives.push((parent, total));
        }
        for &(child, _) in &children {
            ticks[height + depth].sends.push((child, total));
        }
    }
}
