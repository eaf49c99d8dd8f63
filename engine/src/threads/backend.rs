//! Carries out the ops of one rank on its thread.
//!
//! A transfer is a rendezvous: the sender offers a region of its memory, and the receiver copies from it when
//! it has offered its own end. Nothing is sent eagerly, so windows mean what they mean in the simulator.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zipwire_codec::Codec;
use zipwire_schedule::machine::{Capabilities, Direction, Machine, Readiness, TransferId, TransferOrder};
use zipwire_schedule::plan::{
    self, Addition, Batch, Block, CallKey, Content, Copy, Gather, Op, OpKind, Reduce, Region, TransferKey,
};
use zipwire_schedule::{CodecCost, Failure, FailureKind, Lane, OpId, Rank, SizeId, sum};
use zipwire_traces::Payload;

use super::call::Ongoing;
use super::codec_work::{CodecOp, CodecWork, Coding};
use super::cpu_time::cpu_s;
use super::fabric::{Fabric, Locked, Memory, Note, Offer, Offered, range};
use super::overlap::Overlap;
use super::pace::{Pace, Parcel, Permits};
use crate::chunks::{Chunk, Chunks};
use crate::complaints::{Complaints, Standstill, other_content, other_length, stopped};
use crate::drive::{Action, Backend, Completion, Event, Outcome, failure};
use crate::meeting::Mail;

/// Longest sleep between two looks at whether the run is over.
const LOOK: Duration = Duration::from_millis(50);

/// What a paced run adds to a rank.
pub(super) struct Pacing<'a> {
    pub(super) pace: &'a Pace,
    /// To the thread that moves time along the links.
    pub(super) wire: Sender<Parcel>,
    pub(super) iteration: u32,
}

/// A moment at which something happens on this rank.
#[derive(Debug)]
pub(super) enum Due {
    Completion(Completion),
    Announcement(TransferId),
    Offer(TransferId),
    /// A call of the library has moved everything.
    Return {
        key: CallKey,
        moved_s: f64,
    },
}

/// What a transfer has brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    size: Option<u64>,
    /// Whether its checksum fits.
    is_intact: bool,
}

/// One rank of one iteration.
pub(super) struct Rendezvous<'a> {
    pub(super) fabric: &'a Fabric<'a>,
    pub(super) rank: Rank,
    pub(super) inbox: Receiver<Mail<Note>>,
    pub(super) codec: Option<&'a dyn Codec>,
    pub(super) payload: &'a Payload,
    pub(super) chunks: &'a Chunks,
    pub(super) complaints: Complaints<'a>,
    pub(super) stuck_after: Duration,
    /// Codec ops that may work at a time.
    pub(super) permits: &'a Permits,
    /// `None` where links are as fast as memory.
    pub(super) pacing: Option<Pacing<'a>>,
    /// When each open exchange was opened.
    pub(super) opened_s: HashMap<OpId, f64>,
    /// Ends of this rank that wait for a note from the peer.
    pub(super) offered: HashMap<TransferKey, TransferId>,
    /// Offers of peers that this rank has not asked for yet.
    pub(super) early: HashMap<TransferKey, Offer>,
    pub(super) events: VecDeque<Event>,
    /// What happens later, with its time in seconds; not sorted.
    pub(super) due: Vec<(f64, Due)>,
    /// A compute phase that other lanes slow down.
    pub(super) overlap: Overlap,
    /// Calls of the library that this rank has issued and that have not ended.
    pub(super) calls: HashMap<CallKey, Ongoing>,
    /// Transfers on their way along the paced links.
    pub(super) moving: HashMap<TransferKey, (TransferId, Copied)>,
    /// Bytes of transfers that are to arrive with a flipped bit.
    pub(super) corrupted: HashMap<TransferKey, Vec<u64>>,
    /// When the last size of each open exchange arrived.
    pub(super) sizes_s: HashMap<OpId, f64>,
    /// Bytes that were compared with what was sent.
    pub(super) bytes_verified: u64,
    pub(super) codec_work: CodecWork,
}

