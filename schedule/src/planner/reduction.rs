//! Reduce-Scatter and All-Reduce: what all ranks contribute, added up in FP32 in an order that the form fixes.
//!
//! An All-Reduce is a Reduce-Scatter, whose sums are rounded to the type of the contributions, and an All-Gather of these.

use zipwire_codec::DType;

use super::call::{Call, Ends, Hop, Phase, Piece, Step, align};
use super::parts::PART_ALIGN;
use super::{Choice, all_gather};
use crate::builder::ProgramBuilder;
use crate::plan::{Addition, Chunk, Content, Library, Reduce, Region, Share, Term};
use crate::{BufferId, Channel, Collective, Form, Order, Rank, Stage, Sum, Window};

/// What a reduction is of.
pub(super) struct Operands {
    /// Type of the contributions: BF16 or FP32.
    pub(super) dtype: DType,
    /// Bytes of each shard, as contributions.
    pub(super) shards: Vec<u64>,
    pub(super) ends: Ends,
    /// The buffer for what others contribute.
    pub(super) summands: BufferId,
    pub(super) form: Form,
    /// Ranks of a node.
    pub(super) ranks_per_node: u32,
}

pub(super) fn reduce_scatter(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    operands: &Operands,
) -> Vec<Phase> {
    let Operands { shards, ends, .. } = operands;
    let len = operands.len_in(DType::F32, shards[builder.rank().index()]);
    let output = Region { buffer: ends.output, offset: 0, len };
    builder.reserve(ends.output, len);
    let mut scatter = Scatter::new(builder, operands, DType::F32, output);
    if operands.form == Form::Library {
        assert!(!choice.protocol.is_coded(), "a library adds up no frames");
        return scatter.by_library(builder);
    }
    scatter.phases(builder, choice)
}

pub(super) fn all_reduce(builder: &mut ProgramBuilder, choice: &Choice, operands: &Operands) -> Vec<Phase> {
    let Operands { dtype, shards, ends, form, .. } = operands;
    let sums = place_all(builder, ends.output, shards);
    let output = sums[builder.rank().index()];
    if *form == Form::Library {
        assert!(!choice.protocol.is_coded(), "a library adds up no frames");
        let contributions = Scatter::new(builder, operands, *dtype, output).contributions();
        let sum = |(shard, &values): (u32, &Region)| {
            let shard = Rank(shard);
            Term { chunk: Chunk::for_all(shard).with_sum(operands.total(shard, *dtype)), values }
        };
        let sums: Vec<Term> = (0..).zip(&sums).map(sum).collect();
        return vec![library(Collective::AllReduce, operands.rank_count(), &contributions, &sums)];
    }
    let mut phases = Scatter::new(builder, operands, *dtype, output).phases(builder, choice);
    let way = match form {
        Form::Ring => Form::Exact,
        Form::Hierarchical if operands.has_levels() => Form::Hierarchical,
        _ => Form::Grouped,
    };
    let mut gather = all_gather::among(builder.rank(), choice, way, *dtype, shards, &sums);
    for Piece { chunk, .. } in &mut gather.pieces {
        *chunk = chunk.with_sum(operands.total(chunk.origin, *dtype));
    }
    phases.push(Phase::Call(gather, Vec::new()));
    phases
}

impl Operands {
    fn rank_count(&self) -> u32 {
        u32::try_from(self.shards.len()).expect("ranks are counted in 32 bits")
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

    /// What all ranks contribute to a shard.
    fn total(&self, shard: Rank, dtype: DType) -> Sum {
        let ranks = self.rank_count();
        match self.form {
            Form::Ring => Sum::run(Rank((shard.0 + 1) % ranks), ranks, ranks, dtype),
            Form::AllToAll | Form::Library => Sum::all(ranks, dtype),
            Form::Hierarchical => Sum::all(ranks, dtype).in_groups_of(self.ranks_per_node),
            Form::Exact | Form::Padded | Form::Grouped | Form::Tree => {
                panic!("a reduction does not travel as `{}`", self.form.name())
            }
        }
    }
}

/// A Reduce-Scatter on one rank.
struct Scatter<'a> {
    operands: &'a Operands,
    rank: Rank,
    rank_count: u32,
    /// What the rank contributes, by shard.
    own: Vec<Region>,
    /// Where the sum of its shard goes, and its type.
    output: Region,
    sum_dtype: DType,
    /// The first free byte of the buffer for what others contribute.
    end: u64,
}

impl<'a> Scatter<'a> {
    fn new(builder: &mut ProgramBuilder, operands: &'a Operands, sum_dtype: DType, output: Region) -> Self {
        let own = place_all(builder, operands.ends.input, &operands.shards);
        let (rank, rank_count) = (builder.rank(), operands.rank_count());
        Self { operands, rank, rank_count, own, output, sum_dtype, end: 0 }
    }

