//! The coder of a rank, which does one task after another: encodes groups where caches are computed, and decodes them where they arrive. In a paced
//! run groups of several shards share its declared time evenly ([`Sharing`]): with n of them, each takes n times as long.

use std::collections::VecDeque;

use zipwire_kv::{KvError, Place};
use zipwire_schedule::{BufferId, Failure, FailureKind};

use super::receive::Receiving;
use super::send::Made;
use super::{Due, Run};
use crate::event_queue::EventQueue;
use crate::host::cpu_s;
use crate::serving::groups::{GroupId, region};
use crate::serving::message::{Offer, ShardId};
use crate::serving::setup::Job;

/// Queue of groups to encode or decode. Of each shard one group is coded at a time.
pub(super) struct Coder {
    tasks: VecDeque<Task>,
    /// Groups that have really been coded and whose declared time is not over.
    pub(super) sharing: Sharing,
    /// The shard that has the coder, where shards are coded as a whole.
    turn: Option<ShardId>,
    /// The values of one group, plane by plane: they stand for the pages of the rank's cache.
    pub(super) pages: Vec<Vec<u8>>,
}

/// A group to code, and the earliest time.
#[derive(Debug)]
pub(super) enum Task {
    /// The next group of a shard.
    Encode(ShardId, f64),
    /// A group that has come into a buffer.
    Decode(Offer, BufferId, f64),
}

impl Task {
    fn shard(&self) -> ShardId {
        match self {
            Self::Encode(shard, _) => *shard,
            Self::Decode(offer, ..) => offer.shard,
        }
    }
}

impl Coder {
    pub(super) fn new(job: &Job<'_>) -> Self {
        let geometry = &job.setup.geometry;
        let bytes = geometry.row_len() * geometry.group_tokens() as usize;
        let pages = vec![vec![0; bytes]; geometry.planes()];
        Self { tasks: VecDeque::new(), sharing: Sharing::new(), turn: None, pages }
    }

    pub(super) fn push(&mut self, task: Task) {
        self.tasks.push_back(task);
    }

    pub(super) fn leave(&mut self, shard: ShardId) {
        self.turn = self.turn.filter(|turn| *turn != shard);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.sharing.is_empty() && self.tasks.is_empty()
    }

    /// Next task: any, or where shards are coded as a whole, one of the shard whose turn it is.
    fn next(&mut self, is_pipelined: bool) -> Option<Task> {
        if is_pipelined {
            return self.tasks.pop_front();
        }
        let turn = self.turn;
        let index = self.tasks.iter().position(|task| turn.is_none_or(|turn| turn == task.shard()))?;
        let task = self.tasks.remove(index)?;
        self.turn = Some(task.shard());
        Some(task)
    }
}

