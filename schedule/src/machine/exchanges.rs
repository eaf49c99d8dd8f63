//! Open exchanges: how far they are, and which of their transfers a machine offers next, within the window.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::interface::{Direction, Step, TransferId, TransferOrder};
use super::{Machine, earliest, list};
use crate::plan::{Transfer, TransferKey};
use crate::{Channel, OpId, Rank};

/// An exchange whose transfers are being offered, or that a library carries out.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) op: OpId,
    pub(super) sends: Progress,
    pub(super) receives: Progress,
    /// Where each transfer is listed, if the order follows peers. Looked up, never iterated.
    pub(super) listed: HashMap<TransferKey, TransferId>,
    /// Sends that were announced, or need not be: all of them if the order does not follow peers.
    pub(super) announced: u32,
    /// Whether there is nothing to offer before a transfer of its channel ends or a peer is ready. Of coded flows, very many may be open.
    pub(super) is_idle: bool,
}

/// The transfers of one direction of an exchange that have one peer; empty ones are left out.
#[derive(Debug, Default)]
struct OfPeer {
    transfers: Vec<u32>,
    left: u32,
}

#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The first transfer that was not offered yet.
    pub(super) next: u32,
    /// Later ones that were offered out of turn.
    pub(super) ahead: BTreeSet<u32>,
    /// Not offered yet, and peers are ready for them.
    pub(super) awaited: BTreeSet<u32>,
    /// Not offered yet, and nothing is left for their peers in earlier exchanges; where exchanges are open together.
    pub(super) free: BTreeSet<u32>,
    /// Transfers with each peer, where exchanges are open together.
    of_peer: BTreeMap<Rank, OfPeer>,
    /// Offered and not ended.
    pub(super) open: u32,
    pub(super) ended: Vec<bool>,
}

impl Progress {
    pub(super) fn new(transfers: &[Transfer]) -> Self {
        Self { ended: vec![false; transfers.len()], ..Self::default() }
    }

    /// All at once, by a library.
    pub(super) fn all_offered(transfers: &[Transfer]) -> Self {
        let count = u32::try_from(transfers.len()).expect("transfers are counted in 32 bits");
        Self { next: count, open: count, ..Self::new(transfers) }
    }

    pub(super) fn has_ended(&self, transfer: u32) -> bool {
        self.ended[transfer as usize]
    }

    /// Whether it was offered, for transfers that move something.
    pub(super) fn has_offered(&self, transfer: u32) -> bool {
        transfer < self.next || self.ahead.contains(&transfer)
    }

    /// Takes in which transfers there are.
    pub(super) fn expect_all(&mut self, transfers: &[(Rank, u32)], is_busy: impl Fn(Rank) -> bool) {
        for &(peer, index) in transfers {
            let of_peer = self.of_peer.entry(peer).or_default();
            of_peer.transfers.push(index);
            of_peer.left += 1;
            if !is_busy(peer) {
                self.free.insert(index);
            }
        }
    }

    pub(super) fn has_left(&self, peer: Rank) -> bool {
        self.of_peer.get(&peer).is_some_and(|of_peer| of_peer.left > 0)
    }

    /// A transfer with the peer has ended. Whether it was the last one.
    pub(super) fn end(&mut self, peer: Rank) -> bool {
        let Some(of_peer) = self.of_peer.get_mut(&peer) else { return false };
        of_peer.left -= 1;
        of_peer.left == 0
    }

    /// Earlier exchanges have nothing left for the peer. Whether this one has.
    pub(super) fn free(&mut self, peer: Rank) -> bool {
        let of_peer = self.of_peer.get(&peer).map_or(&[][..], |of_peer| &of_peer.transfers);
        let left: Vec<u32> = of_peer.iter().copied().filter(|&index| !self.has_offered(index)).collect();
        self.free.extend(left);
        self.has_left(peer)
    }

    pub(super) fn offer(&mut self, transfer: u32) {
        self.awaited.remove(&transfer);
        self.free.remove(&transfer);
        if transfer == self.next {
            self.next += 1;
        } else {
            self.ahead.insert(transfer);
        }
        self.open += 1;
    }
}

impl Open {
    /// Takes in that the peer is ready for a transfer; `false` if the transfer is not of this exchange.
    pub(super) fn peer_ready(&mut self, key: TransferKey) -> bool {
        let Some(&TransferId { direction, index, .. }) = self.listed.get(&key) else { return false };
        self.is_idle = false;
        let progress = self.progress(direction);
        // News may come again, and after the transfer has gone on offer.
        if !progress.has_offered(index) {
            progress.awaited.insert(index);
        }
        true
    }

    pub(super) fn side(&self, direction: Direction) -> &Progress {
        match direction {
            Direction::Send => &self.sends,
            Direction::Receive => &self.receives,
        }
    }

    pub(super) fn progress(&mut self, direction: Direction) -> &mut Progress {
        match direction {
            Direction::Send => &mut self.sends,
            Direction::Receive => &mut self.receives,
        }
    }
}

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

    /// Transfer that the window of one direction admits: the first one allowed to be next whose time has come.
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

    /// A transfer has ended. If it was the last one of its exchange with its peer, those of the next exchange can be offered: parts
    /// of the data of two ranks for each other move one after another.
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

enum Admitted {
    /// A transfer, by its position.
    Now(u32),
    /// None before this time in seconds.
    At(f64),
    Nothing,
}
