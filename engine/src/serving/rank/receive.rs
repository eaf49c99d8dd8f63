//! Shards that this rank receives.

use std::collections::VecDeque;

use xxhash_rust::xxh3::xxh3_64;
use zipwire_schedule::{BufferId, Failure, FailureKind, Rank};

use super::coder::{Task, check};
use super::{Due, MovedShard, Run, ended};
use crate::host::cpu_s;
use crate::serving::Damage;
use crate::serving::groups::region;
use crate::serving::message::{Message, Offer, ServingReport, ShardId};
use crate::transport::{Incoming, Received};

#[derive(Debug)]
pub(super) struct Receiving {
    src: Rank,
    /// Groups of the shard; if it was withdrawn, those that were offered.
    groups: u32,
    is_withdrawn: bool,
    /// Groups that this rank has not asked for yet.
    later: VecDeque<Offer>,
    /// Groups that it has asked for and that are not decoded.
    held: u32,
    received: u32,
    decoded: u32,
    /// Received groups that wait for the coder, with their arrival times: for the group before them, or for all groups where shards are decoded as a whole.
    come: VecDeque<(Offer, BufferId, f64)>,
    is_decoding: bool,
    bytes_raw: u64,
    bytes_wire: u64,
    moving: Option<[f64; 2]>,
    is_coding: bool,
    /// When the first group began to be decoded, and when the last one was.
    pub(super) decode: Option<[f64; 2]>,
    last: Option<Offer>,
}

impl Receiving {
    fn new(src: Rank, groups: u32) -> Self {
        Self {
            src,
            groups,
            is_withdrawn: false,
            later: VecDeque::new(),
            held: 0,
            received: 0,
            decoded: 0,
            come: VecDeque::new(),
            is_decoding: false,
            bytes_raw: 0,
            bytes_wire: 0,
            moving: None,
            is_coding: false,
            decode: None,
            last: None,
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        !self.is_withdrawn
    }

    /// Whether the group that is decoded next is the last one.
    pub(super) fn is_last(&self) -> bool {
        self.decoded + 1 == self.groups
    }
}

impl Run<'_> {
    pub(super) fn offer_made(&mut self, offer: Offer) -> Result<(), Failure> {
        if self.is_dead && self.is_told_to_end.is_none() {
            // Nobody looks at it before the run is over.
            self.receiving
                .entry(offer.shard)
                .or_insert_with(|| Receiving::new(offer.key.src, offer.groups))
                .later
                .push_back(offer);
            return Ok(());
        }
        if self.is_dead || self.lost.contains(&offer.key.src) {
            return self.ask(offer);
        }
        let src = offer.key.src;
        let shard = self.receiving.entry(offer.shard).or_insert_with(|| Receiving::new(src, offer.groups));
        shard.later.push_back(offer);
        self.ask_next(offer.shard)
    }

    /// Asks for groups of a shard, as many as there may be at a time.
    fn ask_next(&mut self, id: ShardId) -> Result<(), Failure> {
        if self.is_dead {
            return Ok(());
        }
        while let Some(shard) = self.receiving.get_mut(&id) {
            let window = self.job.window(shard.groups);
            if shard.held >= window && shard.is_wanted() {
                break;
            }
            let Some(offer) = shard.later.pop_front() else { break };
            shard.held += 1;
            self.ask(offer)?;
        }
        Ok(())
    }

    fn ask(&mut self, offer: Offer) -> Result<(), Failure> {
        let buffer = self.buffer()?;
        self.asked.insert(offer.key, (offer, buffer));
        let bytes = Some(region(buffer, offer.bytes));
        let asked = self.transport.receive(Incoming { key: offer.key, bytes, has_word: false });
        asked.map_err(|why| ended(self.rank, &why))
    }

    pub(super) fn received(&mut self, received: &Received) -> Result<(), Failure> {
        let key = received.transfer.key;
        let Some((offer, buffer)) = self.asked.remove(&key) else {
            return Err(self.failure_of(key, FailureKind::Transport, "what it has not asked for has come"));
        };
        self.transport.count_progress();
        if self.transport.sends_early() {
            self.say_taken(key.src, offer.shard)?;
        }
        let [begin_s, end_s] = [received.begin_s, received.end_s].map(|at_s| self.run_s(at_s));
        let kept =
            if self.is_dead { Ok(false) } else { self.keep(received, offer, buffer, [begin_s, end_s]) };
        if !kept.as_ref().is_ok_and(|is_kept| *is_kept) {
            self.buffers.give(buffer);
        }
        kept.map(drop)?;
        self.end_if_withdrawn(offer.shard)?;
        self.ask_next(offer.shard)
    }

