//! All-Gather: the shard of every rank to all others (ZipCCL sec. 3.1). A shard is encoded once, where it comes from,
//! travels on as it is, and is decoded once wherever it arrives.

use std::sync::Arc;

use zipwire_cluster::Group;
use zipwire_codec::DType;

use super::Choice;
use super::call::{Buffers, Call, Hop, PART_ALIGN, Phase, Piece, Rings, Step, range};
use crate::builder::ProgramBuilder;
use crate::plan::{Chunk, Content, Lens, Library, Region, Row, Share, Shares};
use crate::{Algorithm, Channel, Collective, Order, Rank, Stage, Window};

/// # Panics
/// If the algorithm is none of an All-Gather, or pads what is not coded.
pub(super) fn phase(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    dtype: DType,
    lens: &Arc<Lens>,
    Buffers { input, output }: Buffers,
) -> Phase {
    let algorithm = choice.algorithm_of("an All-Gather", Algorithm::OF_ALL_GATHER);
    let (rank, bytes) = (builder.rank(), lens.bytes());
    let rank_count = u32::try_from(bytes.len()).expect("ranks are counted in 32 bits");
    let own = Region { buffer: input, offset: 0, len: bytes[rank.index()] };
    let others = Row {
        chunk: Chunk::for_all(Rank(0)),
        buffer: output,
        lens: Arc::clone(lens),
        without: Some(rank),
        group: Group::all(rank_count),
    };
    builder.reserve(input, own.len);
    builder.reserve(output, others.region().end());
    if algorithm == Algorithm::Library && !choice.protocol.is_coded() {
        let given =
            (own.len > 0).then_some(Share { chunk: Chunk::for_all(rank), content: Content::Values(own) });
        return Phase::Library(Library {
            collective: Collective::AllGather,
            group: Group::all(rank_count),
            channel: Channel::Main,
            stage: Stage::Raw,
            part: 0,
            inputs: Shares::Listed(given.into_iter().collect()),
            outputs: Shares::Row(others),
        });
    }
    let place = |origin: Rank| if origin == rank { own } else { others.place(origin) };
    let values: Vec<Region> = (0..rank_count).map(|origin| place(Rank(origin))).collect();
    let shards = Blocks { dtype, bytes, values: &values, slices: 1 };
    Phase::Call(among(rank, choice, algorithm, &shards), Vec::new())
}

pub(super) struct Blocks<'a> {
    pub(super) dtype: DType,
    /// Bytes of each, by origin.
    pub(super) bytes: &'a [u64],
    /// Where each lies on this rank, by origin.
    pub(super) values: &'a [Region],
    /// In how many slices each channel of a ring has them.
    pub(super) slices: u32,
}

/// The call that gathers shards.
///
/// # Panics
/// If the algorithm pads what is not coded.
pub(super) fn among(rank: Rank, choice: &Choice, algorithm: Algorithm, shards: &Blocks<'_>) -> Call {
    let &Blocks { dtype, bytes, slices, .. } = shards;
    let rank_count = u32::try_from(bytes.len()).expect("ranks are counted in 32 bits");
    // A library takes equal counts. Frames have the room to be padded to the longest; the padding of values is only counted.
    let is_library = algorithm == Algorithm::Library;
    let padded = algorithm == Algorithm::PaddedRing || is_library && choice.protocol.is_coded();
    assert!(algorithm != Algorithm::PaddedRing || choice.protocol.is_coded(), "only frames are padded");
    let is_ring = matches!(algorithm, Algorithm::Ring | Algorithm::PaddedRing);
    let channels = if is_ring { choice.channels } else { 1 };
    let rings = Rings::new(channels, choice.ranks_per_node, rank_count);
    let parts = rings.count() * slices;
    let part_of = |len: u64, part: u32| range(len, part, parts, PART_ALIGN);

    let shard = |origin: Rank| bytes[origin.index()];
    let order = if algorithm.takes_order() { choice.order } else { Order::Rotation };
    let window = order.window(choice.window.filter(|_| algorithm.takes_order()), rank_count * parts);
    let senders = order.receives(rank, rank_count, shard);
    // Equal counts are equal for all: the ring then carries padding for ranks that have nothing, too.
    let travels = |origin: Rank, part: u32| {
        let len = |origin: Rank| {
            let (begin, end) = part_of(shard(origin), part);
            end - begin
        };
        len(origin) > 0 || padded && (0..rank_count).any(|other| len(Rank(other)) > 0)
    };
    let origins = [rank].into_iter().chain(senders.iter().copied());
    let (pieces, piece_of) = cut(shards, parts, origins, travels);

    let hop =
        |peer, origin: Rank, part: u32| Some(Hop { peer, piece: piece_of[origin.index()][part as usize]? });
    let all_parts = |peer, origin: Rank| (0..parts).filter_map(move |part| hop(peer, origin, part));
    let receivers = order.sends(rank, rank_count, |_| shard(rank));
    let straight = Step {
        order,
        window,
        sends: receivers.iter().flat_map(|&peer| all_parts(peer, rank)).collect(),
        receives: senders.iter().flat_map(|&peer| all_parts(peer, peer)).collect(),
        fused: false,
    };
    let steps = if is_library {
        Vec::new()
    } else if algorithm == Algorithm::Direct {
        vec![straight.clone()]
    } else if algorithm == Algorithm::Hierarchical {
        hierarchical(rank, rank_count, choice.ranks_per_node, |peer, origin| hop(peer, origin, 0))
    } else {
        // A library has equal counts in one kernel; blocks of unequal lengths are calls of their own.
        let is_kernel = padded || !choice.protocol.is_coded();
        around(rank, rank_count, &rings, slices, is_kernel, hop)
    };
    // Room for each part of every rank: of two parts, the sections of the longer frame need not be the longer ones.
    let part_lens = |&len: &u64| {
        (0..parts).map(move |part| {
            let (begin, end) = part_of(len, part);
            end - begin
        })
    };
    let padded_to = padded.then(|| bytes.iter().flat_map(part_lens).collect());
    let library = is_library.then_some((Collective::AllGather, rank_count));
    Call { steps, library, padded_to, ..Call::at_once(dtype, pieces, straight) }
}

