//! Reduce-Scatter and All-Reduce: what all ranks contribute, added up in an order that the algorithm fixes.
//!
//! An All-Reduce is a Reduce-Scatter, whose sums are rounded to the type of the contributions, and an All-Gather of these.

mod tree;

use std::sync::Arc;

use zipwire_cluster::Group;
use zipwire_codec::DType;

use super::call::{Around, Buffers, Call, Hop, PART_ALIGN, Phase, Piece, Rings, Step, align, range};
use super::{Choice, all_gather};
use crate::builder::ProgramBuilder;
use crate::plan::{Addition, Chunk, Content, Lens, Library, Reduce, Region, Row, Share, Shares, Term};
use crate::rank_order::RankOrder;
use crate::{Algorithm, BufferId, Channel, Collective, Order, Rank, Stage, Sum, Window};

pub(super) struct Operands {
    /// Type of the contributions: BF16 or FP32.
    pub(super) dtype: DType,
    /// Bytes of each shard, as contributions.
    pub(super) shards: Arc<Lens>,
    pub(super) ends: Buffers,
    pub(super) summands: BufferId,
    pub(super) algorithm: Algorithm,
    pub(super) ranks_per_node: u32,
    /// Type in which partial sums leave a rank, and that of the sums of a Reduce-Scatter.
    pub(super) sums: DType,
}

pub(super) fn reduce_scatter(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    operands: &Operands,
) -> Vec<Phase> {
    let Operands { shards, ends, .. } = operands;
    let len = operands.len_in(operands.sums, shards.bytes()[builder.rank().index()]);
    let output = Region { buffer: ends.output, offset: 0, len };
    builder.reserve(ends.output, len);
    let mut scatter = Scatter::new(builder, operands, operands.sums, output);
    if operands.algorithm == Algorithm::Library {
        assert!(!choice.protocol.is_coded(), "a library adds up no frames");
        return scatter.by_library(builder);
    }
    scatter.phases(builder, choice)
}

pub(super) fn all_reduce(builder: &mut ProgramBuilder, choice: &Choice, operands: &Operands) -> Vec<Phase> {
    let Operands { dtype, shards, ends, algorithm, .. } = operands;
    builder.reserve(ends.output, shards.end());
    let output = shards.region(builder.rank(), ends.output);
    let mut scatter = Scatter::new(builder, operands, *dtype, output);
    match algorithm {
        Algorithm::Library => {
            assert!(!choice.protocol.is_coded(), "a library adds up no frames");
            return vec![scatter.all_by_library()];
        }
        Algorithm::Tree => {
            assert!(!choice.protocol.is_coded(), "partial sums are not coded");
            return scatter.tree(builder, choice);
        }
        _ => {}
    }
    let ranks = (0..operands.rank_count()).map(Rank);
    let sums: Vec<Region> = ranks.map(|shard| shards.region(shard, ends.output)).collect();
    let mut phases = scatter.phases(builder, choice);
    let way = match algorithm {
        Algorithm::Ring => Algorithm::Ring,
        Algorithm::Hierarchical if operands.has_levels() => Algorithm::Hierarchical,
        _ => Algorithm::Direct,
    };
    // Sums are gathered in the slices in which they were made.
    let slices = if way == Algorithm::Ring { choice.slices } else { 1 };
    let shards = all_gather::Blocks { dtype: *dtype, bytes: shards.bytes(), values: &sums, slices };
    let mut gather = all_gather::among(builder.rank(), choice, way, &shards);
    let rings = Rings::new(choice.channels, choice.ranks_per_node, operands.rank_count());
    for Piece { chunk, .. } in &mut gather.pieces {
        let total = match way {
            Algorithm::Ring => operands.total_around(rings.around(chunk.origin, chunk.part / slices)),
            _ => operands.total(),
        };
        *chunk = chunk.with_sum(total.as_dtype(*dtype));
    }
    if way == Algorithm::Ring
        && let Some(first) = gather.steps.first_mut()
    {
        // It goes on in the kernel that has made the sums.
        (first.fused, gather.goes_on) = (true, true);
    }
    phases.push(Phase::Call(gather, Vec::new()));
    phases
}

impl Operands {
    fn rank_count(&self) -> u32 {
        u32::try_from(self.shards.bytes().len()).expect("ranks are counted in 32 bits")
    }

    /// Whether there are both nodes and ranks within them; else two levels are one.
    fn has_levels(&self) -> bool {
        assert!(self.rank_count().is_multiple_of(self.ranks_per_node), "nodes are equal");
        1 < self.ranks_per_node && self.ranks_per_node < self.rank_count()
    }