impl Backend for Rendezvous<'_> {
    fn capabilities(&self) -> Capabilities {
        capabilities(self.pacing.is_some())
    }

    /// Seconds of the cluster since the start of the run.
    fn now_s(&self) -> f64 {
        self.fabric.now_s() / self.dilation()
    }

    fn submit(&mut self, machine: &Machine, action: Action) -> Result<(), Failure> {
        match action {
            Action::Issue(op) => self.issue(machine, op),
            Action::Announce(transfer) => self.when_open(machine, transfer.op, Due::Announcement(transfer)),
            Action::Transfer(transfer) => self.when_open(machine, transfer.op, Due::Offer(transfer)),
            Action::Close(op) => {
                let begin_s = self.opened_s.remove(&op).expect("exchanges are opened before they are closed");
                let launch_s =
                    if machine.moves_nothing(op) { 0.0 } else { self.declared_s(|pace| pace.host.launch_s) };
                let launched_s = begin_s + launch_s;
                let sync_s = self.declared_s(|pace| pace.host.sync_s);
                let known_s = self.sizes_s.remove(&op).map_or(launched_s, |arrived_s| arrived_s + sync_s);
                self.complete_at(machine, launched_s.max(known_s), Outcome::Op(op, Vec::new()), begin_s);
                Ok(())
            }
        }
    }

    fn wait(&mut self, machine: &Machine, until_s: Option<f64>) -> Result<Option<Event>, Failure> {
        let until_s = until_s.map(|until_s| until_s * self.dilation());
        let mut standstill = Standstill::new(self.fabric);
        loop {
            if self.fabric.is_cancelled() {
                return Err(stopped(machine));
            }
            // What has begun while this thread was coding, and slows compute, comes before compute is found to have ended.
            while let Some(mail) = (!self.overlap.is_none()).then(|| self.inbox.try_recv().ok()).flatten() {
                self.take(machine, &mail)?;
            }
            self.let_due_happen(machine)?;
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let now_s = self.fabric.now_s();
            if until_s.is_some_and(|until_s| now_s >= until_s) {
                return Ok(None);
            }
            let due_s = self.due.iter().map(|(time_s, _)| *time_s).chain(self.overlap.end_s());
            let next_s = due_s.chain(until_s).fold(f64::INFINITY, f64::min);
            let sleep = Duration::try_from_secs_f64((next_s - now_s).max(0.0)).unwrap_or(LOOK).min(LOOK);
            match self.inbox.recv_timeout(sleep) {
                Ok(mail) => self.take(machine, &mail)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(failure(machine, None, FailureKind::PeerLost, "all peers are gone"));
                }
            }
            if until_s.is_some() || !self.due.is_empty() || self.overlap.end_s().is_some() {
                // Something is going to happen here, and others may wait for it: no standstill on any rank.
                self.fabric.count_progress();
            }
            if standstill.lasts(self.fabric, self.stuck_after) {
                let op = self.opened_s.keys().min().copied();
                return Err(self.complaints.stuck(machine, op, self.stuck_after));
            }
        }
    }

    fn corrupt(&mut self, transfer: TransferKey, byte: u64) {
        self.corrupted.entry(transfer).or_default().push(byte);
    }

    fn abort(&mut self, failure: &Failure) {
        self.fabric.abort(failure);
    }
}

/// Threads complete ops and let the machine order transfers; without paced links their clock is no measure.
pub(super) fn capabilities(paced: bool) -> Capabilities {
    Capabilities { readiness: Readiness::Completed, transfer_order: TransferOrder::Machine, timed: paced }
}

impl<'a> Rendezvous<'a> {
    /// Fills what the model would have computed before the iteration, and poisons what peers and codec fill.
    pub(super) fn prepare(&self) {
        let _span = tracing::info_span!("prepare").entered();
        self.chunks.poisoned.iter().for_each(|region| self.memory().poison(region));
        self.chunks.filled_before.iter().for_each(|chunk| self.fill(chunk));
    }

    /// Checks what no later op has consumed.
    pub(super) fn finish(&mut self, machine: &Machine) -> Result<(), Failure> {
        let _span = tracing::info_span!("check").entered();
        self.chunks.checked_at_end.iter().try_for_each(|chunk| self.check(machine, None, chunk))
    }

