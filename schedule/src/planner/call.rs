//! A collective call as one rank sees it: the pieces that it has or gets, and the steps in which a stage moves them.
//!
//! Collectives and their algorithms differ in this alone; protocols say which stages there are and what of each piece moves
//! in them.

use zipwire_cluster::Group;
use zipwire_codec::{CHUNK_ALIGN, DType};

use super::Selection;
use super::dedup::Forward;
use crate::builder::ProgramBuilder;
use crate::plan::{Chunk, Content, Exchange, Library, OpKind, Reduce, Region, Share, Shares, Transfer};
use crate::rank_order::RankOrder;
use crate::{BufferId, Channel, Collective, Order, Rank, Stage, Window};

/// Phase of a collective; they follow one another.
pub(super) enum Phase {
    /// A call, and what gateways do with each of its parts; nothing if it has no gateways.
    Call(Call, Vec<Forward>),
    Reduce(Reduce),
    Library(Library),
}

pub(super) struct Call {
    pub(super) dtype: DType,
    pub(super) channel: Channel,
    /// Pieces that the rank has for others and that it gets; pieces of which nothing moves are left out, at all ranks.
    pub(super) pieces: Vec<Piece>,
    /// How a stage of values or frames moves: one exchange after the other.
    pub(super) steps: Vec<Step>,
    /// The collective and the number of ranks, if a library moves each stage in one call. Then there are no steps.
    pub(super) library: Option<(Collective, u32)>,
    /// How sizes move: straight from those who encode to those who decode.
    pub(super) sizes: Step,
    /// Whether each stage moves every piece at the length of the longest of these blocks, in bytes.
    pub(super) padded_to: Option<Vec<u64>>,
    /// Parts begin at multiples of this, in bytes.
    pub(super) part_align: u64,
    /// Whether its steps go on in the kernel of the call before.
    pub(super) goes_on: bool,
    /// See [`Exchange::grouped`].
    pub(super) grouped: Option<Group>,
    /// Seconds after the start of the iteration before which it is neither encoded nor, as far as it is not coded, moved.
    pub(super) not_before_s: f64,
}

/// Values that a rank has or gets. Empty ones travel only as padding.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) chunk: Chunk,
    pub(super) values: Region,
    pub(super) is_coded: bool,
}

