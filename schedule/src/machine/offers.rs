//! Open exchanges: which of their transfers a machine offers next, within the window.

use std::collections::HashMap;
use std::sync::Arc;

use super::interface::{Direction, Step, TransferId, TransferOrder};
use super::progress::{Open, Progress};
use super::{Machine, earliest, list};
use crate::plan::Transfer;
use crate::{Channel, OpId, Rank};

impl Machine {
    pub(super) fn open(&mut self, op: OpId) {
        let exchange = self.exchange(op);
        let progress = match self.capabilities.transfer_order {
            TransferOrder::Machine => Progress::new,
            TransferOrder::Library => Progress::all_offered,
        };
        let (sends, receives) = (progress(&exchange.sends), progress(&exchange.receives));
        let send_count = u32::try_from(exchange.sends.len()).expect("transfers are counted in 32 bits");
        let listed = HashMap::new();
        let mut open = Open { op, sends, receives, listed, announced: send_count, is_idle: false };
        if exchange.order.follows_peers() {
            open.announced = 0;
            let ids = |direction| {
                let indices = (0..).zip(list(exchange, direction)).map(|(index, _)| index);
                indices.map(move |index| TransferId { op, direction, index })
            };
            let ids = ids(Direction::Send).chain(ids(Direction::Receive));
            open.listed = ids.map(|id| (self.key(id), id)).collect();
        }
        if self.has_joins {
            for direction in [Direction::Send, Direction::Receive] {
                let moving = (0..).zip(list(exchange, direction)).filter(|(_, t)| self.transfer_bytes(t) > 0);
                let moving: Vec<(Rank, u32)> = moving.map(|(index, t)| (t.peer, index)).collect();
                let earlier =
                    self.exchanges.iter().filter(|open| self.exchange(open.op).channel == exchange.channel);
                let is_busy = |peer| earlier.clone().any(|open| open.side(direction).has_left(peer));
                open.progress(direction).expect_all(&moving, is_busy);
            }
        }
        self.early.retain(|&key| !open.peer_ready(key));
        self.exchanges.push(open);
    }

    /// The next transfer of an open exchange, its end, or the time of its next transfer; `None` when it waits
    /// for transfers to end.
    pub(super) fn advance(&mut self, index: usize, now_s: f64) -> Option<Step> {
        let op = self.exchanges[index].op;
        if let Some(send) = self.announcement(index) {
            return Some(Step::Announce(send));
        }
        let mut wake_s: Option<f64> = None;
        for direction in [Direction::Send, Direction::Receive] {
            self.pass(index, direction);
            match self.admitted(index, direction, now_s) {
                Admitted::Now(transfer) => {
                    self.exchanges[index].progress(direction).offer(transfer);
                    let id = TransferId { op, direction, index: transfer };
                    return Some(Step::Transfer(id));
                }
                Admitted::At(time_s) => wake_s = earliest(wake_s, Some(time_s)),
                Admitted::Nothing => {}
            }
        }
        if wake_s.is_some() {
            return Some(Step::Wait { until_s: wake_s });
        }
        let Open { sends, receives, .. } = &self.exchanges[index];
        let exchange = self.exchange(op);
        let over = |progress: &Progress, transfers: &[Transfer]| {
            progress.open == 0 && progress.next as usize == transfers.len()
        };
        if over(sends, &exchange.sends) && over(receives, &exchange.receives) {
            self.exchanges.remove(index);
            return Some(Step::Close(op));
        }
        None
    }

    /// The next send to announce; empty ones are left out.
    fn announcement(&mut self, index: usize) -> Option<TransferId> {
        let op = self.exchanges[index].op;
        let first = self.exchanges[index].announced;
        let sends = &self.exchange(op).sends;
        let mut left = (first..).zip(&sends[first as usize..]);
        let next = left.find(|(_, transfer)| self.transfer_bytes(transfer) > 0).map(|(send, _)| send);
        let end = u32::try_from(sends.len()).expect("transfers are counted in 32 bits");
        self.exchanges[index].announced = next.map_or(end, |send| send + 1);
        next.map(|index| TransferId { op, direction: Direction::Send, index })
    }