/// The parts of all blocks that travel, and the position of each among them, by origin and part.
fn cut(
    shards: &Blocks<'_>,
    parts: u32,
    origins: impl Iterator<Item = Rank>,
    travels: impl Fn(Rank, u32) -> bool,
) -> (Vec<Piece>, Vec<Vec<Option<usize>>>) {
    let mut pieces = Vec::new();
    let mut piece_of = vec![vec![None; parts as usize]; shards.bytes.len()];
    for origin in origins {
        for part in (0..parts).filter(|&part| travels(origin, part)) {
            piece_of[origin.index()][part as usize] = Some(pieces.len());
            let Region { buffer, offset, len } = shards.values[origin.index()];
            let (begin, end) = range(len, part, parts, PART_ALIGN);
            let chunk = Chunk { part, offset: begin, ..Chunk::for_all(origin) };
            pieces.push(Piece::new(chunk, Region { buffer, offset: offset + begin, len: end - begin }));
        }
    }
    (pieces, piece_of)
}

/// Around the rings of all channels: in each step a rank hands on the block that it got in the step before.
fn around(
    rank: Rank,
    rank_count: u32,
    rings: &Rings,
    slices: u32,
    is_kernel: bool,
    hop: impl Fn(Rank, Rank, u32) -> Option<Hop>,
) -> Vec<Step> {
    let parts = rings.count() * slices;
    let step = |step: u32| {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for part in 0..parts {
            let ring = rings.around(rank, part / slices);
            sends.extend(hop(ring.next, ring.back(step - 1), part));
            receives.extend(hop(ring.previous, ring.back(step), part));
        }
        let window = Window::both(parts);
        Step { order: Order::Rotation, window, sends, receives, fused: is_kernel && step > 1 }
    };
    (1..rank_count).map(step).collect()
}

/// First between nodes, among the ranks of equal place in them, then within each node.
fn hierarchical(
    rank: Rank,
    rank_count: u32,
    size: u32,
    hop: impl Fn(Rank, Rank) -> Option<Hop> + Copy,
) -> Vec<Step> {
    let (node, place, nodes) = (rank.0 / size, rank.0 % size, rank_count / size);
    let at = |node: u32, place: u32| Rank(node % nodes * size + place % size);
    let window = Window::both(rank_count);
    let order = Order::Rotation;
    let between = Step {
        order,
        window,
        sends: (1..nodes).filter_map(|step| hop(at(node + step, place), rank)).collect(),
        receives: (1..nodes)
            .map(|step| at(node + nodes - step, place))
            .filter_map(|peer| hop(peer, peer))
            .collect(),
        fused: false,
    };
    // Of all that a rank then has, in the same order at both ends.
    let of_place = |place: u32| (0..nodes).map(move |node| at(node, place));
    let within = |place: u32, peer: Rank| of_place(place).filter_map(move |origin| hop(peer, origin));
    let sends = (1..size).flat_map(|step| within(place, at(node, place + step))).collect();
    let receives = (1..size).map(|step| (place + size - step) % size);
    let receives = receives.flat_map(|place| within(place, at(node, place))).collect();
    vec![between, Step { order, window, sends, receives, fused: false }]
}
