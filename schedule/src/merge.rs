//! Transfers of a folded plan that are alike: one stands for several.
//!
//! In an All-to-All of equal parts a rank sends as much to each peer. Where peers are images of one another, and ways to them cross the same links of the
//! network of members, these transfers begin and end together, and so do those that the peers receive. Their frames are alike, too: one block stands for them.
//! Ops and what they wait for stay as they are.

use std::collections::HashMap;

use zipwire_cluster::{FoldedLinks, LinkId, Symmetry, Topology};

use crate::plan::{Block, Chunk, Content, Exchange, Local, OpKind, Program, Transfer};
use crate::{Rank, SegmentId};

/// Network of the ranks that stand for others.
pub(crate) struct Ways<'a> {
    topology: &'a Topology,
    links: FoldedLinks,
    symmetry: Symmetry,
}

/// Properties in which transfers that one stands for are equal: who stands for the other end, the links, and more that depends on what is merged.
#[derive(PartialEq, Eq, Hash)]
struct Class<T> {
    ends: [Rank; 2],
    links: Vec<LinkId>,
    latency: u64,
    rest: T,
}

impl<'a> Ways<'a> {
    pub(crate) fn new(topology: &'a Topology, symmetry: Symmetry) -> Self {
        Self { topology, links: topology.folded(&symmetry), symmetry }
    }

    fn class<T>(&self, src: Rank, dst: Rank, rest: T) -> Class<T> {
        let (src, to) = self.symmetry.pair(src, dst);
        let route = self.topology.route(src, to);
        let links = route.links().iter().map(|&link| self.links.place(link)).collect();
        Class { ends: [src, self.symmetry.member(to)], links, latency: route.latency_s.to_bits(), rest }
    }

    /// Lets one transfer or block of a program stand for those that are like it, where all that a segment moves goes straight from its origin and is open at once.
    pub(crate) fn merge(&self, program: &mut Program) {
        let rank = program.rank;
        let mut merges: HashMap<SegmentId, bool> = HashMap::new();
        for op in &program.ops {
            if let OpKind::Exchange(exchange) = &op.kind {
                *merges.entry(op.segment).or_insert(true) &= is_straight(rank, exchange);
            }
        }
        // A maximum is one of all sizes.
        if !program.maxima.is_empty() {
            return;
        }
        // A size says nothing of what it is the size of.
        let mut lens: HashMap<(SegmentId, Chunk), Lens> = HashMap::new();
        for op in &program.ops {
            let blocks = op.kind.batch().into_iter().flat_map(|batch| &batch.blocks);
            lens.extend(blocks.map(|block| ((op.segment, block.chunk), lens_of(block))));
        }
        for op in program.ops.iter_mut().filter(|op| merges.get(&op.segment) == Some(&true)) {
            match &mut op.kind {
                OpKind::Exchange(exchange) => {
                    let lens = |chunk| lens.get(&(op.segment, chunk)).copied();
                    self.merge_transfers(&mut exchange.sends, lens, |peer| (rank, peer));
                    self.merge_transfers(&mut exchange.receives, lens, |peer| (peer, rank));
                }
                OpKind::Local(Local::Split(batch) | Local::Encode(batch)) => {
                    self.merge_blocks(&mut batch.blocks, |block| Some((rank, block.chunk.destination?)));
                }
                OpKind::Local(Local::Decode(batch)) => {
                    self.merge_blocks(&mut batch.blocks, |block| Some((block.chunk.origin, rank)));
                }
                OpKind::Local(_) | OpKind::Compute(_) | OpKind::Library(_) => {}
            }
        }
    }

    fn merge_transfers(
        &self,
        transfers: &mut Vec<Transfer>,
        lens: impl Fn(Chunk) -> Option<Lens>,
        ends: impl Fn(Rank) -> (Rank, Rank),
    ) {
        let class = |transfer: &Transfer| {
            let (src, dst) = ends(transfer.peer);
            let content = (kind_and_lens(&transfer.content), lens(transfer.chunk));
            let rest = (content, transfer.number, transfer.chunk.part, transfer.not_before_s.to_bits());
            (self.class(src, dst, rest), self.symmetry.pair(src, dst))
        };
        merge(transfers, class, |transfer| &mut transfer.times);
    }

    fn merge_blocks(&self, blocks: &mut Vec<Block>, ends: impl Fn(&Block) -> Option<(Rank, Rank)>) {
        if blocks.iter().any(|block| ends(block).is_none()) {
            // Each of them is for all.
            return;
        }
        let class = |block: &Block| {
            let (src, dst) = ends(block).unwrap_or_default();
            let rest = (lens_of(block), block.chunk.part);
            (self.class(src, dst, rest), self.symmetry.pair(src, dst))
        };
        merge(blocks, class, |block| &mut block.times);
    }
}

/// Bytes of a block: of its values, its signs and mantissas, and its static and dynamic section.
type Lens = [u64; 4];

fn lens_of(block: &Block) -> Lens {
    let all = [block.values, block.sign_mantissa, block.static_section, block.dynamic_section];
    all.map(|region| region.len)
}

/// Whether all that an exchange moves goes straight from its origin, and all is open at once.
fn is_straight(rank: Rank, exchange: &Exchange) -> bool {
    let Exchange { sends, receives, window, joins_previous, order, .. } = exchange;
    let has_room = window.sends as usize >= sends.len() && window.receives as usize >= receives.len();
    has_room
        && !joins_previous
        && !order.reorders()
        && sends.iter().all(|send| is_between(&send.chunk, rank, send.peer))
        && receives.iter().all(|receive| is_between(&receive.chunk, receive.peer, rank))
}

/// Whether a chunk is of one rank and for another, or for all.
fn is_between(chunk: &Chunk, src: Rank, dst: Rank) -> bool {
    chunk.origin == src && chunk.destination.is_none_or(|destination| destination == dst)
}

/// Kind of a content, its bytes, and those of the slot in front of it.
fn kind_and_lens(content: &Content) -> (u8, u64, u64) {
    let len = content.region().map_or(0, |region| region.len);
    match *content {
        Content::Values(_) => (0, len, 0),
        Content::Whole(_) => (1, len, 0),
        Content::Prefix(..) => (2, len, 0),
        Content::Size(_) => (3, 0, 0),
        Content::Announced(..) => (4, len, 0),
        Content::Overflow { slot, .. } => (5, len, slot),
    }
}

/// Keeps the first of each class by its pair of ranks, which is the same at both ends, and counts the others.
fn merge<T, C: Eq + std::hash::Hash>(
    all: &mut Vec<T>,
    class: impl Fn(&T) -> (C, (Rank, Rank)),
    times: impl Fn(&mut T) -> &mut u32,
) {
    let mut kept: HashMap<C, (usize, (Rank, Rank))> = HashMap::new();
    let mut merged: Vec<T> = Vec::new();
    for mut item in all.drain(..) {
        let (class, pair) = class(&item);
        match kept.get_mut(&class) {
            None => {
                kept.insert(class, (merged.len(), pair));
                merged.push(item);
            }
            Some((index, first)) => {
                let count = *times(&mut merged[*index]) + *times(&mut item);
                if pair < *first {
                    merged[*index] = item;
                    *first = pair;
                }
                *times(&mut merged[*index]) = count;
            }
        }
    }
    merged.shrink_to_fit();
    *all = merged;
}