    /// Bytes of contributions of `len` bytes as values of another type.
    fn len_in(&self, dtype: DType, len: u64) -> u64 {
        len / self.dtype.width() as u64 * dtype.width() as u64
    }

    /// Sum over all ranks where its order does not depend on the shard; in FP32.
    fn total(&self) -> Sum {
        let all = Sum::all(self.rank_count(), DType::F32);
        match self.algorithm {
            Algorithm::Hierarchical if self.has_levels() => {
                all.in_groups_of(self.ranks_per_node).with_partials(self.sums)
            }
            Algorithm::Direct | Algorithm::Library | Algorithm::Hierarchical => all,
            _ => panic!("a reduction `{}` has an order for each shard", self.algorithm.name()),
        }
    }

    /// Sum over all ranks for the shard of a rank on a ring: it begins behind that rank and ends with it. In FP32.
    fn total_around(&self, ring: Around) -> Sum {
        self.partial_around(ring.order, ring.position, self.rank_count())
    }

    /// Sum over the first `count` ranks behind a position of a ring, in FP32.
    fn partial_around(&self, order: RankOrder, position: u32, count: u32) -> Sum {
        let ranks = self.rank_count();
        Sum::along(order, (position + 1) % ranks, count, ranks).with_partials(self.sums)
    }
}

struct Scatter<'a> {
    operands: &'a Operands,
    rank: Rank,
    rank_count: u32,
    /// Where the sum of its shard goes, and its type.
    output: Region,
    sum_dtype: DType,
    /// The first free byte of the buffer for what others contribute.
    end: u64,
}

impl<'a> Scatter<'a> {
    fn new(builder: &mut ProgramBuilder, operands: &'a Operands, sum_dtype: DType, output: Region) -> Self {
        builder.reserve(operands.ends.input, operands.shards.end());
        let (rank, rank_count) = (builder.rank(), operands.rank_count());
        Self { operands, rank, rank_count, output, sum_dtype, end: 0 }
    }

    /// Values that this rank contributes to a shard.
    fn own(&self, shard: Rank) -> Region {
        self.operands.shards.region(shard, self.operands.ends.input)
    }

    fn phases(&mut self, builder: &mut ProgramBuilder, choice: &Choice) -> Vec<Phase> {
        let phases = match self.operands.algorithm {
            Algorithm::Ring => {
                assert!(!choice.protocol.is_coded(), "partial sums are not coded");
                self.ring(choice)
            }
            Algorithm::Hierarchical if self.operands.has_levels() => self.two_levels(),
            Algorithm::Hierarchical | Algorithm::Direct => self.straight(choice),
            _ => panic!("a Reduce-Scatter does not travel as `{}`", self.operands.algorithm.name()),
        };
        builder.reserve(self.operands.summands, self.end);
        phases
    }

    fn widened(&mut self, term: Term) -> Addition {
        let sums = self.operands.sums;
        let offset = self.operands.len_in(sums, term.chunk.offset);
        let chunk = Chunk { offset, ..term.chunk }.with_sum(Sum::one(self.rank, self.rank_count, sums));
        let values = self.reserve(self.operands.len_in(sums, term.values.len));
        Addition { terms: vec![term], chunk, values }
    }

    fn contributions(&self) -> Vec<Term> {
        (0..self.rank_count).map(|shard| self.contribution(Rank(shard))).collect()
    }

    /// Contribution of a rank, as a sum of one.
    fn one(&self, rank: Rank) -> Sum {
        Sum::one(rank, self.rank_count, self.operands.dtype)
    }

    fn contribution(&self, shard: Rank) -> Term {
        let chunk = Chunk::between(self.rank, shard).with_sum(self.one(self.rank));
        Term { chunk, values: self.own(shard) }
    }

    /// A part of this rank's contribution to a shard.
    fn contribution_part(&self, shard: Rank, part: u32, parts: u32) -> Term {
        let Term { chunk, values } = self.contribution(shard);
        let (begin, end) = range(values.len, part, parts, PART_ALIGN);
        let values = Region { offset: values.offset + begin, len: end - begin, ..values };
        Term { chunk: Chunk { part, offset: begin, ..chunk }, values }
    }

    fn reserve(&mut self, len: u64) -> Region {
        let region = Region { buffer: self.operands.summands, offset: align(self.end), len };
        self.end = region.end();
        region
    }
}

/// The sums of shards that are not empty, if there are any; a kernel of their own.
fn reduce(additions: Vec<Addition>) -> Option<Phase> {
    reduce_in(additions, false)
}

/// The same, in the kernel that moves their terms.
fn reduce_in_kernel(additions: Vec<Addition>) -> Option<Phase> {
    reduce_in(additions, true)
}

