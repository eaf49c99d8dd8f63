//! Broadcast: what one rank has to others, encoded once at the root and decoded once at every rank that gets it.

use zipwire_codec::DType;

use super::Choice;
use super::call::{Buffers, Call, Hop, PART_ALIGN, Piece, Rings, Step, range};
use crate::builder::ProgramBuilder;
use crate::plan::{Chunk, Region};
use crate::rank_order::Members;
use crate::{Algorithm, Collective, Order, Rank, Window};

/// # Panics
/// If the algorithm is none of a broadcast.
pub(super) fn call(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    rank_count: u32,
    dtype: DType,
    bytes: u64,
    members: Members,
    Buffers { input, output }: Buffers,
) -> Call {
    let (rank, root) = (builder.rank(), members.at(0));
    let algorithm = choice.algorithm_of("a broadcast", Algorithm::OF_BROADCAST);
    let takes_part = rank == root || members.gets(rank);
    let buffer = if rank == root { input } else { output };
    if takes_part {
        builder.reserve(buffer, bytes);
    }
    let is_ring = algorithm == Algorithm::Ring;
    let (channels, slices) = if is_ring { (choice.channels, choice.slices) } else { (1, 1) };
    let rings = Rings::new(channels, choice.ranks_per_node, rank_count);
    let parts = rings.count() * slices;
    let (mut pieces, mut piece_of) = (Vec::new(), Vec::new());
    for part in 0..parts {
        let (begin, end) = range(bytes, part, parts, PART_ALIGN);
        let is_there = takes_part && begin < end;
        piece_of.push(is_there.then_some(pieces.len()));
        if is_there {
            let chunk = Chunk { part, offset: begin, ..Chunk::for_all(root) };
            pieces.push(Piece::new(chunk, Region { buffer, offset: begin, len: end - begin }));
        }
    }
    let hop = |peer: Rank, part: u32| Some(Hop { peer, piece: piece_of[part as usize]? });
    let all_parts = |peer: Rank| (0..parts).filter_map(move |part| hop(peer, part));

    let order = if algorithm.takes_order() { choice.order } else { Order::Rotation };
    let window = order.window(choice.window.filter(|_| algorithm.takes_order()), rank_count * parts);
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    if rank == root {
        let peers = order.sends(rank, rank_count, |_| bytes);
        sends = peers.into_iter().filter(|peer| members.gets(*peer)).flat_map(all_parts).collect();
    } else {
        receives.extend(all_parts(root));
    }
    let straight = Step { order, window, sends, receives, fused: false };
    // A library's broadcast reaches all ranks: one to some of them goes along a tree.
    let is_library = algorithm == Algorithm::Library && members.count() == rank_count;
    let steps = match algorithm {
        _ if !takes_part || is_library => Vec::new(),
        Algorithm::Direct => vec![straight.clone()],
        Algorithm::Ring => {
            let seats: Vec<Seat> =
                rings.orders().map(|order| Seat::of(rank, &members.chain(order, rank_count))).collect();
            chains(&seats, members.count(), slices, !choice.protocol.is_coded(), hop)
        }
        _ => {
            let Branch { parent, children } = Branch::of(rank, members);
            let receive = parent.map(|parent| Step::single(None, hop(parent, 0)));
            let sends = children.into_iter().map(|child| Step::single(hop(child, 0), None));
            receive.into_iter().chain(sends).collect()
        }
    };
    // Frames have the room that a library's call counts.
    let padded_to = (is_library && choice.protocol.is_coded()).then(|| vec![bytes]);
    let library = is_library.then_some((Collective::Broadcast, rank_count));
    Call { steps, library, padded_to, ..Call::at_once(dtype, pieces, straight) }
}

struct Seat {
    /// Ranks between it and the begin of the chain.
    distance: u32,
    /// From whom it gets; the root has all.
    previous: Option<Rank>,
    /// To whom it hands on, but for the last one.
    next: Option<Rank>,
}

impl Seat {
    fn of(rank: Rank, chain: &[Rank]) -> Self {
        let distance = chain.iter().position(|of| *of == rank).expect("members are in their chain");
        let previous = distance.checked_sub(1).map(|index| chain[index]);
        Self { distance: distance as u32, previous, next: chain.get(distance + 1).copied() }
    }
}

/// Along the rings from the root on, to the member in front of it; `seats` has that on each channel. In each step a rank hands on the slice
/// that it got in the step before, on each channel, and gets the next one.
fn chains(
    seats: &[Seat],
    member_count: u32,
    slices: u32,
    is_kernel: bool,
    hop: impl Fn(Rank, u32) -> Option<Hop>,
) -> Vec<Step> {
    let step = |tick: u32| {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for (channel, Seat { distance, previous, next }) in (0..).zip(seats) {
            // What leaves the member that is so far from the root.
            let part = |distance: u32| {
                let slice = tick.checked_sub(distance).filter(|&slice| slice < slices)?;
                Some(channel * slices + slice)
            };
            sends.extend(next.and_then(|next| hop(next, part(*distance)?)));
            receives.extend(previous.and_then(|previous| hop(previous, part(*distance - 1)?)));
        }
        let (window, fused) = (Window::both(seats.len() as u32), is_kernel && tick > 0);
        Step { order: Order::Rotation, window, sends, receives, fused }
    };
    (0..(slices + member_count).saturating_sub(2)).map(step).collect()
}

struct Branch {
    /// Whom it gets the block from; the root has it.
    parent: Option<Rank>,
    /// To whom it hands the block on, those with the largest subtrees first.
    children: Vec<Rank>,
}

impl Branch {
    /// The tree over distances from the root: a member's parent is at its distance without the lowest bit that is set. So the longest ways
    /// come first, while few ranks send: where neighbours share a node, few transfers leave it.
    fn of(rank: Rank, members: Members) -> Self {
        let (distance, count) = (members.distance(rank), members.count());
        let reach = if distance == 0 { count.next_power_of_two() } else { 1 << distance.trailing_zeros() };
        let strides = std::iter::successors(Some(reach / 2), |stride| Some(stride / 2));
        let strides = strides.take_while(|&stride| stride > 0);
        Self {
            parent: (distance > 0).then(|| members.at(distance - reach)),
            children: strides.map(|s| distance + s).filter(|&d| d < count).map(|d| members.at(d)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RankRange;

    /// From every root, every rank is reached once, in no more than ceil(log2 ranks) rounds.
    #[test]
    fn the_tree_spans_all_ranks_in_logarithmic_time() {
        for rank_count in 1..if cfg!(miri) { 9 } else { 40 } {
            for root in (0..rank_count).map(Rank) {
                let members = Members::new(root, RankRange::all(rank_count));
                let branch = |rank| Branch::of(rank, members);
                let mut round_of = vec![None; rank_count as usize];
                round_of[root.index()] = Some(0);
                let mut reached = vec![root];
                for index in 0.. {
                    let Some(&rank) = reached.get(index) else { break };
                    for (child, later) in branch(rank).children.into_iter().zip(1..) {
                        assert_eq!(branch(child).parent, Some(rank));
                        let round = round_of[rank.index()].map(|round: u32| round + later);
                        assert!(round_of[child.index()].is_none(), "{child} is reached twice");
                        round_of[child.index()] = round;
                        reached.push(child);
                    }
                }
                let last = round_of.into_iter().max().flatten();
                assert_eq!(
                    (reached.len(), last),
                    (rank_count as usize, Some(rank_count.next_power_of_two().ilog2()))
                );
            }
        }
    }
}
