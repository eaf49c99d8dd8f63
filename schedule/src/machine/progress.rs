//! How far the open exchanges of a rank are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::interface::{Direction, TransferId};
use crate::plan::{Transfer, TransferKey};
use crate::{OpId, Rank};

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
pub(super) struct OfPeer {
    pub(super) transfers: Vec<u32>,
    /// How many have not ended.
    pub(super) left: u32,
}

/// How far one direction of an exchange is.
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
    pub(super) of_peer: BTreeMap<Rank, OfPeer>,
    /// Offered and not ended.
    pub(super) open: u32,
    /// Whether each has ended.
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