    fn phases(&mut self, builder: &mut ProgramBuilder, choice: &Choice) -> Vec<Phase> {
        let phases = match self.operands.form {
            Form::Ring => {
                assert!(!choice.protocol.is_coded(), "partial sums are not coded");
                self.ring()
            }
            Form::Hierarchical if self.operands.has_levels() => self.hierarchical(),
            _ => self.all_to_all(choice),
        };
        builder.reserve(self.operands.summands, self.end);
        phases
    }

    /// Step k, from 1 on, hands the sum of k contributions to shard rank - k to the next rank.
    fn ring(&mut self) -> Vec<Phase> {
        let Self { rank, rank_count, .. } = *self;
        let back = |ranks: u32| Rank((rank.0 + rank_count - ranks) % rank_count);
        let (next, previous) = (back(rank_count - 1), back(1));
        let mut phases = Vec::new();
        let mut sum = self.contribution(previous);
        if self.operands.dtype != DType::F32 {
            // What travels is FP32 from the first step on: values are widened where they come from.
            let widened = self.widened(sum);
            sum = Term { chunk: widened.chunk, values: widened.values };
            phases.extend(reduce(vec![widened]));
        }
        for step in 1..rank_count {
            let shard = back(step + 1);
            let partial = |count| Sum::run(Rank((shard.0 + 1) % rank_count), count, rank_count, DType::F32);
            let len = self.operands.len_in(DType::F32, self.own[shard.index()].len);
            let received = Term {
                chunk: Chunk::between(previous, shard).with_sum(partial(step)),
                values: self.reserve(len),
            };
            phases.push(Phase::Call(self.hand_on((next, sum), (previous, received)), Vec::new()));
            let is_last = step + 1 == rank_count;
            let (dtype, values) =
                if is_last { (self.sum_dtype, self.output) } else { (DType::F32, received.values) };
            let chunk = Chunk::between(rank, shard).with_sum(partial(step + 1).as_dtype(dtype));
            let terms = vec![received, self.contribution(shard)];
            phases.extend(reduce(vec![Addition { terms, chunk, values }]));
            sum = Term { chunk, values };
        }
        phases
    }

    /// A step of a ring.
    fn hand_on(&self, (next, sent): (Rank, Term), (previous, received): (Rank, Term)) -> Call {
        let pieces = [(next, sent), (previous, received)];
        let hop =
            |end: usize| (pieces[end].1.values.len > 0).then_some(Hop { peer: pieces[end].0, piece: end });
        Call {
            // Partial sums are FP32, whatever is contributed.
            dtype: DType::F32,
            channel: Channel::Main,
            pieces: pieces.iter().map(|(_, term)| Piece::new(term.chunk, term.values)).collect(),
            steps: vec![Step::single(hop(0), hop(1))],
            library: None,
            sizes: Step::single(None, None),
            padded_to: None,
            part_align: PART_ALIGN,
        }
    }

    /// All contributions as they are, each to the rank whose shard it is for, which adds them up in rank order.
    fn all_to_all(&mut self, choice: &Choice) -> Vec<Phase> {
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
        let mut pieces = Vec::new();
        let mut hop = |peer: Rank, Term { chunk, values }| {
            (values.len > 0).then(|| {
                pieces.push(Piece::new(chunk, values));
                Hop { peer, piece: pieces.len() - 1 }
            })
        };
        let sends = receivers.iter().filter_map(|&peer| hop(peer, self.contribution(peer))).collect();
        let receives = senders.iter().filter_map(|&peer| hop(peer, terms[peer.index()])).collect();
        let step = Step { order, window: order.window(choice.window, rank_count), sends, receives };
        let call = Call::at_once(self.operands.dtype, pieces, step);
        let chunk = Chunk::between(rank, rank).with_sum(self.operands.total(rank, self.sum_dtype));
        let sum = reduce(vec![Addition { terms, chunk, values: self.output }]);
        [Phase::Call(call, Vec::new())].into_iter().chain(sum).collect()
    }

