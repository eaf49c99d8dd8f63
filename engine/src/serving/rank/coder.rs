//! The coder of a rank, which does one task after another: encodes groups where caches are computed, and decodes them where they arrive.

use std::collections::VecDeque;

use zipwire_kv::KvError;
use zipwire_schedule::{BufferId, Failure, FailureKind};

use super::receive::Receiving;
use super::sharing::Sharing;
use super::{Due, Run};
use crate::host::cpu_time::cpu_s;
use crate::serving::buffers::region;
use crate::serving::job::Job;
use crate::serving::message::{Offer, ShardId};
use crate::serving::values::GroupId;

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
        Self { tasks: VecDeque::new(), sharing: Sharing::default(), turn: None, pages }
    }

    pub(super) fn push(&mut self, task: Task) {
        self.tasks.push_back(task);
    }

    /// Ends a shard's turn at the coder.
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
    /// Codes the next group, if there is one; whether there was.
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

    /// Drops all tasks.
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
            return self.agenda.push(now_s, due);
        }
        if now_s > ready_s + seconds {
            self.totals.late.0 += 1;
            self.totals.late.1 += now_s - ready_s - seconds;
        }
        self.coder.sharing.begin(ready_s, seconds, due);
    }

    /// Decodes a group, unless its shard was cancelled.
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

    /// Compares the pages with regenerated values.
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
