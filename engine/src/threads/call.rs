//! Calls of a library's own collectives, of which this is one: all ranks meet when they have issued a call, work on one another's
//! memory, meet once more, and leave when the declared time is over.
//!
//! An All-Reduce has two steps: each rank adds up its shard, and then copies the sums of the others. Nobody leaves, or overwrites
//! what it gave, before all have what they get.

use std::collections::VecDeque;

use zipwire_schedule::machine::Machine;
use zipwire_schedule::plan::{CallKey, Region, Share};
use zipwire_schedule::{Collective, Failure, OpId, Rank, SizeId, sum};

use super::backend::{Due, Rendezvous};
use super::codec_work::{CodecOp, Coding};
use super::cpu_time::cpu_s;
use super::fabric::{Guest, Note, range};
use crate::drive::{Call, Completion, Outcome};

/// A call that this rank has issued. Times in seconds of this machine.
#[derive(Debug)]
pub(super) struct Ongoing {
    op: OpId,
    begin_s: f64,
    /// When the last rank issued it.
    met_s: Option<f64>,
    /// What is left to do.
    steps: VecDeque<Work>,
    sizes: Vec<(SizeId, u64)>,
}

/// What a rank does between two meetings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Copies what the others give.
    Gather,
    /// Adds up its own shard.
    Sum,
    /// Copies the sums of the others.
    GatherSums,
}

impl Work {
    fn of(collective: Collective) -> VecDeque<Self> {
        match collective {
            Collective::AllGather => [Self::Gather].into(),
            Collective::ReduceScatter => [Self::Sum].into(),
            Collective::AllReduce => [Self::Sum, Self::GatherSums].into(),
        }
    }
}