    /// Acknowledges a group to its sender. A dead rank does so when the run is over.
    fn say_taken(&mut self, src: Rank, shard: ShardId) -> Result<(), Failure> {
        if self.is_dead && self.is_told_to_end.is_none() {
            self.owed.push((src, shard));
            return Ok(());
        }
        self.tell(src, Message::Taken { shard })
    }

    /// Verifies and queues a received group; whether its buffer is still needed.
    fn keep(
        &mut self,
        received: &Received,
        offer: Offer,
        buffer: BufferId,
        [begin_s, end_s]: [f64; 2],
    ) -> Result<bool, Failure> {
        let job = self.job;
        let bytes = region(buffer, offer.bytes);
        match job.damage(offer.request, offer.layer) {
            Some(Damage::Drop) => return Ok(false),
            Some(Damage::Flip(byte)) => {
                let index = usize::try_from(byte % offer.bytes.max(1)).expect("it is within the buffer");
                self.buffers.memory().write(&bytes)[index] ^= 1;
            }
            None => {}
        }
        let Some(shard) = self.receiving.get_mut(&offer.shard) else { return Ok(false) };
        shard.received += 1;
        if shard.is_withdrawn {
            shard.held -= 1;
            return Ok(false);
        }
        let tokens = offer.tokens[1] - offer.tokens[0];
        shard.bytes_raw += job.raw_bytes(tokens);
        shard.bytes_wire += offer.bytes;
        shard.last = Some(offer);
        let (is_first, all_came) = (shard.moving.is_none(), shard.received == shard.groups);
        shard.moving.get_or_insert([begin_s, end_s])[1] = end_s;
        let begins_coding = is_first && job.codec.is_some();
        shard.is_coding |= begins_coding;
        if is_first {
            self.disturb(begin_s, i32::from(begins_coding), 1);
        }
        if all_came {
            self.disturb(end_s, 0, -1);
        }
        if job.setup.verifies && xxh3_64(&self.buffers.memory().read(&bytes)) != received.checksum {
            let detail = format!("the checksum of what rank {} sent does not fit", offer.key.src);
            return Err(self.failure_of(offer.key, FailureKind::Corrupt, detail));
        }
        if job.codec.is_none() {
            self.check_native(&offer, buffer)?;
            self.group_decoded(offer.shard, end_s)?;
            return Ok(false);
        }
        let Some(shard) = self.receiving.get_mut(&offer.shard) else { return Ok(false) };
        shard.come.push_back((offer, buffer, end_s));
        self.decode_next(offer.shard, end_s);
        Ok(true)
    }

    /// Queues the next group of a shard for the coder, if there is one and it may be decoded.
    fn decode_next(&mut self, id: ShardId, at_s: f64) {
        let Some(shard) = self.receiving.get_mut(&id) else { return };
        let may_begin = self.job.is_pipelined() || shard.received == shard.groups;
        if shard.is_decoding || !may_begin {
            return;
        }
        if let Some((offer, buffer, came_s)) = shard.come.pop_front() {
            shard.is_decoding = true;
            self.coder.push(Task::Decode(offer, buffer, came_s.max(at_s)));
        }
    }

    /// Compares an uncoded group with regenerated values.
    fn check_native(&mut self, offer: &Offer, buffer: BufferId) -> Result<(), Failure> {
        let job = self.job;
        if !job.setup.verifies {
            return Ok(());
        }
        let permit = self.permits.take();
        let begin_cpu_s = cpu_s();
        let _span = tracing::info_span!("check", bytes = offer.bytes).entered();
        let len = job.setup.geometry.row_len() * (offer.tokens[1] - offer.tokens[0]) as usize;
        let group = self.buffers.memory().read(&region(buffer, offer.bytes));
        let checked = check(job, offer, group.chunks(len));
        drop(group);
        self.totals.decode_s += cpu_s() - begin_cpu_s;
        drop(permit);
        checked.map_err(|why| self.failure_of(offer.key, FailureKind::Corrupt, why))?;
        self.totals.bytes_verified += offer.bytes;
        Ok(())
    }

