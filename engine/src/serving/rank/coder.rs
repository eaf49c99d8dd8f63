//! The coder of a rank, which does one thing after another: encodes groups where caches are computed, and decodes them where they go.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zipwire_kv::KvError;
use zipwire_schedule::{BufferId, Failure, FailureKind};

use super::receive::Receiving;
use super::{Due, Run};
use crate::host::cpu_time::cpu_s;
use crate::serving::buffers::region;
use crate::serving::job::Job;
use crate::serving::message::{Offer, ShardId};
use crate::serving::values::GroupId;

/// What is to be coded, and what from.
///
/// Shards share the coder evenly: groups have tags that say how many bytes a coder that serves all shards at once would have coded of each
/// shard when the group is through, and the least one is next (self-clocked fair queueing, Golestani 1994). Shards that are coded as a
/// whole come in the order in which they were there.
pub(super) struct Coder {
    queue: BinaryHeap<Reverse<Queued>>,
    queued: u64,
    /// The tag of what was coded last.
    tag: u64,
    is_busy: bool,
    /// When it has done what it does, or did.
    free_s: f64,
    /// The values of one group, plane by plane: what a rank that computes has in its cache, and one that decodes gets into it.
    pub(super) pages: Vec<Vec<u8>>,
}

/// What waits, by its tag; what has the same one keeps its order.
struct Queued {
    tag: u64,
    number: u64,
    task: Task,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.tag, self.number).cmp(&(other.tag, other.number))
    }
}

/// Something to code, and from when on.
#[derive(Debug)]
pub(super) enum Task {
    /// The next group of a shard.
    Encode(ShardId, f64),
    /// A group that has come into a buffer.
    Decode(Offer, BufferId, f64),
}

impl Coder {
    pub(super) fn new(job: &Job<'_>) -> Self {
        let geometry = &job.setup.geometry;
        let bytes = geometry.row_len() * geometry.group_tokens() as usize;
        let pages = vec![vec![0; bytes]; geometry.planes()];
        let (queue, queued, tag) = (BinaryHeap::new(), 0, 0);
        Self { queue, queued, tag, is_busy: false, free_s: 0.0, pages }
    }

    /// Puts something of so many bytes into the queue. `last` is the tag of what was queued before of the same shard; its own is returned.
    pub(super) fn push(&mut self, task: Task, last: Option<u64>, bytes: u64, is_pipelined: bool) -> u64 {
        let tag = match last {
            _ if is_pipelined => last.unwrap_or(0).max(self.tag) + bytes,
            Some(tag) => tag,
            None => self.queued,
        };
        self.queue.push(Reverse(Queued { tag, number: self.queued, task }));
        self.queued += 1;
        tag
    }

    /// It has done what it did at `at_s`.
    pub(super) fn end(&mut self, at_s: f64) {
        (self.is_busy, self.free_s) = (false, at_s);
    }

    /// When something that may begin at `ready_s` begins.
    pub(super) fn begin_s(&self, ready_s: f64) -> f64 {
        ready_s.max(self.free_s)
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy && self.queue.is_empty()
    }
}

impl Run<'_> {
    /// Codes the next group, if there is one and the coder is free. Whether it has.
    pub(super) fn code_next(&mut self) -> Result<bool, Failure> {
        if self.coder.is_busy {
            return Ok(false);
        }
        let Some(Reverse(Queued { tag, task, .. })) = self.coder.queue.pop() else { return Ok(false) };
        self.coder.tag = tag;
        match task {
            Task::Encode(shard, ready_s) => self.encode(shard, ready_s).map(|()| true),
            Task::Decode(offer, buffer, ready_s) => {
                let decoded = self.decode(&offer, buffer, ready_s);
                self.buffers.give(buffer);
                decoded.map(|()| true)
            }
        }
    }

    /// Lets go of all that is to be coded.
    pub(super) fn empty_coder(&mut self) {
        for Reverse(queued) in std::mem::take(&mut self.coder.queue) {
            if let Task::Decode(_, buffer, _) = queued.task {
                self.buffers.give(buffer);
            }
        }
    }

    /// The coder has done its real work, and goes on until the declared time is over.
    pub(super) fn occupy(&mut self, begin_s: f64, declared_s: f64, due: Due) -> f64 {
        let (now_s, declared_s) = (self.now_s(), begin_s + self.job.declared_s(declared_s));
        if self.job.setup.pace.is_some() && now_s > declared_s {
            self.totals.late.0 += 1;
            self.totals.late.1 += now_s - declared_s;
        }
        let end_s = declared_s.max(now_s);
        self.coder.is_busy = true;
        self.agenda.push(end_s, due);
        end_s
    }

    /// Decodes a group that somebody waits for.
    fn decode(&mut self, offer: &Offer, buffer: BufferId, ready_s: f64) -> Result<(), Failure> {
        if !self.receiving.get(&offer.shard).is_some_and(Receiving::is_wanted) {
            return Ok(());
        }
        let begin_s = self.coder.begin_s(ready_s);
        let permit = self.permits.take();
        let begin_cpu_s = cpu_s();
        let planes = self.read_group(offer, buffer);
        self.totals.decode_s += cpu_s() - begin_cpu_s;
        let checked = planes.map_err(|error| error.to_string()).and_then(|()| self.check_pages(offer));
        drop(permit);
        checked.map_err(|why| self.failure_of(offer.key, FailureKind::Corrupt, why))?;
        self.transport.count_progress();
        let Some(shard) = self.receiving.get_mut(&offer.shard) else { return Ok(()) };
        let cost = self.job.setup.coding.as_ref().expect("what is decoded is coded").cost;
        let launch_s = if shard.is_last() { self.job.launch_s(false) } else { 0.0 };
        let raw = self.job.raw_bytes(offer.tokens[1] - offer.tokens[0]);
        shard.decode.get_or_insert([begin_s, begin_s]);
        let seconds = launch_s + raw as f64 / cost.decode_bytes_per_s;
        self.occupy(begin_s, seconds, Due::Decoded(offer.shard));
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

    /// Compares the pages with what must have come.
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

/// Compares planes of a group with what must have come.
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
