//! Transfers of a folded plan that are alike: one stands for several.
//!
//! In an All-to-All of equal parts a rank sends as much to each peer. Where peers are images of one another, and ways to them cross the same links of the
//! network of members, these transfers begin and end together, and so do those that the peers receive. Their frames are alike, too: one block stands for them.
//! Ops and what they wait for stay as they are.

use std::cell::RefCell;
use std::collections::HashMap;

use zipwire_cluster::{FoldedLinks, LinkId, Symmetry, Topology};

use crate::Rank;
use crate::plan::{Block, Chunk, Content, Exchange, Local, Maximum, Op, OpKind, Transfer};
use crate::symmetry::content;

/// Network of the ranks that stand for others.
pub(crate) struct Ways<'a> {
    topology: &'a Topology,
    links: FoldedLinks,
    symmetry: Symmetry,
    classes: RefCell<HashMap<Way, Class>>,
    known: RefCell<(Rank, [Known; 2])>,
}

/// Members that stand for a pair's ends, the links between them, and the bits of the latency.
type Way = (Rank, Rank, Vec<LinkId>, u64);

/// Number of a class of pairs of ranks: of equal ones the same ranks stand for the ends, and the ways cross the same links with the same latency.
type Class = u32;

/// Pairs of one rank and each other one, by the other one: the pair that stands for it, and its class.
type Known = Vec<Option<(Class, (Rank, Rank))>>;

impl<'a> Ways<'a> {
    pub(crate) fn new(topology: &'a Topology, symmetry: Symmetry) -> Self {
        let links = topology.folded(&symmetry);
        Self { topology, links, symmetry, classes: RefCell::default(), known: RefCell::default() }
    }

    /// Class of the pairs that a rank makes with another one, to which it sends or from which it receives: fast while the rank is the same.
    fn class(&self, (src, dst): (Rank, Rank), other: Rank) -> (Class, (Rank, Rank)) {
        let (own, known) = &mut *self.known.borrow_mut();
        let rank = if other == dst { src } else { dst };
        if *own != rank {
            *own = rank;
            known.iter_mut().for_each(Vec::clear);
        }
        let known = &mut known[usize::from(other == dst)];
        if known.len() <= other.index() {
            known.resize(other.index() + 1, None);
        }
        *known[other.index()].get_or_insert_with(|| {
            let pair = self.symmetry.pair(src, dst);
            let route = self.topology.route(pair.0, pair.1);
            let links: Vec<LinkId> = route.links().iter().map(|&link| self.links.place(link)).collect();
            let way = (pair.0, self.symmetry.member(pair.1), links, route.latency_s.to_bits());
            let mut classes = self.classes.borrow_mut();
            let next = classes.len() as Class;
            (*classes.entry(way).or_insert(next), pair)
        })
    }

    /// Lets one transfer or block of a segment of a rank's program stand for those that are like it, if all that the segment moves goes straight from its
    /// origin and is open at once. A maximum is one of all sizes of the segment, so where it has some, nothing is merged.
    pub(crate) fn merge(&self, rank: Rank, ops: &mut [Op], maxima: &[Maximum]) {
        let exchanges = || {
            ops.iter().filter_map(|op| {
                if let OpKind::Exchange(exchange) = &op.kind { Some(exchange) } else { None }
            })
        };
        if !maxima.is_empty() || !exchanges().all(|exchange| is_straight(rank, exchange)) {
            return;
        }
        // A size says nothing of what it is the size of.
        let is_size = |end: &Transfer| matches!(end.content, Content::Size(_));
        let has_sizes =
            exchanges().any(|exchange| exchange.sends.iter().chain(&exchange.receives).any(is_size));
        let blocks = || ops.iter().flat_map(|op| op.kind.batch().into_iter().flat_map(|batch| &batch.blocks));
        let lens: HashMap<Chunk, Lens> = if has_sizes {
            blocks().map(|block| (block.chunk, lens_of(block))).collect()
        } else {
            HashMap::new()
        };
        let lens = |chunk| lens.get(&chunk).copied();
        for op in ops {
            match &mut op.kind {
                OpKind::Exchange(exchange) => {
                    self.merge_transfers(&mut exchange.sends, lens, |peer| (rank, peer));
                    self.merge_transfers(&mut exchange.receives, lens, |peer| (peer, rank));
                }
                OpKind::Local(Local::Split(batch) | Local::Encode(batch)) => {
                    self.merge_blocks(&mut batch.blocks, |block| {
                        let destination = block.chunk.destination?;
                        Some(((rank, destination), destination))
                    });
                }
                OpKind::Local(Local::Decode(batch)) => {
                    self.merge_blocks(&mut batch.blocks, |block| {
                        let origin = block.chunk.origin;
                        Some(((origin, rank), origin))
                    });
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
            let moved = (content(transfer.content), lens(transfer.chunk));
            // Their numbers may differ: both ends keep the pair that stands for all, and with it its number.
            let rest = (moved, transfer.chunk.part, transfer.not_before_s.to_bits());
            let (class, pair) = self.class(ends(transfer.peer), transfer.peer);
            ((class, rest), pair)
        };
        merge(transfers, class, |transfer| &mut transfer.times);
    }

    /// `ends` of a block are the ranks of whose values it is and to which it goes, and the one of them whose program this is not.
    fn merge_blocks(&self, blocks: &mut Vec<Block>, ends: impl Fn(&Block) -> Option<((Rank, Rank), Rank)>) {
        if blocks.iter().any(|block| ends(block).is_none()) {
            // Each of them is for all.
            return;
        }
        let class = |block: &Block| {
            let rest = (lens_of(block), block.chunk.part);
            let (ends, other) = ends(block).unwrap_or_default();
            let (class, pair) = self.class(ends, other);
            ((class, rest), pair)
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

/// Keeps the first of each class by its pair of ranks, which is the same at both ends, and counts the others.
fn merge<T, C: PartialEq>(
    all: &mut Vec<T>,
    class: impl Fn(&T) -> (C, (Rank, Rank)),
    times: impl Fn(&mut T) -> &mut u32,
) {
    // There are few classes.
    let mut kept: Vec<(C, (Rank, Rank))> = Vec::new();
    let mut merged: Vec<T> = Vec::new();
    for mut item in all.drain(..) {
        let (class, pair) = class(&item);
        let Some(index) = kept.iter().position(|(known, _)| *known == class) else {
            kept.push((class, pair));
            merged.push(item);
            continue;
        };
        let count = *times(&mut merged[index]) + *times(&mut item);
        if pair < kept[index].1 {
            kept[index].1 = pair;
            merged[index] = item;
        }
        *times(&mut merged[index]) = count;
    }
    merged.shrink_to_fit();
    *all = merged;
}