    /// Passes over transfers that were offered out of turn, and over empty ones: both ends know that nothing moves and
    /// leave these out.
    fn pass(&mut self, index: usize, direction: Direction) {
        let op = self.exchanges[index].op;
        loop {
            let next = self.exchanges[index].progress(direction).next;
            let Some(transfer) = list(self.exchange(op), direction).get(next as usize) else { return };
            let is_empty = self.transfer_bytes(transfer) == 0;
            let progress = self.exchanges[index].progress(direction);
            if !progress.ahead.remove(&next) && !is_empty {
                return;
            }
            progress.next += 1;
        }
    }

    /// What the window of one direction admits: the first transfer of those that may be next whose time has come.
    fn admitted(&self, index: usize, direction: Direction, now_s: f64) -> Admitted {
        let open = &self.exchanges[index];
        let exchange = self.exchange(open.op);
        let transfers = list(exchange, direction);
        let progress = open.side(direction);
        let window = match direction {
            Direction::Send => exchange.window.sends,
            Direction::Receive => exchange.window.receives,
        };
        // Many exchanges of explicit flows may be open that have nothing left to offer.
        if progress.next as usize == transfers.len()
            || self.open_together(exchange.channel, direction) >= window
        {
            return Admitted::Nothing;
        }
        let next = if exchange.order.follows_peers() {
            // Who is ready decides, so a transfer of a part behind could take the room of one that is not ready yet, and that other
            // ranks wait for: room for what is left of the exchanges before is kept.
            if self.open_together(exchange.channel, direction) + self.left_before(index, direction) >= window
            {
                return Admitted::Nothing;
            }
            progress.awaited.first().copied()
        } else if self.has_joins {
            progress.free.first().copied()
        } else {
            Some(progress.next)
        };
        let Some(next) = next else { return Admitted::Nothing };
        let begin_s = self.start_s + transfers[next as usize].not_before_s;
        if begin_s <= now_s || !self.capabilities.timed { Admitted::Now(next) } else { Admitted::At(begin_s) }
    }

    /// A transfer has ended: exchanges of its channel may have something to offer.
    pub(super) fn stir(&mut self, id: TransferId) {
        let channel = self.exchange(id.op).channel;
        let program = Arc::clone(&self.program);
        for open in &mut self.exchanges {
            let kind = &program.ops[open.op.index()].kind;
            open.is_idle &= kind.exchange().is_some_and(|exchange| exchange.channel != channel);
        }
    }

    /// A transfer has ended. If it was the last one of its exchange with its peer, those of the next one can be offered: parts
    /// of what two ranks have for each other move one behind the other.
    pub(super) fn release(&mut self, id: TransferId) {
        let (transfer, exchange) = self.transfer(id);
        let (peer, channel) = (transfer.peer, exchange.channel);
        let program = Arc::clone(&self.program);
        let mut together = self.exchanges.iter_mut().skip_while(|open| open.op != id.op).filter(|open| {
            let kind = &program.ops[open.op.index()].kind;
            kind.exchange().is_some_and(|exchange| exchange.channel == channel)
        });
        let is_last = together.next().is_some_and(|open| open.progress(id.direction).end(peer));
        if is_last {
            let _ = together.any(|open| open.progress(id.direction).free(peer));
        }
    }

    /// Transfers that move something and have not been offered yet, in exchanges that an exchange has joined.
    fn left_before(&self, index: usize, direction: Direction) -> u32 {
        let channel = self.exchange(self.exchanges[index].op).channel;
        let before = self.exchanges[..index].iter().filter(|open| self.exchange(open.op).channel == channel);
        let left = before.flat_map(|open| {
            let (progress, transfers) = (open.side(direction), list(self.exchange(open.op), direction));
            let behind = (0..).zip(transfers).skip(progress.next as usize);
            behind.filter(|(at, transfer)| !progress.ahead.contains(at) && self.transfer_bytes(transfer) > 0)
        });
        u32::try_from(left.count()).expect("transfers are counted in 32 bits")
    }

    /// Transfers that are open in the exchanges of a channel, which share a window.
    fn open_together(&self, channel: Channel, direction: Direction) -> u32 {
        let together = self.exchanges.iter().filter(|open| self.exchange(open.op).channel == channel);
        together.map(|open| open.side(direction).open).sum()
    }
}

/// See [`Machine::admitted`].
enum Admitted {
    /// A transfer, by its position.
    Now(u32),
    /// None before this time in seconds.
    At(f64),
    /// None before a transfer ends.
    Nothing,
}