    fn issue(&mut self, machine: &Machine, op: OpId) -> Result<(), Failure> {
        let begin_s = self.fabric.now_s();
        let Op { segment, kind, .. } = machine.op(op);
        // Whatever works on bytes has a core for itself: then the time that the codec takes is its own.
        let permit = tracing::info_span!("wait for a core").in_scope(|| self.permits.take());
        let waiting_s = self.fabric.now_s() - begin_s;
        if let Some(chunks) = self.chunks.checked_before.get(&op) {
            let _span = tracing::info_span!("check").entered();
            chunks.iter().try_for_each(|chunk| self.check(machine, Some(op), chunk))?;
        }
        if kind.lane() == Lane::Codec {
            self.overlap.code(begin_s, true);
        }
        let begin_cpu_s = cpu_s();
        let (sizes, seconds, coding) = match kind {
            OpKind::Compute(_) => {
                let _span = tracing::info_span!("fill").entered();
                self.chunks.filled_by.get(&op).into_iter().flatten().for_each(|chunk| self.fill(chunk));
                let iteration = self.pacing.as_ref().map_or(0, |pacing| pacing.iteration);
                let compute_s = |pace: &Pace| {
                    pace.host.launch_s
                        + pace.durations.get(iteration, segment.index(), machine.program().rank)
                };
                (Vec::new(), self.declared_s(compute_s), None)
            }
            OpKind::Split(batch) => {
                self.split(batch);
                let split_s = |pace: &Pace| pace.codec_s(batch.bytes_raw(), CodecCost::split_bytes_per_s);
                (Vec::new(), self.declared_s(split_s), Some((Coding::Split, batch.bytes_raw())))
            }
            OpKind::Encode(batch) => {
                let sizes = self.encode(machine, op, batch)?;
                let codec_s = |pace: &Pace| pace.codec_s(batch.bytes_raw(), |cost| cost.encode_bytes_per_s);
                (sizes, self.declared_s(codec_s), Some((Coding::Encode, batch.bytes_raw())))
            }
            OpKind::Decode(batch) => {
                self.decode(machine, op, batch)?;
                let codec_s = |pace: &Pace| pace.codec_s(batch.bytes_raw(), |cost| cost.decode_bytes_per_s);
                (Vec::new(), self.declared_s(codec_s), Some((Coding::Decode, batch.bytes_raw())))
            }
            OpKind::Reduce(reduce) => {
                self.reduce(reduce);
                let bytes = reduce.bytes_read();
                let reduce_s = |pace: &Pace| pace.host.reduce_s(bytes);
                (Vec::new(), self.declared_s(reduce_s), Some((Coding::Reduce, bytes)))
            }
            OpKind::Copy(copy) => {
                self.copy_rows(copy);
                let copy_s = |pace: &Pace| pace.codec_s(copy.bytes(), CodecCost::copy_bytes_per_s);
                (Vec::new(), self.declared_s(copy_s), Some((Coding::Copy, copy.bytes())))
            }
            OpKind::Library(_) => {
                drop(permit);
                return self.call(machine, op, begin_s);
            }
            OpKind::Exchange(_) => {
                self.opened_s.insert(op, begin_s);
                return Ok(());
            }
        };
        drop(permit);
        if let Some((coding, bytes_raw)) = coding {
            let (rank, segment, work_s) = (self.rank, *segment, cpu_s() - begin_cpu_s);
            self.codec_work.add(&CodecOp { rank, segment, coding, bytes_raw, work_s, waiting_s });
        }
        if matches!(kind, OpKind::Compute(_)) && !self.overlap.is_none() {
            let work_s = begin_s + self.declared_s(|pace| pace.host.launch_s);
            self.overlap.begin(op, begin_s, work_s, begin_s + seconds - work_s);
            return Ok(());
        }
        self.complete_at(machine, begin_s + seconds, Outcome::Op(op, sizes), begin_s);
        Ok(())
    }

    fn split(&self, batch: &Batch) {
        let _span = tracing::info_span!("split", bytes = batch.bytes_raw()).entered();
        for Block { values, rests, .. } in &batch.blocks {
            let (source, mut target) = self.lock(values, rests);
            zipwire_codec::write_rests(&source[range(values)], &mut target[range(rests)]);
            self.fabric.count_progress();
        }
    }