    /// A group is decoded.
    pub(super) fn group_decoded(&mut self, id: ShardId, at_s: f64) -> Result<(), Failure> {
        self.transport.count_progress();
        let Some(shard) = self.receiving.get_mut(&id).filter(|shard| shard.is_wanted()) else {
            return Ok(());
        };
        shard.held -= 1;
        shard.decoded += 1;
        shard.is_decoding = false;
        if let Some(decode) = &mut shard.decode {
            decode[1] = at_s;
        }
        if shard.decoded < shard.groups {
            self.decode_next(id, at_s);
            return self.ask_next(id);
        }
        self.coder.leave(id);
        let launch_s = self.job.declared_s(self.job.launch_s(true));
        if launch_s > 0.0 {
            self.queue.push(at_s + launch_s, Due::Arrived(id));
            return Ok(());
        }
        self.arrived(id, at_s)
    }

    /// A shard is complete: it is noted and reported.
    pub(super) fn arrived(&mut self, id: ShardId, at_s: f64) -> Result<(), Failure> {
        let Some(shard) = self.receiving.remove(&id) else { return Ok(()) };
        self.disturb(at_s, -i32::from(shard.is_coding), 0);
        let offer = shard.last.expect("a shard has groups");
        let passed = MovedShard {
            request: offer.request,
            peer: shard.src,
            numbers: offer.numbers,
            bytes_raw: shard.bytes_raw,
            bytes_wire: shard.bytes_wire,
        };
        self.span_log.transfer(&passed, false, shard.moving.unwrap_or_default(), self.job.codec.is_some());
        if let Some(decode) = shard.decode {
            self.span_log.coding(&passed, "decode", decode);
        }
        self.report(ServingReport::Arrived { shard: id, at_s, bytes_wire: shard.bytes_wire })
    }

    /// The sender has stopped after `offered` groups of a shard that nobody waits for.
    pub(super) fn withdrawn(&mut self, id: ShardId, src: Rank, offered: u32) -> Result<(), Failure> {
        if self.is_dead || self.lost.contains(&src) {
            return Ok(());
        }
        let shard = self.receiving.entry(id).or_insert_with(|| Receiving::new(src, offered));
        (shard.groups, shard.is_withdrawn) = (offered, true);
        let come = std::mem::take(&mut shard.come);
        come.into_iter().for_each(|(_, buffer, _)| self.buffers.give(buffer));
        self.end_if_withdrawn(id)?;
        self.ask_next(id)
    }

    fn end_if_withdrawn(&mut self, id: ShardId) -> Result<(), Failure> {
        let is_over = |shard: &Receiving| shard.is_withdrawn && shard.received == shard.groups;
        if self.receiving.get(&id).is_some_and(is_over) {
            self.forget_receiving(id)?;
        }
        Ok(())
    }

    /// Drops a shard. Groups of it that are on offer are still received, and not looked at.
    fn forget_receiving(&mut self, id: ShardId) -> Result<(), Failure> {
        let Some(shard) = self.receiving.remove(&id) else { return Ok(()) };
        self.coder.leave(id);
        let is_moving = shard.moving.is_some() && (shard.is_withdrawn || shard.received < shard.groups);
        self.disturb(self.now_s(), -i32::from(shard.is_coding), -i32::from(is_moving));
        shard.come.into_iter().for_each(|(_, buffer, _)| self.buffers.give(buffer));
        shard.later.into_iter().try_for_each(|offer| self.ask(offer))
    }

    pub(super) fn drop_shards_of(&mut self, rank: Rank) -> Result<(), Failure> {
        self.drop_shards_for(Some(rank))?;
        let ids: Vec<ShardId> =
            self.receiving.iter().filter(|(_, shard)| shard.src == rank).map(|(id, _)| *id).collect();
        ids.into_iter().try_for_each(|id| self.forget_receiving(id))
    }

    pub(super) fn drop_all(&mut self) -> Result<(), Failure> {
        for (src, shard) in std::mem::take(&mut self.owed) {
            self.say_taken(src, shard)?;
        }
        self.drop_shards_for(None)?;
        let ids: Vec<ShardId> = self.receiving.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.forget_receiving(id))
    }
}
