//! Shards that this rank sends.

use std::collections::VecDeque;

use xxhash_rust::xxh3::xxh3_64;
use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{BufferId, Failure, FailureKind, Rank, Stage};

use super::{Due, MovedShard, Run, ended};
use crate::serving::groups::{Groups, region};
use crate::serving::message::{Message, Offer, Order, ShardId};
use crate::serving::segment;
use crate::serving::setup::{OPEN, WINDOW};
use crate::transport::Outgoing;

#[derive(Debug)]
pub(super) struct Sending {
    pub(super) order: Order,
    pub(super) groups: Groups,
    /// Index of the group that is encoded next.
    pub(super) next: u32,
    /// Groups that hold a buffer: encoded, or being encoded.
    pub(super) held: u32,
    pub(super) is_queued: bool,
    pub(super) is_making: bool,
    pub(super) is_stopped: bool,
    /// When the first group began to be encoded, and when the last one was.
    pub(super) encode: Option<[f64; 2]>,
    /// Whether it is among the shards that are sent at a time.
    has_begun: bool,
    made: VecDeque<Made>,
    lane: Option<u32>,
    in_flight: u32,
    offered: u32,
    sent: u32,
    bytes_raw: u64,
    bytes_wire: u64,
    moving: Option<[f64; 2]>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) shard: ShardId,
    pub(super) buffer: BufferId,
    pub(super) bytes: u64,
    pub(super) layer: u32,
    pub(super) tokens: [u32; 2],
}

