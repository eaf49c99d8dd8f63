//! All-Gather: the shard of every rank to all others (ZipCCL sec. 3.1). A shard is encoded once, where it comes from,
//! travels on as it is, and is decoded once wherever it arrives.

use zipwire_codec::DType;

use super::Choice;
use super::call::{Call, Ends, Hop, Piece, Step, place};
use super::parts::PART_ALIGN;
use crate::builder::ProgramBuilder;
use crate::plan::{Chunk, Region};
use crate::{Channel, Form, Order, Rank};

/// # Panics
/// If the form is none of an All-Gather, or pads what is not coded.
pub(super) fn call(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    dtype: DType,
    bytes: &[u64],
    Ends { input, output }: Ends,
) -> Call {
    let rank = builder.rank();
    let rank_count = u32::try_from(bytes.len()).expect("ranks are counted in 32 bits");
    let form = choice.form.unwrap_or(Form::OF_ALL_GATHER[0]);
    assert!(Form::OF_ALL_GATHER.contains(&form), "an All-Gather does not travel as `{}`", form.name());
    let padded = form == Form::Padded;
    assert!(!padded || choice.protocol.is_coded(), "only frames are padded");

    let shard = |origin: Rank| bytes[origin.index()];
    let own = Region { buffer: input, offset: 0, len: shard(rank) };
    builder.reserve(input, own.len);
    let (others, end) = place(rank, rank_count, output, shard);
    builder.reserve(output, end);

    let order = if form.takes_order() { choice.order } else { Order::Rotation };
    let window = order.window(choice.window.filter(|_| form.takes_order()), rank_count);
    let senders = order.receives(rank, rank_count, shard);
    // Equal counts are equal for all: the ring then carries padding for ranks that have nothing, too.
    let travels = |origin: Rank| shard(origin) > 0 || padded && bytes.iter().any(|&len| len > 0);
    let mut pieces = Vec::new();
    let mut piece_of: Vec<Option<usize>> = vec![None; bytes.len()];
    for origin in [rank].into_iter().chain(senders.iter().copied()).filter(|&origin| travels(origin)) {
        let values = if origin == rank { own } else { others[origin.index()] };
        piece_of[origin.index()] = Some(pieces.len());
        pieces.push(Piece::new(Chunk::for_all(origin), values));
    }

    let hop = |peer, origin: Rank| Some(Hop { peer, piece: piece_of[origin.index()]? });
    let receivers = order.sends(rank, rank_count, |_| shard(rank));
    let straight = Step {
        order,
        window,
        sends: receivers.iter().filter_map(|&peer| hop(peer, rank)).collect(),
        receives: senders.iter().filter_map(|&peer| hop(peer, peer)).collect(),
    };
    let steps = if form == Form::Grouped {
        vec![straight.clone()]
    } else {
        let back = |ranks: u32| Rank((rank.0 + rank_count - ranks) % rank_count);
        let (next, previous) = (Rank((rank.0 + 1) % rank_count), back(1));
        let step = |step| Step::single(hop(next, back(step - 1)), hop(previous, back(step)));
        (1..rank_count).map(step).collect()
    };
    let channel = Channel::Main;
    let padded_to = padded.then(|| bytes.to_vec());
    Call { dtype, channel, pieces, steps, sizes: straight, padded_to, part_align: PART_ALIGN }
}