impl Run<'_> {
    /// Codes the next group, if there is one; returns whether there was.
    pub(super) fn code_next(&mut self) -> Result<bool, Failure> {
        match self.coder.next(self.job.is_pipelined()) {
            None => Ok(false),
            Some(Task::Encode(shard, ready_s)) => self.encode(shard, ready_s).map(|()| true),
            Some(Task::Decode(offer, buffer, ready_s)) => {
                let decoded = self.decode(&offer, buffer, ready_s);
                self.buffers.give(buffer);
                decoded.map(|()| true)
            }
        }
    }

    pub(super) fn empty_coder(&mut self) {
        for task in std::mem::take(&mut self.coder.tasks) {
            if let Task::Decode(_, buffer, _) = task {
                self.buffers.give(buffer);
            }
        }
        self.coder.turn = None;
    }

    /// Keeps the coder busy for the declared time of a group that has really been coded; it was ready at `ready_s`.
    pub(super) fn occupy(&mut self, ready_s: f64, seconds: f64, due: Due) {
        let now_s = self.now_s();
        if self.job.setup.pace.is_none() {
            return self.queue.push(now_s, due);
        }
        if now_s > ready_s + seconds {
            self.totals.late.0 += 1;
            self.totals.late.1 += now_s - ready_s - seconds;
        }
        self.coder.sharing.begin(ready_s, seconds, due);
    }

    fn decode(&mut self, offer: &Offer, buffer: BufferId, ready_s: f64) -> Result<(), Failure> {
        if !self.receiving.get(&offer.shard).is_some_and(Receiving::is_wanted) {
            self.coder.leave(offer.shard);
            return Ok(());
        }
        let permit = self.permits.take();
        let begin_cpu_s = cpu_s();
        let planes = self.read_group(offer, buffer);
        let checked = planes.map_err(|error| error.to_string()).and_then(|()| self.check_pages(offer));
        self.totals.decode_s += cpu_s() - begin_cpu_s;
        drop(permit);
        checked.map_err(|why| self.failure_of(offer.key, FailureKind::Corrupt, why))?;
        self.transport.count_progress();
        let Some(shard) = self.receiving.get_mut(&offer.shard) else { return Ok(()) };
        let cost = self.job.setup.coding.as_ref().expect("what is decoded is coded").cost;
        let launch_s = if shard.is_last() { self.job.launch_s(false) } else { 0.0 };
        let raw = self.job.raw_bytes(offer.tokens[1] - offer.tokens[0]);
        shard.decode.get_or_insert([ready_s, ready_s]);
        let seconds = launch_s + raw as f64 / cost.decode_bytes_per_s;
        self.occupy(ready_s, seconds, Due::Decoded(offer.shard));
        Ok(())
    }

    fn read_group(&mut self, offer: &Offer, buffer: BufferId) -> Result<(), KvError> {
        let codec = self.job.codec.as_ref().expect("what is decoded is coded");
        let len = self.job.setup.geometry.row_len() * (offer.tokens[1] - offer.tokens[0]) as usize;
        let _span = tracing::info_span!("decode", bytes = offer.bytes).entered();
        let group = self.buffers.memory().read(&region(buffer, offer.bytes));
        let mut planes: Vec<&mut [u8]> = self.coder.pages.iter_mut().map(|page| &mut page[..len]).collect();
        let found = codec.decode(&group, &mut planes)?;
        let is_it = found.place.layer == offer.layer && found.place.token == u64::from(offer.tokens[0]);
        if is_it { Ok(()) } else { Err(KvError::Damaged { what: "it is another group than was offered" }) }
    }

    fn check_pages(&mut self, offer: &Offer) -> Result<(), String> {
        if !self.job.setup.verifies {
            return Ok(());
        }
        let len = self.job.setup.geometry.row_len() * (offer.tokens[1] - offer.tokens[0]) as usize;
        let pages = self.coder.pages.iter().map(|page| &page[..len]);
        check(self.job, offer, pages)?;
        self.totals.bytes_verified += self.job.raw_bytes(offer.tokens[1] - offer.tokens[0]);
        Ok(())
    }
}

/// Compares planes of a group with regenerated values.
pub(super) fn check<'p>(
    job: &Job<'_>,
    offer: &Offer,
    planes: impl Iterator<Item = &'p [u8]>,
) -> Result<(), String> {
    let id = GroupId { request: offer.request, part: offer.part, layer: offer.layer, token: offer.tokens[0] };
    for (plane, bytes) in planes.enumerate() {
        if let Some(offset) = job.values.mismatch(&id, plane, bytes) {
            let Offer { layer, tokens: [begin, end], key, .. } = offer;
            return Err(format!(
                "byte {offset} of plane {plane} of tokens {begin} to {end} in layer {layer} is not what rank {} had",
                key.src
            ));
        }
    }
    Ok(())
}

