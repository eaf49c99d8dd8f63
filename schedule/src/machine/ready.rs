//! Ops that wait for nothing but their turn: which of them a machine issues next.

use std::collections::BTreeSet;

use super::interface::Readiness;
use super::{Machine, State, is_call};
use crate::plan::{Op, OpKind};
use crate::{Lane, OpId};

/// Ops whose dependencies allow them and that have not been issued.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Ops that may be issued, by lane: ops that wait for a busy lane, such as the coding of many flows, need not be looked at.
    of_lane: [BTreeSet<OpId>; Lane::ALL.len()],
    /// Ops whose time has not come, by the bits of that time: non-negative floats sort like their bits.
    later: BTreeSet<(u64, OpId)>,
}

impl Machine {
    /// Makes an op ready: everything that it depends on is done.
    pub(super) fn make_ready(&mut self, op: OpId) {
        let Op { kind, not_before_s, .. } = self.op(op);
        let (lane, not_before_s) = (kind.lane(), *not_before_s);
        if not_before_s > 0.0 && self.capabilities.timed {
            self.ready.later.insert((not_before_s.to_bits(), op));
        } else {
            self.ready.of_lane[lane as usize].insert(op);
        }
    }

    /// Moves ops whose time has come to the issuable ones, and returns when the next one may be issued.
    pub(super) fn look_at_clock(&mut self, now_s: f64) -> Option<f64> {
        while let Some(&(bits, op)) = self.ready.later.first() {
            let start_s = self.start_s + f64::from_bits(bits);
            if start_s > now_s {
                return Some(start_s);
            }
            self.ready.later.pop_first();
            let lane = self.op(op).kind.lane();
            self.ready.of_lane[lane as usize].insert(op);
        }
        None
    }

    /// The first ready op, in program order, that its lane and the host's knowledge of sizes allow.
    pub(super) fn issuable(&self) -> Option<OpId> {
        let of_lane = |(lane, ready): (Lane, &BTreeSet<OpId>)| match self.capabilities.readiness {
            // Dependencies keep exchanges of a channel apart, and channels of flows share a lane.
            Readiness::Completed if lane.is_exchange() => {
                ready.iter().copied().find(|&op| self.may_be_opened(op))
            }
            Readiness::Completed => ready.first().copied().filter(|_| self.in_flight[lane as usize] == 0),
            Readiness::Issued => ready.iter().copied().find(|&op| {
                self.is_next_call(op)
                    && self.op(op).kind.host_sizes().iter().all(|&size| self.size(size).is_some())
            }),
        };
        Lane::ALL.into_iter().zip(&self.ready.of_lane).filter_map(of_lane).min()
    }

    pub(super) fn take_ready(&mut self, op: OpId) {
        let lane = self.op(op).kind.lane();
        self.ready.of_lane[lane as usize].remove(&op);
    }

    /// Whether no exchange or call of the same lane is left before an op that is one. Devices carry out a lane in the order of issue, and
    /// two ranks that had different orders, as sizes reach their hosts at different times, would wait for one another.
    fn is_next_call(&self, op: OpId) -> bool {
        let kind = &self.op(op).kind;
        !is_call(kind) || self.calls[kind.lane() as usize].front() == Some(&op)
    }

    /// Whether an exchange that joins the one before it on its channel can do so: that is open, or has ended.
    fn may_be_opened(&self, op: OpId) -> bool {
        let OpKind::Exchange(exchange) = &self.op(op).kind else { return true };
        if !exchange.joins_previous {
            return true;
        }
        let is_before =
            |other: &&Op| other.kind.exchange().is_some_and(|other| other.channel == exchange.channel);
        let before = self.program.ops[..op.index()].iter().rev().find(is_before);
        before.is_none_or(|before| self.states[before.id.index()] != State::Pending)
    }
}