    fn encode(&self, machine: &Machine, op: OpId, batch: &Batch) -> Result<Vec<(SizeId, u64)>, Failure> {
        let _span = tracing::info_span!("encode", bytes = batch.bytes_raw()).entered();
        let codec = self.codec.expect("coded plans name their codec");
        let encode = |block: &Block| {
            let (values, mut frames) = self.lock(&block.values, &block.static_section);
            // Both sections lie in one buffer, the static one first.
            let (head, tail) = frames.split_at_mut(range(&block.dynamic_section).start);
            let fixed = &mut head[range(&block.static_section)];
            let dynamic = &mut tail[..range(&block.dynamic_section).len()];
            let values = &values[range(&block.values)];
            let len = if block.rests.len == 0 {
                codec.encode(batch.layout, batch.dtype, values, fixed, dynamic)
            } else {
                zipwire_codec::encode_apart(codec, batch.dtype, values, fixed, dynamic)
            };
            self.fabric.count_progress();
            len.map(|len| (block.size, len as u64)).map_err(|error| {
                let destination = block.chunk.destination;
                let receiver = destination.map_or("all ranks".to_owned(), |rank| format!("rank {rank}"));
                let detail = format!("the chunk for {receiver}: {error}");
                failure(machine, Some(op), FailureKind::Device, detail)
            })
        };
        batch.blocks.iter().map(encode).collect()
    }

    fn decode(&self, machine: &Machine, op: OpId, batch: &Batch) -> Result<(), Failure> {
        let _span = tracing::info_span!("decode", bytes = batch.bytes_raw()).entered();
        batch.blocks.iter().try_for_each(|block| {
            let size = machine.size(block.size).expect("sizes are known before frames are decoded");
            let live = Region { len: size, ..block.dynamic_section };
            let (frames, mut values) = self.lock(&live, &block.values);
            let out = &mut values[range(&block.values)];
            let (fixed, dynamic) = (&frames[range(&block.static_section)], &frames[range(&live)]);
            self.fabric.count_progress();
            let decoded = if block.rests.len == 0 {
                zipwire_codec::decode(batch.layout, batch.dtype, fixed, dynamic, out)
            } else {
                zipwire_codec::decode_apart(batch.dtype, &frames[range(&block.rests)], fixed, dynamic, out)
            };
            decoded.map_err(|error| {
                let detail = format!("the frame from rank {}: {error}", block.chunk.origin);
                failure(machine, Some(op), FailureKind::Corrupt, detail)
            })
        })
    }

    /// Terms are in several buffers, of which one may be that of the sum: each is read before the sum is written.
    fn reduce(&self, reduce: &Reduce) {
        let _span = tracing::info_span!("reduce", bytes = reduce.bytes_read()).entered();
        for Addition { terms, chunk, values } in &reduce.additions {
            let dtype =
                |chunk: &plan::Chunk| chunk.sum.expect("sums and their terms say what they are").dtype();
            let mut sums = vec![0.0; range(values).len() / dtype(chunk).width()];
            for (index, term) in terms.iter().enumerate() {
                let combine = if index == 0 { sum::begin } else { sum::add };
                let buffer = self.memory().read(term.values.buffer);
                combine(&mut sums, dtype(&term.chunk), &buffer[range(&term.values)]);
            }
            sum::store(&sums, dtype(chunk), &mut self.memory().write(values.buffer)[range(values)]);
        }
    }

    fn copy_rows(&self, copy: &Copy) {
        let _span = tracing::info_span!("copy rows", bytes = copy.bytes()).entered();
        for Gather { from, to, rows, row_bytes, .. } in &copy.gathers {
            let (source, mut target) = self.lock(from, to);
            let (source, target) = (&source[range(from)], &mut target[range(to)]);
            let row_bytes = usize::try_from(*row_bytes).expect("rows fit into memory");
            for (row, out) in rows.iter().zip(target.chunks_exact_mut(row_bytes)) {
                out.copy_from_slice(&source[*row as usize * row_bytes..][..row_bytes]);
            }
            self.fabric.count_progress();
        }
    }

    /// Lets something happen once the exchange that it belongs to has been launched.
    fn when_open(&mut self, machine: &Machine, exchange: OpId, due: Due) -> Result<(), Failure> {
        let open_s = self.opened_s[&exchange] + self.declared_s(|pace| pace.host.launch_s);
        if open_s > self.fabric.now_s() {
            self.due.push((open_s, due));
            return Ok(());
        }
        self.happen(machine, due)
    }