impl Run<'_> {
    pub(super) fn accept(&mut self, order: Order) {
        let shard = Sending {
            order,
            groups: self.job.groups(order.layers, order.tokens),
            next: 0,
            held: 0,
            is_queued: false,
            is_making: false,
            is_stopped: false,
            encode: None,
            has_begun: false,
            made: VecDeque::new(),
            lane: None,
            in_flight: 0,
            offered: 0,
            sent: 0,
            bytes_raw: 0,
            bytes_wire: 0,
            moving: None,
        };
        self.sending.insert(order.shard, shard);
        let launch_s = self.job.declared_s(self.job.launch_s(true));
        self.queue.push(order.at_s + launch_s, Due::Ready(order.shard));
    }

    pub(super) fn begin_shard(&mut self, id: ShardId, at_s: f64) -> Result<(), Failure> {
        let open = self.sending.values().filter(|shard| shard.has_begun).count();
        let Some(shard) = self.sending.get_mut(&id) else { return Ok(()) };
        if open >= OPEN {
            self.waiting.push_back(id);
            return Ok(());
        }
        shard.has_begun = true;
        self.want_next(id, at_s);
        Ok(())
    }

    /// A group is encoded: it is offered, or dropped if its shard was cancelled.
    pub(super) fn made(&mut self, made: Made, at_s: f64) -> Result<(), Failure> {
        let is_pipelined = self.job.is_pipelined();
        let Some(shard) = self.sending.get_mut(&made.shard) else {
            self.buffers.give(made.buffer);
            return Ok(());
        };
        shard.is_making = false;
        if shard.is_stopped {
            shard.held -= 1;
            self.buffers.give(made.buffer);
            return self.end_if_stopped(made.shard);
        }
        shard.made.push_back(made);
        if let Some(encode) = &mut shard.encode {
            encode[1] = at_s;
        }
        let all_made = shard.next == shard.groups.count();
        if all_made {
            self.coder.leave(made.shard);
        }
        if is_pipelined || all_made {
            self.offer_next(made.shard)?;
        }
        self.want_next(made.shard, at_s);
        Ok(())
    }

    /// Puts groups of a shard on offer, as many as may be at a time.
    fn offer_next(&mut self, id: ShardId) -> Result<(), Failure> {
        let job = self.job;
        while let Some(shard) = self.sending.get_mut(&id).filter(|shard| shard.in_flight < WINDOW) {
            let Some(made) = shard.made.pop_front() else { break };
            let Order { request, part, dst, numbers, .. } = shard.order;
            let (is_first, groups) = (shard.offered == 0, shard.groups.count());
            let lanes = self.lanes.entry(dst).or_default();
            let lane = *shard.lane.get_or_insert_with(|| lanes.take());
            let key = TransferKey {
                segment: segment(request),
                stage: if job.codec.is_some() { Stage::Dynamic } else { Stage::Raw },
                src: self.rank,
                dst,
                number: lanes.number(lane, !is_first),
            };
            shard.offered += 1;
            shard.in_flight += 1;
            shard.bytes_wire += made.bytes;
            shard.bytes_raw += job.raw_bytes(made.tokens[1] - made.tokens[0]);
            self.offered.insert(key, (id, made.buffer));
            let bytes = region(made.buffer, made.bytes);
            let checksum = if job.setup.verifies { xxh3_64(&self.buffers.memory().read(&bytes)) } else { 0 };
            let sent = self.transport.send(Outgoing { key, bytes: Some(bytes), word: None, checksum });
            sent.map_err(|why| ended(self.rank, &why))?;
            let Made { bytes, layer, tokens, .. } = made;
            let offer = Offer { key, bytes, shard: id, groups, request, part, layer, tokens, numbers };
            self.tell(dst, Message::Offer(offer))?;
            if is_first {
                let now_s = self.now_s();
                if let Some(shard) = self.sending.get_mut(&id) {
                    shard.moving = Some([now_s, now_s]);
                }
                self.disturb(now_s, 0, 1);
            }
        }
        Ok(())
    }

    /// A send is complete, and its buffer is free.
    pub(super) fn sent(&mut self, key: TransferKey, end_s: f64) -> Result<(), Failure> {
        let end_s = self.run_s(end_s);
        let Some((id, buffer)) = self.offered.remove(&key) else {
            return Err(self.failure_of(key, FailureKind::Transport, "what it has not sent is there"));
        };
        self.buffers.give(buffer);
        if self.is_dead {
            return Ok(());
        }
        self.transport.count_progress();
        let Some(shard) = self.sending.get_mut(&id) else { return Ok(()) };
        shard.held -= 1;
        if self.transport.sends_early() {
            self.want_next(id, end_s);
            return Ok(());
        }
        self.taken(id, end_s)
    }

    /// The receiver has taken a group of a shard.
    pub(super) fn taken(&mut self, id: ShardId, end_s: f64) -> Result<(), Failure> {
        let Some(shard) = self.sending.get_mut(&id) else { return Ok(()) };
        shard.in_flight -= 1;
        shard.sent += 1;
        if let Some(moving) = &mut shard.moving {
            moving[1] = end_s;
        }
        if shard.is_stopped {
            return self.end_if_stopped(id);
        }
        if shard.sent == shard.groups.count() {
            self.note_sent(id);
            return self.forget(id);
        }
        self.offer_next(id)?;
        self.want_next(id, end_s);
        Ok(())
    }

    fn note_sent(&mut self, id: ShardId) {
        let Some(shard) = self.sending.get(&id) else { return };
        let passed = MovedShard {
            request: shard.order.request,
            peer: shard.order.dst,
            numbers: shard.order.numbers,
            bytes_raw: shard.bytes_raw,
            bytes_wire: shard.bytes_wire,
        };
        if let Some(encode) = shard.encode {
            self.span_log.coding(&passed, "encode", encode);
        }
        self.span_log.transfer(&passed, true, shard.moving.unwrap_or_default(), self.job.codec.is_some());
    }

    /// Cancels a shard: groups on offer are drained, others dropped.
    pub(super) fn stop(&mut self, id: ShardId) -> Result<(), Failure> {
        let Some(shard) = self.sending.get_mut(&id) else { return Ok(()) };
        if shard.offered == shard.groups.count() {
            // All of it is on its way, and ends by itself.
            return Ok(());
        }
        shard.is_stopped = true;
        let made = std::mem::take(&mut shard.made);
        shard.held -= made.len() as u32;
        made.iter().for_each(|made| self.buffers.give(made.buffer));
        self.end_if_stopped(id)
    }

    /// Ends a cancelled shard once nothing of it is under way.
    fn end_if_stopped(&mut self, id: ShardId) -> Result<(), Failure> {
        let Some(shard) = self.sending.get(&id) else { return Ok(()) };
        if shard.in_flight > 0 || shard.is_making {
            return Ok(());
        }
        let (dst, offered) = (shard.order.dst, shard.offered);
        if offered > 0 {
            self.tell(dst, Message::Withdrawn { shard: id, src: self.rank, offered })?;
        }
        self.forget(id)
    }

    /// Removes a shard; another one may begin.
    fn forget(&mut self, id: ShardId) -> Result<(), Failure> {
        let Some(shard) = self.sending.remove(&id) else { return Ok(()) };
        let at_s = self.now_s();
        self.coder.leave(id);
        shard.made.iter().for_each(|made| self.buffers.give(made.buffer));
        if let Some(lane) = shard.lane.filter(|_| shard.in_flight == 0) {
            self.lanes.entry(shard.order.dst).or_default().give(lane);
        }
        self.disturb(at_s, -i32::from(shard.encode.is_some()), -i32::from(shard.moving.is_some()));
        while shard.has_begun
            && let Some(next) = self.waiting.pop_front()
        {
            // Some were stopped while they waited.
            if self.sending.contains_key(&next) {
                return self.begin_shard(next, at_s);
            }
        }
        Ok(())
    }

    /// Removes all shards for a lost rank, or for all ranks; groups that are on offer stay so.
    pub(super) fn drop_shards_for(&mut self, rank: Option<Rank>) -> Result<(), Failure> {
        let is_meant = |shard: &&Sending| rank.is_none_or(|rank| shard.order.dst == rank);
        let ids: Vec<ShardId> =
            self.sending.values().filter(is_meant).map(|shard| shard.order.shard).collect();
        for id in ids {
            let Some(shard) = self.sending.get(&id) else { continue };
            let (dst, offered) = (shard.order.dst, shard.offered);
            if rank.is_none() && offered > 0 && offered < shard.groups.count() {
                self.tell(dst, Message::Withdrawn { shard: id, src: self.rank, offered })?;
            }
            self.forget(id)?;
        }
        Ok(())
    }
}
