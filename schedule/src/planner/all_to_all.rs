//! All-to-All: every pair of ranks in one exchange.

use ndarray::ArcArray2;
use zipwire_cluster::Group;
use zipwire_codec::DType;

use super::Choice;
use super::call::{Buffers, Call, Hop, Piece, Step, place};
use crate::Rank;
use crate::builder::ProgramBuilder;
use crate::plan::{Chunk, Region};

#[derive(Clone, Copy)]
pub(super) struct Peer {
    pub(super) chunk: Chunk,
    /// Empty if there is nothing.
    pub(super) values: Region,
}

pub(super) fn call(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    dtype: DType,
    bytes: &ArcArray2<u64>,
    Buffers { input, output }: Buffers,
) -> Call {
    let rank = builder.rank();
    let rank_count = u32::try_from(bytes.nrows()).expect("ranks are counted in 32 bits");
    let (outgoing, end) = place(rank, rank_count, input, |peer| bytes[[rank.index(), peer.index()]]);
    builder.reserve(input, end);
    let (incoming, end) = place(rank, rank_count, output, |peer| bytes[[peer.index(), rank.index()]]);
    builder.reserve(output, end);
    let peers = |regions: &[Region], chunk: &dyn Fn(Rank) -> Chunk| -> Vec<Peer> {
        let peers = (0..rank_count).map(Rank);
        peers.zip(regions).map(|(peer, &values)| Peer { chunk: chunk(peer), values }).collect()
    };
    let sends = peers(&outgoing, &|peer| Chunk::between(rank, peer));
    let receives = peers(&incoming, &|peer| Chunk::between(peer, rank));
    connect(rank, choice, dtype, &sends, &receives)
}

/// The call of a rank that has `outgoing` for its peers and gets `incoming`, both by peer.
pub(super) fn connect(
    rank: Rank,
    choice: &Choice,
    dtype: DType,
    outgoing: &[Peer],
    incoming: &[Peer],
) -> Call {
    let order = choice.order;
    let rank_count = u32::try_from(outgoing.len()).expect("ranks are counted in 32 bits");
    let mut pieces = Vec::new();
    let mut hop = |peer: Rank, peers: &[Peer]| {
        let Peer { chunk, values } = peers[peer.index()];
        (values.len > 0).then(|| {
            pieces.push(Piece::new(chunk, values));
            Hop { peer, piece: pieces.len() - 1 }
        })
    };
    let sends = order.sends(rank, rank_count, |peer| outgoing[peer.index()].values.len).into_iter();
    let sends = sends.filter_map(|peer| hop(peer, outgoing)).collect();
    let receives = order.receives(rank, rank_count, |peer| incoming[peer.index()].values.len).into_iter();
    let receives = receives.filter_map(|peer| hop(peer, incoming)).collect();
    let step = Step { order, window: order.window(choice.window, rank_count), sends, receives, fused: false };
    let grouped = choice.grouped.then(|| Group::all(rank_count));
    Call { grouped, ..Call::at_once(dtype, pieces, step) }
}
