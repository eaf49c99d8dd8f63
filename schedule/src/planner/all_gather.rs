//! All-Gather: the shard of every rank to all others (ZipCCL sec. 3.1). A shard is encoded once, where it comes from,
//! travels on as it is, and is decoded once wherever it arrives.

use zipwire_codec::DType;

use super::Choice;
use super::call::{Call, Ends, Hop, Piece, Step, place};
use super::parts::PART_ALIGN;
use crate::builder::ProgramBuilder;
use crate::plan::{Chunk, Region};
use crate::{Channel, Form, Order, Rank, Window};

/// # Panics
/// If the form is none of an All-Gather, or pads what is not coded.
pub(super) fn call(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    dtype: DType,
    bytes: &[u64],
    Ends { input, output }: Ends,
) -> Call {
    let form = choice.form.unwrap_or(Form::OF_ALL_GATHER[0]);
    assert!(Form::OF_ALL_GATHER.contains(&form), "an All-Gather does not travel as `{}`", form.name());
    let rank = builder.rank();
    let rank_count = u32::try_from(bytes.len()).expect("ranks are counted in 32 bits");
    let shard = |origin: Rank| bytes[origin.index()];
    builder.reserve(input, shard(rank));
    let (mut values, end) = place(rank, rank_count, output, shard);
    builder.reserve(output, end);
    values[rank.index()] = Region { buffer: input, offset: 0, len: shard(rank) };
    among(rank, choice, form, dtype, bytes, &values)
}

/// The call whose shards of `bytes` bytes lie at `values`, by origin. Its form may be [`Form::Hierarchical`], too: first between
/// nodes, among the ranks of equal place in them, then within each node.
///
/// # Panics
/// If the form pads what is not coded.
pub(super) fn among(
    rank: Rank,
    choice: &Choice,
    form: Form,
    dtype: DType,
    bytes: &[u64],
    values: &[Region],
) -> Call {
    let rank_count = u32::try_from(bytes.len()).expect("ranks are counted in 32 bits");
    // A library takes equal counts. Frames have the room to be padded to the longest; the padding of values is only counted.
    let is_library = form == Form::Library;
    let padded = form == Form::Padded || is_library && choice.protocol.is_coded();
    assert!(form != Form::Padded || choice.protocol.is_coded(), "only frames are padded");

    let shard = |origin: Rank| bytes[origin.index()];
    let order = if form.takes_order() { choice.order } else { Order::Rotation };
    let window = order.window(choice.window.filter(|_| form.takes_order()), rank_count);
    let senders = order.receives(rank, rank_count, shard);
    // Equal counts are equal for all: the ring then carries padding for ranks that have nothing, too.
    let travels = |origin: Rank| shard(origin) > 0 || padded && bytes.iter().any(|&len| len > 0);
    let mut pieces = Vec::new();
    let mut piece_of: Vec<Option<usize>> = vec![None; bytes.len()];
    for origin in [rank].into_iter().chain(senders.iter().copied()).filter(|&origin| travels(origin)) {
        piece_of[origin.index()] = Some(pieces.len());
        pieces.push(Piece::new(Chunk::for_all(origin), values[origin.index()]));
    }

    let hop = |peer, origin: Rank| Some(Hop { peer, piece: piece_of[origin.index()]? });
    let receivers = order.sends(rank, rank_count, |_| shard(rank));
    let straight = Step {
        order,
        window,
        sends: receivers.iter().filter_map(|&peer| hop(peer, rank)).collect(),
        receives: senders.iter().filter_map(|&peer| hop(peer, peer)).collect(),
    };
    let steps = if is_library {
        Vec::new()
    } else if form == Form::Grouped {
        vec![straight.clone()]
    } else if form == Form::Hierarchical {
        let size = choice.ranks_per_node;
        let (node, place, nodes) = (rank.0 / size, rank.0 % size, rank_count / size);
        let at = |node: u32, place: u32| Rank(node % nodes * size + place % size);
        let between = Step {
            order,
            window,
            sends: (1..nodes).filter_map(|step| hop(at(node + step, place), rank)).collect(),
            receives: (1..nodes)
                .map(|step| at(node + nodes - step, place))
                .filter_map(|peer| hop(peer, peer))
                .collect(),
        };
        // Of all that a rank then has, in the same order at both ends.
        let of_place = |place: u32| (0..nodes).map(move |node| at(node, place));
        let within = |place: u32, peer: Rank| of_place(place).filter_map(move |origin| hop(peer, origin));
        let sends = (1..size).flat_map(|step| within(place, at(node, place + step))).collect();
        let receives = (1..size).map(|step| (place + size - step) % size);
        let receives = receives.flat_map(|place| within(place, at(node, place))).collect();
        vec![between, Step { order, window: Window::both(rank_count), sends, receives }]
    } else {
        let back = |ranks: u32| Rank((rank.0 + rank_count - ranks) % rank_count);
        let (next, previous) = (Rank((rank.0 + 1) % rank_count), back(1));
        let step = |step| Step::single(hop(next, back(step - 1)), hop(previous, back(step)));
        (1..rank_count).map(step).collect()
    };
    let channel = Channel::Main;
    let padded_to = padded.then(|| bytes.to_vec());
    let library = is_library.then_some(rank_count);
    Call { dtype, channel, pieces, steps, library, sizes: straight, padded_to, part_align: PART_ALIGN }
}
