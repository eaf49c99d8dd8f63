//! How transfers go on offer, move, and arrive.

use zipwire_schedule::SegmentId;
use zipwire_schedule::machine::{Direction, TransferId, TransferOrder};
use zipwire_schedule::plan::{Chunk, Content, Region, TransferKey};

use super::{Defect, Event, Fault, World};

impl World<'_> {
    pub(super) fn offer_in_window(&mut self, rank: usize, id: TransferId) -> Result<(), String> {
        // By the plan, whatever the machine has been given.
        let kind = &self.plan.programs[rank].ops[id.op.index()].kind;
        let exchange = kind.exchange().expect("transfers are of exchanges");
        let window = match id.direction {
            Direction::Send => exchange.window.sends,
            Direction::Receive => exchange.window.receives,
        };
        let open = self.ranks[rank].open.entry((exchange.channel, id.direction)).or_default();
        *open += 1;
        if *open > window {
            return Err(format!("rank {rank} has {open} transfers open in a window of {window}"));
        }
        self.offer(rank, id)
    }

    pub(super) fn offer(&mut self, rank: usize, id: TransferId) -> Result<(), String> {
        let machine = &self.ranks[rank].machine;
        let (key, content) = (machine.key(id), machine.transfer(id).0.content);
        if let Some(region) = content.region() {
            let region = Region { len: self.live(rank, &content), ..region };
            let access = self.transfer_access(rank, id, region);
            self.add(rank, access)?;
        }
        let Some((peer, other)) = self.offers.remove(&key) else {
            self.offers.insert(key, (rank, id));
            let peer = if id.direction == Direction::Send { key.dst } else { key.src };
            self.after(Event::News(peer.index(), key));
            return Ok(());
        };
        if !self.moved.insert(key) {
            return Err(format!("{key:?} moves twice"));
        }
        let ends = if id.direction == Direction::Send {
            [(rank, id), (peer, other)]
        } else {
            [(peer, other), (rank, id)]
        };
        let bytes = ends.map(|(rank, id)| {
            let machine = &self.ranks[rank].machine;
            machine.transfer_bytes(machine.transfer(id).0)
        });
        if bytes[0] != bytes[1] {
            return Err(format!("{key:?}: {} bytes are sent, and {} expected", bytes[0], bytes[1]));
        }
        self.begun += 1;
        if self.fault == Fault::Loses(self.begun - 1) {
            // What a library moves is not reported one by one, so which of an exchange is missing is not known.
            let is_known = self.capabilities.transfer_order == TransferOrder::Machine;
            self.lost = is_known.then_some(key.src);
            return Ok(());
        }
        self.moving.insert(key, ends);
        if self.defect == Defect::TellsEarly {
            let (rank, id) = ends[1];
            self.after(Event::Told(rank, id));
        }
        self.after(Event::Moved(key));
        Ok(())
    }

    pub(super) fn arrived(&mut self, key: TransferKey) -> Result<(), String> {
        let ends = self.moving.remove(&key).expect("it moves");
        let [(src, send), (dst, receive)] = ends;
        if self.is_dead(src) || self.is_dead(dst) {
            return Ok(());
        }
        let contents = [ends[0], ends[1]].map(|(rank, id)| self.ranks[rank].machine.transfer(id).0.content);
        if let (Some(from), Some(to)) = (contents[0].region(), contents[1].region()) {
            let len = self.live(src, &contents[0]);
            let read = self.ranks[src].memory.read(&Region { len, ..from });
            self.ranks[dst].memory.copy(&to, len, &read);
        }
        for (rank, id) in ends {
            let of = Self::id_of_transfer(id);
            self.ranks[rank].accesses.retain(|access| access.id != of);
        }
        self.after(Event::Told(src, send));
        if self.defect == Defect::CountsTwice && self.capabilities.transfer_order == TransferOrder::Library {
            self.after(Event::Told(src, send));
        }
        if self.defect != Defect::TellsEarly {
            self.after(Event::Told(dst, receive));
        }
        Ok(())
    }

    /// The bytes of a content that are in its region.
    fn live(&self, rank: usize, content: &Content) -> u64 {
        let size = |size| self.ranks[rank].machine.size(size).expect("sizes are known before bytes move");
        match *content {
            Content::Values(region) | Content::Whole(region) | Content::Announced(region, _) => region.len,
            Content::Prefix(_, of) => size(of),
            Content::Overflow { slot, size: of, .. } => size(of).saturating_sub(slot),
            Content::Size(_) => 0,
        }
    }

    pub(super) fn frame(&self, rank: usize, id: TransferId) -> (SegmentId, Chunk) {
        let machine = &self.ranks[rank].machine;
        (machine.op(id.op).segment, machine.transfer(id).0.chunk)
    }
}
