//! A reduction in one step: every contribution straight to the rank that adds up.

use super::super::call::Phase;
use super::{Scatter, exchange, reduce};
use crate::Rank;
use crate::plan::{Addition, Chunk, Term};
use crate::planner::Choice;

impl Scatter<'_> {
    /// All contributions as they are, each to the rank whose shard it is for, which adds them up in rank order.
    pub(super) fn straight(&mut self, choice: &Choice) -> Vec<Phase> {
        let Self { rank, rank_count, .. } = *self;
        let order = choice.order;
        let len = |shard: Rank| self.own[shard.index()].len;
        let (receivers, own_len) = (order.sends(rank, rank_count, len), len(rank));
        let senders = order.receives(rank, rank_count, |_| own_len);
        let mut terms: Vec<Term> = (0..rank_count).map(|_| self.contribution(rank)).collect();
        for &peer in &senders {
            terms[peer.index()] = Term {
                chunk: Chunk::between(peer, rank).with_sum(self.one(peer)),
                values: self.reserve(own_len),
            };
        }
        let sends: Vec<(Rank, Term)> =
            receivers.iter().map(|&peer| (peer, self.contribution(peer))).collect();
        let receives: Vec<(Rank, Term)> = senders.iter().map(|&peer| (peer, terms[peer.index()])).collect();
        let mut call = exchange(self.operands.dtype, &sends, &receives);
        let window = order.window(choice.window, rank_count);
        for step in call.steps.iter_mut().chain([&mut call.sizes]) {
            (step.order, step.window) = (order, window);
        }
        let chunk = Chunk::between(rank, rank).with_sum(self.operands.total().as_dtype(self.sum_dtype));
        let sum = reduce(vec![Addition { terms, chunk, values: self.output }]);
        [Phase::Call(call, Vec::new())].into_iter().chain(sum).collect()
    }
}