    fn happen(&mut self, machine: &Machine, due: Due) -> Result<(), Failure> {
        match due {
            Due::Offer(transfer) => self.offer(machine, transfer),
            Due::Announcement(transfer) => {
                let key = machine.key(transfer);
                self.notify(machine, transfer.op, key.dst, Note::Ready(key))
            }
            Due::Return { key, moved_s } => {
                self.return_from_call(key, moved_s);
                Ok(())
            }
            Due::Completion(completion) => {
                self.end_coding(machine, &completion);
                self.fabric.count_progress();
                self.events.push_back(Event::Ended(completion));
                Ok(())
            }
        }
    }

    fn offer(&mut self, machine: &Machine, id: TransferId) -> Result<(), Failure> {
        let (transfer, exchange) = machine.transfer(id);
        let key = machine.key(id);
        match id.direction {
            Direction::Receive => match self.early.remove(&key) {
                Some(offer) => self.meet(machine, id, offer),
                None => {
                    self.offered.insert(key, id);
                    if exchange.order.follows_peers() {
                        return self.notify(machine, id.op, key.src, Note::Ready(key));
                    }
                    Ok(())
                }
            },
            Direction::Send => {
                let size = |size| machine.size(size).expect("sizes are known before they are sent");
                let content = match transfer.content {
                    Content::Values(region) | Content::Whole(region) => Offered::Bytes(region),
                    Content::Prefix(region, _) | Content::Overflow { region, .. } => {
                        Offered::Bytes(Region { len: machine.transfer_bytes(transfer), ..region })
                    }
                    Content::Size(id) => Offered::Size(size(id)),
                    Content::Announced(region, id) => Offered::Announced(region, size(id)),
                };
                let bytes = |region: Region| xxh3_64(&self.memory().read(region.buffer)[range(&region)]);
                let checksum = match content {
                    Offered::Bytes(region) => bytes(region),
                    Offered::Size(size) => checksum_of_size(size, 0),
                    Offered::Announced(region, size) => checksum_of_size(size, bytes(region)),
                };
                self.offered.insert(key, id);
                self.notify(machine, id.op, key.dst, Note::Offer(Offer { key, content, checksum }))
            }
        }
    }

    fn take(&mut self, machine: &Machine, mail: &Mail<Note>) -> Result<(), Failure> {
        match mail {
            Mail::Note(note) => self.receive(machine, note),
            Mail::Abort => Err(self.complaints.cancelled(machine)),
        }
    }

    fn receive(&mut self, machine: &Machine, note: &Note) -> Result<(), Failure> {
        match *note {
            Note::Met { key, at_s, ref guests } => self.meet_in_call(machine, key, at_s, guests),
            Note::Offer(offer) => match self.offered.remove(&offer.key) {
                Some(id) => self.meet(machine, id, offer),
                None => match self.early.insert(offer.key, offer) {
                    None => Ok(()),
                    Some(_) => Err(self.complaints.confused(machine, &offer.key, "was offered twice")),
                },
            },
            Note::Begun { key, begin_s } => {
                self.overlap.depart(begin_s, key);
                Ok(())
            }
            Note::Arrived { key, begin_s } => match self.moving.remove(&key) {
                Some((id, copied)) => self.arrive(machine, id, key, copied, begin_s),
                None => Err(self.complaints.confused(machine, &key, "arrived without being on its way")),
            },
            Note::Ready(key) => {
                self.events.push_back(Event::PeerReady(key));
                Ok(())
            }
            Note::Taken { key, begin_s, end_s } => match self.offered.remove(&key) {
                Some(id) => {
                    self.overlap.arrive(end_s, key);
                    self.complete(Outcome::Transfer(id, None), begin_s, end_s);
                    Ok(())
                }
                None => Err(self.complaints.confused(machine, &key, "was taken without being offered")),
            },
        }
    }

