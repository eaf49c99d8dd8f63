//! All-to-All: every pair of ranks in one exchange.

use ndarray::Array2;
use zipwire_codec::DType;

use super::Choice;
use super::call::{Call, Ends, Hop, Piece, Step, place};
use crate::builder::ProgramBuilder;
use crate::plan::{Chunk, Region};
use crate::{Channel, Rank};

pub(super) fn call(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    dtype: DType,
    bytes: &Array2<u64>,
    Ends { input, output }: Ends,
) -> Call {
    let (rank, order) = (builder.rank(), choice.order);
    let rank_count = u32::try_from(bytes.nrows()).expect("ranks are counted in 32 bits");
    let sent = |peer: Rank| bytes[[rank.index(), peer.index()]];
    let received = |peer: Rank| bytes[[peer.index(), rank.index()]];
    let (outgoing, end) = place(rank, rank_count, input, sent);
    builder.reserve(input, end);
    let (incoming, end) = place(rank, rank_count, output, received);
    builder.reserve(output, end);

    let mut pieces = Vec::new();
    let mut hop = |peer: Rank, chunk, values: &[Region]| {
        let values = values[peer.index()];
        (values.len > 0).then(|| {
            pieces.push(Piece::new(chunk, values));
            Hop { peer, piece: pieces.len() - 1 }
        })
    };
    let sends = order.sends(rank, rank_count, sent).into_iter();
    let sends = sends.filter_map(|peer| hop(peer, Chunk::between(rank, peer), &outgoing)).collect();
    let receives = order.receives(rank, rank_count, received).into_iter();
    let receives = receives.filter_map(|peer| hop(peer, Chunk::between(peer, rank), &incoming)).collect();
    let step = Step { order, window: order.window(choice.window, rank_count), sends, receives };
    let channel = Channel::Main;
    Call { dtype, channel, pieces, steps: vec![step.clone()], sizes: step, padded_to: None }
}