impl Piece {
    pub(super) fn new(chunk: Chunk, values: Region) -> Self {
        Self { chunk, values, is_coded: true }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Buffers {
    pub(super) input: BufferId,
    pub(super) output: BufferId,
}

#[derive(Clone)]
pub(super) struct Step {
    pub(super) order: Order,
    pub(super) window: Window,
    pub(super) sends: Vec<Hop>,
    pub(super) receives: Vec<Hop>,
    /// See [`Exchange::fused`].
    pub(super) fused: bool,
}

/// A piece on its way to or from a peer.
#[derive(Clone, Copy)]
pub(super) struct Hop {
    pub(super) peer: Rank,
    pub(super) piece: usize,
}

impl Step {
    /// At most one transfer each way.
    pub(super) fn single(send: Option<Hop>, receive: Option<Hop>) -> Self {
        let (sends, receives) = (Vec::from_iter(send), Vec::from_iter(receive));
        Self { order: Order::Rotation, window: Window::both(1), sends, receives, fused: false }
    }
}

impl Call {
    /// Everything in one exchange of each stage, on the main channel.
    pub(super) fn at_once(dtype: DType, pieces: Vec<Piece>, step: Step) -> Self {
        Self {
            dtype,
            channel: Channel::Main,
            pieces,
            steps: vec![step.clone()],
            library: None,
            sizes: step,
            padded_to: None,
            part_align: PART_ALIGN,
            goes_on: false,
            grouped: None,
            not_before_s: 0.0,
        }
    }

    /// Moves one stage; `contents` says what of each piece moves, `None` that nothing does.
    pub(super) fn spread(&self, builder: &mut ProgramBuilder, stage: Stage, contents: &[Option<Content>]) {
        self.spread_on(builder, self.channel, stage, contents);
    }

    /// The same on another channel than that of the call.
    pub(super) fn spread_on(
        &self,
        builder: &mut ProgramBuilder,
        channel: Channel,
        stage: Stage,
        contents: &[Option<Content>],
    ) {
        if let Some(library) = self.library {
            builder.push(OpKind::Library(self.gather(builder, library, channel, stage, contents)));
        }
        // The first step in which the rank takes part launches the kernel.
        let mut is_running = self.goes_on;
        for step in &self.steps {
            let moves = |hop: &Hop| contents[hop.piece].is_some();
            let step = Step { fused: step.fused && is_running, ..step.clone() };
            self.exchange(builder, channel, stage, &step, contents);
            is_running |= step.sends.iter().chain(&step.receives).any(moves);
        }
    }

    /// One call that brings every rank what others have.
    fn gather(
        &self,
        builder: &ProgramBuilder,
        (collective, ranks): (Collective, u32),
        channel: Channel,
        stage: Stage,
        contents: &[Option<Content>],
    ) -> Library {
        let share = |(piece, content): (&Piece, &Option<Content>)| {
            Some(Share { chunk: piece.chunk, content: (*content)? })
        };
        let shares = self.pieces.iter().zip(contents).filter_map(share);
        let (inputs, outputs): (Vec<Share>, _) =
            shares.partition(|share| share.chunk.origin == builder.rank());
        let (inputs, outputs) = (Shares::Listed(inputs), Shares::Listed(outputs));
        let (group, part) = (Group::all(ranks), builder.part());
        Library { collective, group, channel, stage, part, inputs, outputs }
    }

    pub(super) fn announce(
        &self,
        builder: &mut ProgramBuilder,
        channel: Channel,
        contents: &[Option<Content>],
    ) {
        self.exchange(builder, channel, Stage::Sizes, &self.sizes, contents);
    }

    fn exchange(
        &self,
        builder: &mut ProgramBuilder,
        channel: Channel,
        stage: Stage,
        step: &Step,
        contents: &[Option<Content>],
    ) {
        let transfers = |hops: &[Hop]| {
            let transfer = |hop: &Hop| {
                let content = contents[hop.piece]?;
                let transfer = Transfer::new(hop.peer, self.pieces[hop.piece].chunk, content);
                // Frames are there when they have been encoded, so later than that.
                let not_before_s = content.values().map_or(0.0, |_| self.not_before_s);
                Some(Transfer { not_before_s, ..transfer })
            };
            hops.iter().filter_map(transfer).collect()
        };
        let joins_previous = builder.joins_previous(channel);
        builder.push(OpKind::Exchange(Exchange {
            channel,
            joins_previous,
            fused: step.fused,
            grouped: self.grouped,
            stage,
            order: step.order,
            window: step.window,
            sends: transfers(&step.sends),
            receives: transfers(&step.receives),
        }));
    }

    /// Marks the pieces that are not to be coded: those that are not selected, and all if the codec does not know their type.
    pub(super) fn select(&mut self, rank: Rank, selection: &Selection, is_supported: bool) {
        let mut peers = vec![None; self.pieces.len()];
        for hop in self.steps.iter().flat_map(|step| step.sends.iter().chain(&step.receives)) {
            peers[hop.piece] = Some(hop.peer);
        }
        for (piece, peer) in self.pieces.iter_mut().zip(peers) {
            // Padding makes all pieces equal: either all are coded or none.
            let len = match &self.padded_to {
                Some(lens) => lens.iter().copied().max().unwrap_or(0),
                None => piece.values.len,
            };
            let peer = peer.filter(|_| piece.chunk.destination.is_some());
            piece.is_coded = is_supported && selection.includes(rank, peer, len);
        }
    }

    /// The call as `count` calls, each of which moves one part of every piece. Short pieces have fewer parts.
    pub(super) fn cut(&self, count: u32) -> Vec<Self> {
        (0..count.max(1)).map(|part| self.part(part, count.max(1))).collect()
    }

    fn part(&self, part: u32, count: u32) -> Self {
        let cut = |piece: &Piece| {
            let (begin, end) = range(piece.values.len, part, count, self.part_align);
            let Region { buffer, offset, .. } = piece.values;
            let values = Region { buffer, offset: offset + begin, len: end - begin };
            // A piece may be a part already: that of a channel.
            let Chunk { part: of_piece, offset: before, .. } = piece.chunk;
            let chunk = Chunk { part: of_piece * count + part, offset: before + begin, ..piece.chunk };
            Piece { chunk, values, ..*piece }
        };
        let padded_to = self.padded_to.as_ref().map(|lens| {
            let len = |&len: &u64| {
                let (begin, end) = range(len, part, count, self.part_align);
                end - begin
            };
            lens.iter().map(len).collect()
        });
        Self {
            dtype: self.dtype,
            channel: self.channel,
            pieces: self.pieces.iter().map(cut).collect(),
            steps: self.steps.clone(),
            library: self.library,
            sizes: self.sizes.clone(),
            padded_to,
            part_align: self.part_align,
            goes_on: self.goes_on,
            grouped: self.grouped,
            not_before_s: self.not_before_s,
        }
    }
}

/// Regions of a rank's blocks in a buffer, by peer, and the bytes that they take. The rank's own block is
/// empty: it aliases the input of the segment and is never moved.
pub(super) fn place(
    rank: Rank,
    rank_count: u32,
    buffer: BufferId,
    len: impl Fn(Rank) -> u64,
) -> (Vec<Region>, u64) {
    let mut end = 0;
    let regions = (0..rank_count)
        .map(Rank)
        .map(|peer| {
            let len = if peer == rank { 0 } else { len(peer) };
            let region = Region { buffer, offset: align(end), len };
            end = region.end();
            region
        })
        .collect();
    (regions, end)
}

/// The next offset at which a block or a section may begin.
pub(super) fn align(offset: u64) -> u64 {
    offset.next_multiple_of(CHUNK_ALIGN as u64)
}

/// Parts begin at multiples of this, in bytes: a tile of values of two bytes.
/// Calls are cut into parts so that one can be coded while another travels.
pub(crate) const PART_ALIGN: u64 = 16 * 1024;

/// How many parts a piece of `len` bytes has if `count` are asked for; short pieces have fewer.
pub fn part_count(len: u64, count: u32) -> u64 {
    len.div_ceil(step(len, count, PART_ALIGN).max(1))
}

/// Bytes of all parts but the last.
fn step(len: u64, count: u32, part_align: u64) -> u64 {
    len.div_ceil(u64::from(count)).next_multiple_of(part_align)
}

/// First byte of a part and the first one behind it, in a piece of `len` bytes.
pub(crate) fn range(len: u64, part: u32, count: u32, part_align: u64) -> (u64, u64) {
    let step = step(len, count, part_align);
    let begin = (step * u64::from(part)).min(len);
    (begin, (begin + step).min(len))
}

/// The rings of a call: as many as it has channels, each in an order of its own, so that each uses other NICs of a node.
pub(super) struct Rings {
    orders: Vec<RankOrder>,
    rank_count: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Around {
    pub(super) order: RankOrder,
    rank_count: u32,
    pub(super) position: u32,
    pub(super) next: Rank,
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

    pub(super) fn around(&self, rank: Rank, channel: u32) -> Around {
        let (order, rank_count) = (self.orders[channel as usize], self.rank_count);
        let position = order.position(rank, rank_count);
        let at = |position: u32| order.rank(position % rank_count, rank_count);
        let (next, previous) = (at(position + 1), at(position + rank_count - 1));
        Around { order, rank_count, position, next, previous }
    }
}

impl Around {
    pub(super) fn position_back(&self, steps: u32) -> u32 {
        (self.position + self.rank_count - steps) % self.rank_count
    }

    pub(super) fn back(&self, steps: u32) -> Rank {
        self.order.rank(self.position_back(steps), self.rank_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_piece_without_overlap() {
        for len in [0, 2, 16_384, 16_386, 100_000, 1 << 20] {
            for count in 1..9 {
                let mut end = 0;
                for part in 0..count {
                    let (begin, after) = range(len, part, count, PART_ALIGN);
                    assert_eq!(begin, end, "{len} bytes, part {part} of {count}");
                    assert!(begin == len || begin % PART_ALIGN == 0);
                    end = after;
                }
                assert_eq!(end, len);
                let moving = (0..count).filter(|&part| {
                    let (begin, after) = range(len, part, count, PART_ALIGN);
                    begin < after
                });
                assert_eq!(moving.count() as u64, part_count(len, count), "{len} bytes in {count} parts");
            }
        }
    }
}
