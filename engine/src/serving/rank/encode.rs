//! Writes groups of a cache into buffers, coded or uncoded.

use zipwire_kv::Place;
use zipwire_schedule::{BufferId, Failure, FailureKind};

use super::coder::Task;
use super::send::Made;
use super::{Due, Run};
use crate::host::cpu_time::cpu_s;
use crate::serving::buffers::region;
use crate::serving::message::ShardId;
use crate::serving::values::GroupId;

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

    /// Makes the next group of a shard.
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