    /// Within the node what is contributed to all shards of a place goes to the rank of that place; between nodes its sums go to
    /// the ranks of the same place.
    fn hierarchical(&mut self) -> Vec<Phase> {
        let Self { rank, rank_count, .. } = *self;
        let size = self.operands.ranks_per_node;
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
        let mut phases = vec![Phase::Call(straight(self.operands.dtype, &sends, &receives), Vec::new())];

        let of_node = |node| Sum::run(at(node, 0), size, rank_count, DType::F32);
        let additions: Vec<Addition> = shards
            .iter()
            .zip(terms)
            .map(|(&shard, terms)| {
                let len = self.operands.len_in(DType::F32, self.own[shard.index()].len);
                let chunk = Chunk::between(rank, shard).with_sum(of_node(node));
                Addition { terms, chunk, values: self.reserve(len) }
            })
            .collect();
        let sums: Vec<Term> = additions
            .iter()
            .map(|Addition { chunk, values, .. }| Term { chunk: *chunk, values: *values })
            .collect();
        phases.extend(reduce(additions));

        let mut terms = vec![sums[node as usize]; node_count as usize];
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for step in 1..node_count {
            let (next, previous) = ((node + step) % node_count, (node + node_count - step) % node_count);
            sends.push((at(next, place), sums[next as usize]));
            let peer = at(previous, place);
            let len = self.operands.len_in(DType::F32, self.own[rank.index()].len);
            let chunk = Chunk::between(peer, rank).with_sum(of_node(previous));
            let term = Term { chunk, values: self.reserve(len) };
            terms[previous as usize] = term;
            receives.push((peer, term));
        }
        phases.push(Phase::Call(straight(DType::F32, &sends, &receives), Vec::new()));
        let chunk = Chunk::between(rank, rank).with_sum(self.operands.total(rank, self.sum_dtype));
        phases.extend(reduce(vec![Addition { terms, chunk, values: self.output }]));
        phases
    }

    /// One call of a library, which adds up what it is given: FP32, so BF16 is widened before.
    fn by_library(&mut self, builder: &mut ProgramBuilder) -> Vec<Phase> {
        let mut contributions = self.contributions();
        let mut phases = Vec::new();
        if self.operands.dtype != DType::F32 {
            let additions: Vec<Addition> = contributions.iter().map(|&term| self.widened(term)).collect();
            contributions =
                additions.iter().map(|sum| Term { chunk: sum.chunk, values: sum.values }).collect();
            phases.extend(reduce(additions));
            builder.reserve(self.operands.summands, self.end);
        }
        let total = self.operands.total(self.rank, DType::F32);
        let chunk = Chunk::between(self.rank, self.rank).with_sum(total);
        let sum = Term { chunk, values: self.output };
        phases.push(library(Collective::ReduceScatter, self.rank_count, &contributions, &[sum]));
        phases
    }

    /// A contribution as FP32.
    fn widened(&mut self, term: Term) -> Addition {
        let chunk = term.chunk.with_sum(Sum::one(self.rank, self.rank_count, DType::F32));
        let values = self.reserve(self.operands.len_in(DType::F32, term.values.len));
        Addition { terms: vec![term], chunk, values }
    }

    /// What this rank contributes to all shards.
    fn contributions(&self) -> Vec<Term> {
        (0..self.rank_count).map(|shard| self.contribution(Rank(shard))).collect()
    }

    /// What a rank contributes is a sum, too: of one.
    fn one(&self, rank: Rank) -> Sum {
        Sum::one(rank, self.rank_count, self.operands.dtype)
    }

    /// What this rank contributes to a shard.
    fn contribution(&self, shard: Rank) -> Term {
        let chunk = Chunk::between(self.rank, shard).with_sum(self.one(self.rank));
        Term { chunk, values: self.own[shard.index()] }
    }

    /// Room for what comes from others.
    fn reserve(&mut self, len: u64) -> Region {
        let region = Region { buffer: self.operands.summands, offset: align(self.end), len };
        self.end = region.end();
        region
    }
}

/// All of these at once, each straight to its peer, or from it.
fn straight(dtype: DType, sends: &[(Rank, Term)], receives: &[(Rank, Term)]) -> Call {
    let mut pieces = Vec::new();
    let mut hops = |ends: &[(Rank, Term)]| {
        let moving = ends.iter().filter(|(_, term)| term.values.len > 0);
        let hop = moving.map(|&(peer, Term { chunk, values })| {
            pieces.push(Piece::new(chunk, values));
            Hop { peer, piece: pieces.len() - 1 }
        });
        hop.collect::<Vec<_>>()
    };
    let (sends, receives) = (hops(sends), hops(receives));
    let transfers = u32::try_from(sends.len().max(receives.len())).expect("transfers are counted in 32 bits");
    let step = Step { order: Order::Rotation, window: Window::both(transfers.max(1)), sends, receives };
    Call::at_once(dtype, pieces, step)
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

/// The sums of shards that are not empty, if there are any.
fn reduce(mut additions: Vec<Addition>) -> Option<Phase> {
    additions.retain(|addition| addition.values.len > 0);
    (!additions.is_empty()).then_some(Phase::Reduce(Reduce { additions }))
}

/// Regions of all shards in a buffer, that of the rank included.
fn place_all(builder: &mut ProgramBuilder, buffer: BufferId, shards: &[u64]) -> Vec<Region> {
    let mut end = 0;
    let place = |&len: &u64| {
        let region = Region { buffer, offset: align(end), len };
        end = region.end();
        region
    };
    let regions = shards.iter().map(place).collect();
    builder.reserve(buffer, end);
    regions
}