fn reduce_in(mut additions: Vec<Addition>, fused: bool) -> Option<Phase> {
    additions.retain(|addition| addition.values.len > 0);
    (!additions.is_empty()).then_some(Phase::Reduce(Reduce { additions, fused }))
}

/// Exchange with peers, each straight and all at once; empty terms do not move.
fn exchange(dtype: DType, sends: &[(Rank, Term)], receives: &[(Rank, Term)]) -> Call {
    let mut pieces = Vec::new();
    let mut hops = |ends: &[(Rank, Term)]| -> Vec<Hop> {
        let moving = ends.iter().filter(|(_, term)| term.values.len > 0);
        let hop = moving.map(|&(peer, Term { chunk, values })| {
            pieces.push(Piece::new(chunk, values));
            Hop { peer, piece: pieces.len() - 1 }
        });
        hop.collect()
    };
    let (sends, receives) = (hops(sends), hops(receives));
    let transfers = u32::try_from(sends.len().max(receives.len())).expect("transfers are counted in 32 bits");
    let window = Window::both(transfers.max(1));
    Call::at_once(dtype, pieces, Step { order: Order::Rotation, window, sends, receives, fused: false })
}

/// The same exchange as a step of a kernel, which the call before has launched if it goes on.
fn exchange_in_kernel(
    dtype: DType,
    sends: &[(Rank, Term)],
    receives: &[(Rank, Term)],
    goes_on: bool,
) -> Call {
    let mut call = exchange(dtype, sends, receives);
    call.steps.iter_mut().for_each(|step| step.fused = true);
    Call { goes_on, ..call }
}

impl Scatter<'_> {
    /// All contributions as they are, each to the rank whose shard it is for, which adds them up in rank order.
    fn straight(&mut self, choice: &Choice) -> Vec<Phase> {
        let Self { rank, rank_count, .. } = *self;
        let order = choice.order;
        let len = |shard: Rank| self.own(shard).len;
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
    fn ring(&mut self, choice: &Choice) -> Vec<Phase> {
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
    fn two_levels(&mut self) -> Vec<Phase> {
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
                let term = Term { chunk, values: self.reserve(self.own(shard).len) };
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
                let len = self.operands.len_in(sums_in, self.own(shard).len);
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
            let len = self.operands.len_in(sums_in, self.own(rank).len);
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
    fn by_library(&mut self, builder: &mut ProgramBuilder) -> Vec<Phase> {
        let mut phases = Vec::new();
        let given = if self.operands.dtype == self.operands.sums {
            self.given()
        } else {
            let additions: Vec<Addition> =
                self.contributions().iter().map(|&term| self.widened(term)).collect();
            let given = shares(additions.iter().map(Addition::as_term));
            phases.extend(reduce(additions));
            builder.reserve(self.operands.summands, self.end);
            given
        };
        let total = self.operands.total().as_dtype(self.operands.sums);
        let chunk = Chunk::between(self.rank, self.rank).with_sum(total);
        let sum = shares([Term { chunk, values: self.output }].into_iter());
        phases.push(library(Collective::ReduceScatter, self.rank_count, given, sum));
        phases
    }

    /// An All-Reduce whose sums lie in the output.
    fn all_by_library(&self) -> Phase {
        let total = self.operands.total().as_dtype(self.operands.dtype);
        let chunk = Chunk::for_all(Rank(0)).with_sum(total);
        let sums = self.row(chunk, self.operands.ends.output);
        library(Collective::AllReduce, self.rank_count, self.given(), sums)
    }

    /// All contributions of this rank.
    fn given(&self) -> Shares {
        let chunk = Chunk::between(self.rank, Rank(0)).with_sum(self.one(self.rank));
        self.row(chunk, self.operands.ends.input)
    }

    fn row(&self, chunk: Chunk, buffer: BufferId) -> Shares {
        Shares::Row(Row {
            chunk,
            buffer,
            lens: Arc::clone(&self.operands.shards),
            without: None,
            group: Group::all(self.rank_count),
        })
    }
}

/// Values that move, one by one; empty shards are left out.
fn shares(terms: impl Iterator<Item = Term>) -> Shares {
    let moving = terms.filter(|term| term.values.len > 0);
    Shares::Listed(
        moving.map(|term| Share { chunk: term.chunk, content: Content::Values(term.values) }).collect(),
    )
}

/// One call that adds up what ranks contribute.
fn library(collective: Collective, ranks: u32, inputs: Shares, outputs: Shares) -> Phase {
    let (channel, stage) = (Channel::Main, Stage::Raw);
    let group = Group::all(ranks);
    Phase::Library(Library { collective, group, channel, stage, part: 0, inputs, outputs })
}
