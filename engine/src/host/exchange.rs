//! Exchanges of one rank: ends of transfers go on offer when the exchange has been launched, and what has come is held
//! against the checksum of its sender.

use zipwire_schedule::machine::{Direction, Machine, TransferId};
use zipwire_schedule::plan::{Content, Region, Transfer, TransferKey};
use zipwire_schedule::{Failure, OpId};

use super::backend::{Due, HostBackend};
use crate::failure_report::{other_content, other_length};
use crate::run_program::{Event, Outcome};
use crate::transport::{Incoming, Message, Outgoing, Received, Shape};

impl HostBackend<'_> {
    /// Lets something happen once the exchange that it belongs to has been launched.
    pub(super) fn when_open(&mut self, machine: &Machine, exchange: OpId, due: Due) -> Result<(), Failure> {
        let launch_s =
            if machine.is_fused(exchange) { 0.0 } else { self.declared_s(|pace| pace.costs.host.launch_s) };
        let open_s = self.opened_s[&exchange] + launch_s;
        if open_s > self.transport.now_s() {
            self.due.push((open_s, due));
            return Ok(());
        }
        self.happen(machine, due)
    }

    /// All transfers of an exchange have ended: it ends when its sizes have reached the host.
    pub(super) fn close(&mut self, machine: &Machine, op: OpId) {
        let begin_s = self.opened_s.remove(&op).expect("exchanges are opened before they are closed");
        let launch_s =
            if machine.is_launched(op) { self.declared_s(|pace| pace.costs.host.launch_s) } else { 0.0 };
        let launched_s = begin_s + launch_s;
        let sync_s = self.declared_s(|pace| pace.costs.host.sync_s);
        let known_s = self.sizes_s.remove(&op).map_or(launched_s, |arrived_s| arrived_s + sync_s);
        self.complete_at(machine, launched_s.max(known_s), Outcome::Op(op, Vec::new()), begin_s);
    }

    pub(super) fn announce(&mut self, machine: &Machine, id: TransferId) -> Result<(), Failure> {
        let key = machine.key(id);
        self.tell(machine, key.dst, Message::Ready(key))
    }

    /// Puts an end of a transfer on offer.
    pub(super) fn offer(&mut self, machine: &Machine, id: TransferId) -> Result<(), Failure> {
        let (transfer, exchange) = machine.transfer(id);
        let (key, bytes) = (machine.key(id), moved(machine, transfer));
        self.offered.insert(key, id);
        let offered = match id.direction {
            Direction::Receive => {
                let has_word = transfer.content.brings().is_some();
                self.transport.receive(Incoming { key, bytes, has_word })
            }
            Direction::Send => {
                let size = |size| machine.size(size).expect("sizes are known before they are sent");
                let word = transfer.content.brings().map(size);
                let checksum = self.worker.checksum(bytes, word);
                self.transport.send(Outgoing { key, bytes, word, checksum })
            }
        };
        offered.map_err(|ended| self.failure_report.ended(machine, Some(id.op), &ended))?;
        if id.direction == Direction::Receive && exchange.order.follows_peers() {
            return self.tell(machine, key.src, Message::Ready(key));
        }
        Ok(())
    }

    /// A transfer has come.
    pub(super) fn arrive(&mut self, machine: &Machine, received: &Received) -> Result<(), Failure> {
        let &Received { transfer: Incoming { key, bytes, .. }, word, checksum, begin_s, end_s } = received;
        let id = self.take_offered(machine, &key)?;
        if self.worker.checksum(bytes, word) != checksum {
            return Err(Failure::corrupt_transfer(self.rank, id.op, key));
        }
        if word.is_some() {
            self.sizes_s.insert(id.op, end_s);
        }
        self.overlap.arrive(end_s, key);
        self.complete(Outcome::Transfer(id, word), begin_s, end_s);
        Ok(())
    }

    /// A send of this rank has completed.
    pub(super) fn leave(
        &mut self,
        machine: &Machine,
        key: TransferKey,
        (begin_s, end_s): (f64, f64),
    ) -> Result<(), Failure> {
        let id = self.take_offered(machine, &key)?;
        self.overlap.arrive(end_s, key);
        self.complete(Outcome::Transfer(id, None), begin_s, end_s);
        Ok(())
    }

    /// The ends of a transfer disagree about what moves.
    pub(super) fn disagree(
        &mut self,
        machine: &Machine,
        key: TransferKey,
        (offered, expected): (Shape, Shape),
    ) -> Result<(), Failure> {
        let op = match self.calls.op_of(&key) {
            Some(op) => op,
            None => self.take_offered(machine, &key)?.op,
        };
        match (offered, expected) {
            (Shape { bytes: Some(bytes), .. }, Shape { bytes: Some(expected), .. }) if bytes != expected => {
                Err(other_length(machine, op, key.src, bytes, expected))
            }
            _ => Err(other_content(machine, op, key.src)),
        }
    }

    /// A peer has announced a transfer, or has its end on offer.
    pub(super) fn ready(&mut self, key: TransferKey) {
        self.events.push_back(Event::PeerReady(key));
    }

    fn take_offered(&mut self, machine: &Machine, key: &TransferKey) -> Result<TransferId, Failure> {
        let id = self.offered.remove(key);
        id.ok_or_else(|| self.failure_report.confused(machine, key, "has ended without being on offer"))
    }
}

/// The bytes that move of a transfer whose sizes are known.
fn moved(machine: &Machine, transfer: &Transfer) -> Option<Region> {
    match transfer.content {
        Content::Size(_) => None,
        Content::Values(region) | Content::Whole(region) | Content::Announced(region, _) => Some(region),
        Content::Prefix(region, _) | Content::Overflow { region, .. } => {
            let len = machine.transfer_bytes(transfer);
            Some(Region { len, ..region })
        }
    }
}
