//! Reduce-Scatters: straight, around rings, on two levels and by a library, each as methods of [`Scatter`].

use super::super::call::Phase;
use super::super::rings::{Around, Rings};
use super::{Scatter, exchange, exchange_in_kernel, reduce, reduce_in_kernel};
use crate::builder::ProgramBuilder;
use crate::plan::{Addition, Chunk, Content, Library, Region, Share, Term};
use crate::planner::Choice;
use crate::{Channel, Collective, DType, Rank, Stage, Sum};

impl Scatter<'_> {
    /// All contributions as they are, each to the rank whose shard it is for, which adds them up in rank order.
    pub(super) fn straight(&mut self, choice: &Choice) -> Vec<Phase> {
        let Self { rank, rank_count, .. } = *self;
        let order = choice.order;
        let len = |shard: Rank| self.own[shard.index()].len;
        let (receivers, own_len) = (order.sends(rank, rank_count, len), len(rank));
        let senders = order.receives(rank, rank_count, |_| own_len);
        let mut terms: Vec<Term> = (0..rank_count).map(|_| self.contribution(rank)).collect();
        for &peer in &senders {
            terms[peer.index()] = Term {
                chunk: Chunk::between(peer, rank).with_sum(self.one(peer)),
                values: self.reserve(own_len),
            };
        }
        let sends: Vec<(Rank, Term)> =
            receivers.iter().map(|&peer| (peer, self.contribution(peer))).collect();
        let receives: Vec<(Rank, Term)> = senders.iter().map(|&peer| (peer, terms[peer.index()])).collect();
        let mut call = exchange(self.operands.dtype, &sends, &receives);
        let window = order.window(choice.window, rank_count);
        for step in call.steps.iter_mut().chain([&mut call.sizes]) {
            (step.order, step.window) = (order, window);
        }
        let chunk = Chunk::between(rank, rank).with_sum(self.operands.total().as_dtype(self.sum_dtype));
        let sum = reduce(vec![Addition { terms, chunk, values: self.output }]);
        [Phase::Call(call, Vec::new())].into_iter().chain(sum).collect()
    }

    /// Step k, from 1 on, hands the sum of k contributions to the shard of the rank k steps before to the next rank. Each channel has a
    /// ring and a part of every shard. With slices, one is added up while the next travels.
    pub(super) fn ring(&mut self, choice: &Choice) -> Vec<Phase> {
        let Self { rank, rank_count, .. } = *self;
        let rings = Rings::new(choice.channels, choice.ranks_per_node, rank_count);
        let (slices, parts) = (choice.slices, rings.count() * choice.slices);
        let around: Vec<Around> = (0..parts).map(|part| rings.around(rank, part / slices)).collect();
        let sums_in = self.operands.sums;
        let mut phases = Vec::new();
        // What is handed on next, by part.
        let mut handed: Vec<Term> = (0..parts)
            .map(|part| self.contribution_part(around[part as usize].previous, part, parts))
            .collect();
        if self.operands.dtype != sums_in {
            // Partial sums are wider from the first step on: values are widened where they come from.
            let widened: Vec<Addition> = handed.iter().map(|&term| self.widened(term)).collect();
            handed = widened.iter().map(Addition::as_term).collect();
            phases.extend(reduce(widened));
        }
        // The first step in which the rank takes part launches the kernel.
        let mut is_running = false;
        for step in 1..rank_count {
            for slice in 0..slices {
                let of_slice = (0..rings.count()).map(|channel| channel * slices + slice);
                let (mut sends, mut receives, mut additions) = (Vec::new(), Vec::new(), Vec::new());
                for part in of_slice {
                    let ring = around[part as usize];
                    let (shard, position) = (ring.back(step + 1), ring.position_back(step + 1));
                    let partial = |count| self.operands.partial_around(ring.order, position, count);
                    let own = self.contribution_part(shard, part, parts);
                    let offset = self.operands.len_in(sums_in, own.chunk.offset);
                    let of_sum = |sum, dtype: DType| {
                        let offset = self.operands.len_in(dtype, own.chunk.offset);
                        Chunk { offset, ..own.chunk }.with_sum(sum)
                    };
                    let (before, after) = (partial(step).as_dtype(sums_in), partial(step + 1));
                    let is_last = step + 1 == rank_count;
                    let last = of_sum(after.as_dtype(self.sum_dtype), self.sum_dtype);
                    let next = of_sum(after.as_dtype(sums_in), sums_in);
                    let len = self.operands.len_in(sums_in, own.values.len);
                    let chunk = Chunk { origin: ring.previous, offset, ..own.chunk }.with_sum(before);
                    let received = Term { chunk, values: self.reserve(len) };
                    sends.push((ring.next, handed[part as usize]));
                    receives.push((ring.previous, received));
                    let sum = if is_last {
                        let (begin, len) =
                            (last.offset, self.operands.len_in(self.sum_dtype, own.values.len));
                        let values = Region { offset: self.output.offset + begin, len, ..self.output };
                        Term { chunk: last, values }
                    } else {
                        Term { chunk: next, values: received.values }
                    };
                    additions.push(Addition {
                        terms: vec![received, own],
                        chunk: sum.chunk,
                        values: sum.values,
                    });
                    handed[part as usize] = sum;
                }
                let call = exchange_in_kernel(sums_in, &sends, &receives, is_running);
                is_running |= !call.pieces.is_empty();
                phases.push(Phase::Call(call, Vec::new()));
                phases.extend(reduce_in_kernel(additions));
            }
        }
        phases
    }

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

    /// A Reduce-Scatter. A library adds up what it is given and gives sums of the same type, so what is summed up in FP32 is
    /// widened before.
    pub(super) fn by_library(&mut self, builder: &mut ProgramBuilder) -> Vec<Phase> {
        let mut contributions = self.contributions();
        let mut phases = Vec::new();
        if self.operands.dtype != self.operands.sums {
            let additions: Vec<Addition> = contributions.iter().map(|&term| self.widened(term)).collect();
            contributions = additions.iter().map(Addition::as_term).collect();
            phases.extend(reduce(additions));
            builder.reserve(self.operands.summands, self.end);
        }
        let total = self.operands.total().as_dtype(self.operands.sums);
        let chunk = Chunk::between(self.rank, self.rank).with_sum(total);
        let sum = Term { chunk, values: self.output };
        phases.push(library(Collective::ReduceScatter, self.rank_count, &contributions, &[sum]));
        phases
    }

    /// An All-Reduce whose sums lie at `sums`, by shard.
    pub(super) fn all_by_library(&self, sums: &[Region]) -> Phase {
        let total = self.operands.total().as_dtype(self.operands.dtype);
        let sum = |(shard, &values): (u32, &Region)| Term {
            chunk: Chunk::for_all(Rank(shard)).with_sum(total),
            values,
        };
        let sums: Vec<Term> = (0..).zip(sums).map(sum).collect();
        library(Collective::AllReduce, self.rank_count, &self.contributions(), &sums)
    }
}

/// One call that adds up what ranks contribute; empty shards are left out.
fn library(collective: Collective, ranks: u32, contributions: &[Term], sums: &[Term]) -> Phase {
    let shares = |terms: &[Term]| -> Vec<Share> {
        let moving = terms.iter().filter(|term| term.values.len > 0);
        moving.map(|term| Share { chunk: term.chunk, content: Content::Values(term.values) }).collect()
    };
    let (inputs, outputs) = (shares(contributions), shares(sums));
    let (channel, stage) = (Channel::Main, Stage::Raw);
    Phase::Library(Library { collective, ranks, channel, stage, part: 0, inputs, outputs })
}