    /// Both ends are ready: the transfer begins. Its bytes come into this rank's memory at once, also where they then take
    /// their time along paced links: what this machine takes to copy them does not come on top.
    fn meet(&mut self, machine: &Machine, id: TransferId, offer: Offer) -> Result<(), Failure> {
        let (key, begin_s) = (offer.key, self.fabric.now_s());
        let Some(pacing) = &self.pacing else {
            let copied = self.copy(machine, id, offer)?;
            return self.arrive(machine, id, key, copied, begin_s);
        };
        let bytes = machine.transfer_bytes(machine.transfer(id).0);
        if pacing.wire.send(Parcel { key, bytes, begin_s }).is_err() {
            // The links stop at the first failure; the note about it is on its way here.
            if self.fabric.first_failure().is_some() {
                return Err(self.complaints.cancelled(machine));
            }
            return Err(self.complaints.confused(machine, &key, "has no links: their thread has ended"));
        }
        if !self.overlap.is_none() {
            self.overlap.depart(begin_s, key);
            self.notify(machine, id.op, key.src, Note::Begun { key, begin_s })?;
        }
        let copied = self.copy(machine, id, offer)?;
        self.moving.insert(key, (id, copied));
        Ok(())
    }

    /// Copies what was offered into this rank's memory.
    fn copy(
        &mut self,
        machine: &Machine,
        id: TransferId,
        Offer { key, content, checksum }: Offer,
    ) -> Result<Copied, Failure> {
        let src = key.src;
        let flipped = self.corrupted.remove(&key).unwrap_or_default();
        let transfer = machine.transfer(id).0;
        // Bytes behind those of the region are those of the size.
        let flip_size = |size: u64, first: u64| {
            let mut bytes = size.to_le_bytes();
            let behind: Vec<u64> = flipped.iter().filter_map(|byte| byte.checked_sub(first)).collect();
            flip(&mut bytes, &behind);
            u64::from_le_bytes(bytes)
        };
        let (size, arrived) = match (content, transfer.content) {
            (Offered::Size(size), Content::Size(_)) => {
                let size = flip_size(size, 0);
                (Some(size), checksum_of_size(size, 0))
            }
            (
                Offered::Bytes(from),
                Content::Values(to)
                | Content::Whole(to)
                | Content::Prefix(to, _)
                | Content::Overflow { region: to, .. },
            ) => {
                let expected = machine.transfer_bytes(transfer);
                if from.len != expected {
                    return Err(other_length(machine, id.op, src, from.len, expected));
                }
                (None, self.copy_bytes((src, from), to, &flipped))
            }
            (Offered::Announced(from, size), Content::Announced(to, _)) => {
                if from.len != to.len {
                    return Err(other_length(machine, id.op, src, from.len, to.len));
                }
                let within: Vec<u64> = flipped.iter().copied().filter(|&byte| byte < to.len).collect();
                let bytes = self.copy_bytes((src, from), to, &within);
                let size = flip_size(size, to.len);
                (Some(size), checksum_of_size(size, bytes))
            }
            (Offered::Size(_) | Offered::Bytes(_) | Offered::Announced(..), _) => {
                return Err(other_content(machine, id.op, src));
            }
        };
        Ok(Copied { size, is_intact: arrived == checksum })
    }

    /// Copies a region of a peer to the beginning of one of this rank. The checksum of what has arrived.
    fn copy_bytes(&self, (src, from): (Rank, Region), to: Region, flipped: &[u64]) -> u64 {
        let _span = tracing::info_span!("copy", bytes = from.len).entered();
        let (source, mut target) = self.fabric.lock((src, from.buffer), (self.rank, to.buffer));
        let target = &mut target[range(&Region { len: from.len, ..to })];
        target.copy_from_slice(&source[range(&from)]);
        flip(target, flipped);
        xxh3_64(target)
    }

    /// The last byte of a transfer is here.
    fn arrive(
        &mut self,
        machine: &Machine,
        id: TransferId,
        key: TransferKey,
        Copied { size, is_intact }: Copied,
        begin_s: f64,
    ) -> Result<(), Failure> {
        if !is_intact {
            return Err(Failure::corrupt_transfer(self.rank, id.op, key));
        }
        let end_s = self.fabric.now_s();
        if size.is_some() {
            self.sizes_s.insert(id.op, end_s);
        }
        self.overlap.arrive(end_s, key);
        self.complete(Outcome::Transfer(id, size), begin_s, end_s);
        self.notify(machine, id.op, key.src, Note::Taken { key, begin_s, end_s })
    }

    pub(super) fn notify(&self, machine: &Machine, op: OpId, to: Rank, note: Note) -> Result<(), Failure> {
        if self.fabric.send(to, note) {
            return Ok(());
        }
        Err(self.complaints.unreachable(machine, self.fabric, op, to))
    }

