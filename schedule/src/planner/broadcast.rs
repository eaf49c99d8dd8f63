//! Broadcast: what one rank has to all others, encoded once at the root and decoded once at every other rank.

use zipwire_codec::DType;

use super::Choice;
use super::call::{Call, Ends, Hop, Piece, Step};
use super::parts::PART_ALIGN;
use crate::builder::ProgramBuilder;
use crate::plan::{Chunk, Region};
use crate::{Channel, Form, Order, Rank};

/// # Panics
/// If the form is none of a broadcast.
pub(super) fn call(
    builder: &mut ProgramBuilder,
    choice: &Choice,
    rank_count: u32,
    dtype: DType,
    bytes: u64,
    root: Rank,
    Ends { input, output }: Ends,
) -> Call {
    let rank = builder.rank();
    let form = choice.form.unwrap_or(Form::OF_BROADCAST[0]);
    assert!(Form::OF_BROADCAST.contains(&form), "a broadcast does not travel as `{}`", form.name());

    let buffer = if rank == root { input } else { output };
    builder.reserve(buffer, bytes);
    let values = Region { buffer, offset: 0, len: bytes };
    let pieces = Vec::from_iter((bytes > 0).then_some(Piece::new(Chunk::for_all(root), values)));
    let hop = |peer: Rank| (bytes > 0).then_some(Hop { peer, piece: 0 });

    let order = if form.takes_order() { choice.order } else { Order::Rotation };
    let window = order.window(choice.window.filter(|_| form.takes_order()), rank_count);
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    if rank == root {
        sends = order.sends(rank, rank_count, |_| bytes).into_iter().filter_map(hop).collect();
    } else {
        receives.extend(hop(root));
    }
    let straight = Step { order, window, sends, receives };
    let steps = if form == Form::Grouped {
        vec![straight.clone()]
    } else {
        let Branch { parent, children } = Branch::of(rank, root, rank_count);
        let receive = parent.map(|parent| Step::single(None, hop(parent)));
        let sends = children.into_iter().map(|child| Step::single(hop(child), None));
        receive.into_iter().chain(sends).collect()
    };
    let channel = Channel::Main;
    Call {
        dtype,
        channel,
        pieces,
        steps,
        library: None,
        sizes: straight,
        padded_to: None,
        part_align: PART_ALIGN,
    }
}

/// A rank's neighbours in the binomial tree.
struct Branch {
    /// Whom it gets the block from; the root has it.
    parent: Option<Rank>,
    /// To whom it hands the block on, those with the largest subtrees first.
    children: Vec<Rank>,
}

impl Branch {
    /// The tree over distances from the root, in rank order and modulo the rank count: a rank's parent is at its
    /// distance without the lowest bit that is set. So the longest ways come first, while few ranks send: where
    /// neighbours share a node, few transfers leave it.
    fn of(rank: Rank, root: Rank, rank_count: u32) -> Self {
        let distance = (rank.0 + rank_count - root.0) % rank_count;
        let at = |distance: u32| Rank((root.0 + distance) % rank_count);
        let reach =
            if distance == 0 { rank_count.next_power_of_two() } else { 1 << distance.trailing_zeros() };
        let strides = std::iter::successors(Some(reach / 2), |stride| Some(stride / 2));
        let strides = strides.take_while(|&stride| stride > 0);
        Self {
            parent: (distance > 0).then(|| at(distance - reach)),
            children: strides.map(|s| distance + s).filter(|&d| d < rank_count).map(at).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From every root, every rank is reached once, in no more than ceil(log2 ranks) rounds.
    #[test]
    fn the_tree_spans_all_ranks_in_logarithmic_time() {
        for rank_count in 1..40 {
            for root in (0..rank_count).map(Rank) {
                let branch = |rank| Branch::of(rank, root, rank_count);
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