impl Rendezvous<'_> {
    /// Issues a call.
    pub(super) fn call(&mut self, machine: &Machine, op: OpId, begin_s: f64) -> Result<(), Failure> {
        if machine.ring_bytes(op) == 0 {
            // All ranks know that: nobody calls.
            self.complete_at(machine, begin_s, Outcome::Op(op, Vec::new()), begin_s);
            return Ok(());
        }
        let library = machine.library(op);
        let key = library.key(machine.op(op).segment);
        let steps = Work::of(library.collective);
        self.calls.insert(key, Ongoing { op, begin_s, met_s: None, steps, sizes: Vec::new() });
        self.join_call(machine, key, op)
    }

    /// Comes to the next point at which all ranks meet.
    fn join_call(&self, machine: &Machine, key: CallKey, op: OpId) -> Result<(), Failure> {
        let given = machine.library(op).inputs.iter().find_map(|share| share.content.brings());
        let size = given.map(|size| machine.size(size).expect("sizes are known before they are given"));
        let Some(guests) = self.fabric.join_call(key, Guest { rank: self.rank, op, size }) else {
            return Ok(());
        };
        let at_s = self.fabric.now_s();
        guests.iter().try_for_each(|guest| {
            self.notify(machine, op, guest.rank, Note::Met { key, at_s, guests: guests.clone() })
        })
    }

    /// All ranks have met: does the next step, or ends the call if none is left.
    pub(super) fn meet_in_call(
        &mut self,
        machine: &Machine,
        key: CallKey,
        at_s: f64,
        guests: &[Guest],
    ) -> Result<(), Failure> {
        let ongoing = self.calls.get_mut(&key).expect("ranks meet in calls that they have issued");
        let (op, is_first) = (ongoing.op, ongoing.met_s.is_none());
        let met_s = *ongoing.met_s.get_or_insert(at_s);
        let step = ongoing.steps.pop_front();
        self.fabric.count_progress();
        if is_first {
            self.overlap.begin_call(at_s);
        }
        let Some(step) = step else {
            let bytes = machine.ring_bytes(op);
            let seconds = self.declared_s(|pace| pace.host.call_s(machine.library(op), bytes));
            let moved_s = at_s.max(met_s + seconds);
            self.due.push((moved_s, Due::Return { key, moved_s }));
            return Ok(());
        };
        match step {
            Work::Gather => {
                let sizes = self.gather(machine, op, guests);
                self.calls.entry(key).and_modify(|ongoing| ongoing.sizes = sizes);
            }
            Work::Sum => self.sum(machine, op, guests),
            Work::GatherSums => self.gather_sums(machine, op, guests),
        }
        self.join_call(machine, key, op)
    }

    /// A call has moved everything, and its time is over. The host knows of sizes later.
    pub(super) fn return_from_call(&mut self, key: CallKey, moved_s: f64) {
        let ongoing = self.calls.remove(&key).expect("calls end once");
        let Ongoing { op, begin_s, met_s, sizes, .. } = ongoing;
        self.overlap.end_call(moved_s);
        let sync_s = if sizes.is_empty() { 0.0 } else { self.declared_s(|pace| pace.host.sync_s) };
        let dilation = self.dilation();
        let met_s = met_s.expect("calls begin before they end") / dilation;
        let outcome = Outcome::Call(Call { op, sizes, met_s, moved_s: moved_s / dilation });
        // The moment that all ranks agree on, and not that at which this thread woke up.
        let end_s = moved_s + sync_s;
        let completion = Completion { outcome, begin_s: begin_s / dilation, end_s: end_s / dilation };
        self.due.push((end_s, Due::Completion(completion)));
    }

    /// Copies what the others give; the sizes that come with it.
    fn gather(&self, machine: &Machine, op: OpId, guests: &[Guest]) -> Vec<(SizeId, u64)> {
        let mut sizes = Vec::new();
        for Share { chunk, content } in &machine.library(op).outputs {
            let guest = &guests[chunk.origin.index()];
            let given = self.fabric.library(guest).inputs.iter().find(|share| share.chunk == *chunk);
            let given = given.expect("plans are checked: what one rank gets another one gives");
            if let (Some(from), Some(to)) = (given.content.region(), content.region()) {
                // All but a size behind it, which is no region.
                let len = if content.brings().is_some() { to.len } else { machine.content_bytes(content) };
                self.copy_from(guest.rank, Region { len, ..from }, to);
            }
            sizes.extend(content.brings().zip(guest.size));
        }
        sizes
    }

    /// Adds up the contributions of all ranks to the shard of this one.
    fn sum(&mut self, machine: &Machine, op: OpId, guests: &[Guest]) {
        let of_shard = |share: &&Share| share.chunk.shard() == self.rank;
        let Some(own) = machine.library(op).outputs.iter().find(of_shard) else { return };
        let (total, to) = own.chunk.sum.zip(own.content.values()).expect("reductions move sums of values");
        let began_s = self.fabric.now_s();
        let permit = self.permits.take();
        let (waiting_s, begin_cpu_s) = (self.fabric.now_s() - began_s, cpu_s());
        let mut sums = vec![0.0; range(&to).len() / total.dtype().width()];
        for (index, origin) in total.origins().enumerate() {
            let given = self.fabric.library(&guests[origin.index()]).inputs.iter().find(of_shard);
            let from = given.and_then(|share| share.content.values());
            let from = from.expect("plans are checked: all contribute to what is added up");
            let combine = if index == 0 { sum::begin } else { sum::add };
            let buffer = self.fabric.memories[origin.index()].read(from.buffer);
            combine(&mut sums, total.dtype(), &buffer[range(&from)]);
        }
        sum::store(&sums, total.dtype(), &mut self.memory().write(to.buffer)[range(&to)]);
        drop(permit);
        let (rank, segment, coding) = (self.rank, machine.op(op).segment, Coding::Library);
        let (bytes_raw, work_s) = (to.len * total.count() as u64, cpu_s() - begin_cpu_s);
        self.codec_work.add(&CodecOp { rank, segment, coding, bytes_raw, work_s, waiting_s });
    }

    /// Copies the sums of the others from where they were made.
    fn gather_sums(&self, machine: &Machine, op: OpId, guests: &[Guest]) {
        for share in machine.library(op).outputs.iter().filter(|share| share.chunk.shard() != self.rank) {
            let guest = &guests[share.chunk.shard().index()];
            let made = self.fabric.library(guest).outputs.iter().find(|other| other.chunk == share.chunk);
            if let Some((from, to)) = made.and_then(|made| made.content.values()).zip(share.content.values())
            {
                self.copy_from(guest.rank, from, to);
            }
        }
    }

    fn copy_from(&self, rank: Rank, from: Region, to: Region) {
        let _span = tracing::info_span!("copy", bytes = from.len).entered();
        let (source, mut target) = self.fabric.lock((rank, from.buffer), (self.rank, to.buffer));
        target[range(&Region { len: from.len, ..to })].copy_from_slice(&source[range(&from)]);
    }
}
