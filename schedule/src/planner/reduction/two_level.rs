//! A reduction on two levels: within nodes, then between them.

use super::super::call::Phase;
use super::{Scatter, exchange, reduce};
use crate::plan::{Addition, Chunk, Term};
use crate::{Rank, Sum};

impl Scatter<'_> {
    /// Within the node what is contributed to all shards of a place goes to the rank of that place; between nodes its sums go to
    /// the ranks of the same place.
    pub(super) fn two_levels(&mut self) -> Vec<Phase> {
        let Self { rank, rank_count, .. } = *self;
        let (size, sums_in) = (self.operands.ranks_per_node, self.operands.sums);
        let (node, place, node_count) = (rank.0 / size, rank.0 % size, rank_count / size);
        let at = |node: u32, place: u32| Rank(node * size + place);
        let shards: Vec<Rank> = (0..node_count).map(|node| at(node, place)).collect();
        // Terms by shard of this place, and origin within the node.
        let mut terms: Vec<Vec<Term>> =
            shards.iter().map(|&shard| vec![self.contribution(shard); size as usize]).collect();
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for other in (1..size).map(|step| (place + step) % size) {
            let of_place = (0..node_count).map(|node| at(node, other));
            sends.extend(of_place.map(|shard| (at(node, other), self.contribution(shard))));
        }
        for other in (1..size).map(|step| (place + size - step) % size) {
            let peer = at(node, other);
            for (&shard, terms) in shards.iter().zip(&mut terms) {
                let chunk = Chunk::between(peer, shard).with_sum(self.one(peer));
                let term = Term { chunk, values: self.reserve(self.own[shard.index()].len) };
                terms[other as usize] = term;
                receives.push((peer, term));
            }
        }
        let mut phases = vec![Phase::Call(exchange(self.operands.dtype, &sends, &receives), Vec::new())];

        let of_node = |node| Sum::run(at(node, 0), size, rank_count, sums_in);
        let additions: Vec<Addition> = shards
            .iter()
            .zip(terms)
            .map(|(&shard, terms)| {
                let len = self.operands.len_in(sums_in, self.own[shard.index()].len);
                let chunk = Chunk::between(rank, shard).with_sum(of_node(node));
                Addition { terms, chunk, values: self.reserve(len) }
            })
            .collect();
        let sums: Vec<Term> = additions.iter().map(Addition::as_term).collect();
        phases.extend(reduce(additions));

        let mut terms = vec![sums[node as usize]; node_count as usize];
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for step in 1..node_count {
            let (next, previous) = ((node + step) % node_count, (node + node_count - step) % node_count);
            sends.push((at(next, place), sums[next as usize]));
            let peer = at(previous, place);
            let len = self.operands.len_in(sums_in, self.own[rank.index()].len);
            let chunk = Chunk::between(peer, rank).with_sum(of_node(previous));
            let term = Term { chunk, values: self.reserve(len) };
            terms[previous as usize] = term;
            receives.push((peer, term));
        }
        phases.push(Phase::Call(exchange(sums_in, &sends, &receives), Vec::new()));
        let chunk = Chunk::between(rank, rank).with_sum(self.operands.total().as_dtype(self.sum_dtype));
        phases.extend(reduce(vec![Addition { terms, chunk, values: self.output }]));
        phases
    }
}