    /// Something has ended. Times in seconds of this machine.
    fn complete(&mut self, outcome: Outcome, begin_s: f64, end_s: f64) {
        self.fabric.count_progress();
        let dilation = self.dilation();
        let completion = Completion { outcome, begin_s: begin_s / dilation, end_s: end_s / dilation };
        self.events.push_back(Event::Ended(completion));
    }

    /// Something ends at `end_s`, or now if that is over.
    pub(super) fn complete_at(&mut self, machine: &Machine, end_s: f64, outcome: Outcome, begin_s: f64) {
        let (now_s, dilation) = (self.fabric.now_s(), self.dilation());
        let completion =
            Completion { outcome, begin_s: begin_s / dilation, end_s: end_s.max(now_s) / dilation };
        if end_s <= now_s {
            self.end_coding(machine, &completion);
            return self.complete(completion.outcome, begin_s, now_s);
        }
        self.due.push((end_s, Due::Completion(completion)));
    }

    fn let_due_happen(&mut self, machine: &Machine) -> Result<(), Failure> {
        let now_s = self.fabric.now_s();
        let (mut happening, later) =
            std::mem::take(&mut self.due).into_iter().partition(|(time_s, _)| *time_s <= now_s);
        self.due = later;
        let happening: &mut Vec<(f64, Due)> = &mut happening;
        happening.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (time_s, due) in happening.drain(..) {
            self.end_compute(time_s);
            self.happen(machine, due)?;
        }
        self.end_compute(now_s);
        Ok(())
    }

    /// A compute phase that other lanes slow down has done its work by `now_s`.
    fn end_compute(&mut self, now_s: f64) {
        if let Some(phase) = self.overlap.take_ended(now_s) {
            self.complete(Outcome::Op(phase.op, Vec::new()), phase.begin_s, phase.end_s());
        }
    }

    /// If it is a codec op that has ended, compute is no longer slowed down by it.
    fn end_coding(&mut self, machine: &Machine, completion: &Completion) {
        if let Outcome::Op(op, _) = &completion.outcome
            && machine.op(*op).kind.lane() == Lane::Codec
        {
            self.overlap.code(completion.end_s * self.dilation(), false);
        }
    }

    /// Seconds of this machine for a second of the cluster.
    pub(super) fn dilation(&self) -> f64 {
        self.pacing.as_ref().map_or(1.0, |pacing| pacing.pace.dilation)
    }

    /// What something takes on the cluster, in seconds of this machine; nothing in a run that is not paced.
    pub(super) fn declared_s(&self, seconds: impl FnOnce(&Pace) -> f64) -> f64 {
        self.pacing.as_ref().map_or(0.0, |pacing| seconds(pacing.pace) * pacing.pace.dilation)
    }

    fn fill(&self, chunk: &Chunk) {
        let mut buffer = self.memory().write(chunk.region.buffer);
        self.payload.fill(chunk.id, &mut buffer[range(&chunk.region)]);
    }

    fn check(&mut self, machine: &Machine, op: Option<OpId>, chunk: &Chunk) -> Result<(), Failure> {
        let buffer = self.memory().read(chunk.region.buffer);
        let received = &buffer[range(&chunk.region)];
        match self.payload.mismatch(chunk.id, received) {
            None => {
                self.bytes_verified += chunk.region.len;
                Ok(())
            }
            Some(offset) => Err(self.complaints.altered(machine, op, chunk, offset)),
        }
    }

    pub(super) fn memory(&self) -> &'a Memory {
        &self.fabric.memories[self.rank.index()]
    }

    /// Locks two buffers of this rank, the second one for writing.
    fn lock(&self, from: &Region, to: &Region) -> Locked<'a> {
        self.fabric.lock((self.rank, from.buffer), (self.rank, to.buffer))
    }
}

/// Checksum of a size that travels behind bytes whose checksum is `bytes`.
fn checksum_of_size(size: u64, bytes: u64) -> u64 {
    xxh3_64_with_seed(&size.to_le_bytes(), bytes)
}

/// Flips the lowest bit of each of these bytes, modulo the length.
fn flip(bytes: &mut [u8], flipped: &[u64]) {
    for byte in flipped {
        let index = usize::try_from(byte % (bytes.len() as u64).max(1)).expect("it is below the length");
        if let Some(byte) = bytes.get_mut(index) {
            *byte ^= 1;
        }
    }
}