impl Run<'_> {
    /// Puts the next group of a shard into the coder's queue, if there is one and there is room for it.
    pub(super) fn want_next(&mut self, id: ShardId, ready_s: f64) {
        let job = self.job;
        let Some(shard) = self.sending.get_mut(&id) else { return };
        let count = shard.groups.count();
        if shard.is_queued
            || shard.is_making
            || shard.is_stopped
            || shard.next >= count
            || shard.held >= job.window(count)
        {
            return;
        }
        shard.is_queued = true;
        self.coder.push(Task::Encode(id, ready_s));
    }

    pub(super) fn encode(&mut self, id: ShardId, ready_s: f64) -> Result<(), Failure> {
        let job = self.job;
        let Some(shard) = self.sending.get_mut(&id) else {
            self.coder.leave(id);
            return Ok(());
        };
        shard.is_queued = false;
        if shard.is_stopped {
            self.coder.leave(id);
            return Ok(());
        }
        let (index, order) = (shard.next, shard.order);
        let (layer, tokens) = shard.groups.get(index);
        shard.next += 1;
        shard.held += 1;
        shard.is_making = true;
        let group = GroupId { request: order.request, part: order.part, layer, token: tokens[0] };
        let raw = job.raw_bytes(tokens[1] - tokens[0]);
        let buffer = self.buffer()?;
        let permit = self.permits.take();
        let begin_cpu_s = cpu_s();
        let written = self.write_group(&group, tokens, buffer);
        self.totals.encode_s += cpu_s() - begin_cpu_s;
        drop(permit);
        let bytes = written.map_err(|why| self.failure(FailureKind::Device, why))?;
        self.totals.groups += 1;
        self.transport.count_progress();
        let made = Made { shard: id, buffer, bytes, layer, tokens };
        let Some(coding) = &job.setup.coding else {
            return self.made(made, self.now_s());
        };
        let launch_s = if index == 0 { job.launch_s(false) } else { 0.0 };
        let seconds = launch_s + raw as f64 / coding.cost.encode_bytes_per_s;
        self.occupy(ready_s, seconds, Due::Encoded(made));
        if index == 0 {
            if let Some(shard) = self.sending.get_mut(&id) {
                shard.encode = Some([ready_s, ready_s]);
            }
            self.disturb(ready_s, 1, 0);
        }
        Ok(())
    }

    /// Writes a group into a buffer; returns its bytes.
    fn write_group(&mut self, group: &GroupId, tokens: [u32; 2], buffer: BufferId) -> Result<u64, String> {
        let job = self.job;
        let len = job.setup.geometry.row_len() * (tokens[1] - tokens[0]) as usize;
        let Some(codec) = &job.codec else {
            let _span = tracing::info_span!("fill", bytes = len).entered();
            let bytes = job.raw_bytes(tokens[1] - tokens[0]);
            let mut out = self.buffers.memory().write(&region(buffer, bytes));
            for (plane, out) in out.chunks_mut(len).enumerate() {
                job.values.fill(group, plane, out);
            }
            return Ok(bytes);
        };
        for (plane, page) in self.coder.pages.iter_mut().enumerate() {
            job.values.fill(group, plane, &mut page[..len]);
        }
        let _span = tracing::info_span!("encode", bytes = len).entered();
        let planes: Vec<&[u8]> = self.coder.pages.iter().map(|page| &page[..len]).collect();
        let place = Place { layer: group.layer, token: u64::from(group.token) };
        let mut out = self.buffers.memory().write(&region(buffer, job.buffer_bytes()));
        codec.encode(place, &planes, &mut out).map(|bytes| bytes as u64).map_err(|error| error.to_string())
    }
}

/// Groups that are coded at the same time.
pub(super) struct Sharing {
    /// Each ends when `had_s` has come to its time.
    groups: EventQueue<Due>,
    /// Coder seconds until `since_s` of a group that was present all the time.
    had_s: f64,
    since_s: f64,
}

impl Sharing {
    fn new() -> Self {
        Self { groups: EventQueue::new(), had_s: 0.0, since_s: 0.0 }
    }

    /// Adds a group that takes `seconds` alone; it begins no earlier than the last end.
    pub(super) fn begin(&mut self, at_s: f64, seconds: f64, due: Due) {
        self.advance(at_s.max(self.since_s));
        self.groups.push(self.had_s + seconds, due);
    }

    /// When the next group ends; infinite if there is none.
    pub(super) fn next_s(&self) -> f64 {
        if self.groups.is_empty() {
            return f64::INFINITY;
        }
        self.since_s + (self.groups.next_s() - self.had_s).max(0.0) * self.groups.len() as f64
    }

    /// Event at the end of the next group, if that is over, and when it ended.
    pub(super) fn pop(&mut self, now_s: f64) -> Option<(f64, Due)> {
        let next_s = self.next_s();
        if next_s > now_s {
            return None;
        }
        self.advance(next_s);
        self.groups.pop(f64::INFINITY).map(|(_, due)| (next_s, due))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Due> {
        self.groups.drain()
    }

    fn advance(&mut self, to_s: f64) {
        if !self.groups.is_empty() {
            self.had_s += (to_s - self.since_s) / self.groups.len() as f64;
        }
        self.since_s = to_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_take_longer_while_there_are_others() {
        let mut sharing = Sharing::new();
        sharing.begin(1.0, 4.0, Due::Computed(0));
        assert_eq!(sharing.next_s(), 5.0);
        // Two of the first one's seconds are left: until 4 it has one of them, and the short one ends.
        sharing.begin(3.0, 0.5, Due::Computed(1));
        assert!(sharing.pop(3.9).is_none());
        assert!(matches!(sharing.pop(9.0), Some((4.0, Due::Computed(1)))));
        assert!(matches!(sharing.pop(9.0), Some((5.5, Due::Computed(0)))));
        assert!(sharing.is_empty() && sharing.next_s().is_infinite());
        // News of the past count from the last end on.
        sharing.begin(5.0, 1.0, Due::Computed(2));
        assert_eq!(sharing.next_s(), 6.5);
    }
}
