//! Carries out the ops of one rank on its thread.
//!
//! A transfer is a rendezvous: the sender offers a region of its memory, and the receiver copies from it when
//! it has offered its own end. Nothing is sent eagerly, so windows mean what they mean in the simulator.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use zipwire_codec::Codec;
use zipwire_schedule::machine::{Capabilities, Direction, Machine, Readiness, TransferId, TransferOrder};
use zipwire_schedule::plan::{Batch, Content, OpKind, Region};
use zipwire_schedule::{Failure, FailureKind, OpId, Rank, SizeId};
use zipwire_traces::Payload;

use super::fabric::{Fabric, Key, Memory, Note, Offer, Offered, range};
use crate::chunks::{Chunk, Chunks};
use crate::drive::{Action, Backend, Completion, Outcome, ends, failure};

/// Longest sleep between two looks at whether the run is over.
const LOOK: Duration = Duration::from_millis(50);

/// One rank of one iteration.
pub(super) struct Rendezvous<'a> {
    pub(super) fabric: &'a Fabric<'a>,
    pub(super) memory: &'a Memory,
    pub(super) inbox: Receiver<Note>,
    pub(super) codec: Option<&'a dyn Codec>,
    pub(super) payload: &'a Payload,
    pub(super) chunks: &'a Chunks,
    pub(super) segments: &'a [&'static str],
    pub(super) stuck_after: Duration,
    /// When each open exchange was opened.
    pub(super) opened_s: HashMap<OpId, f64>,
    /// Ends of this rank that wait for a note from the peer.
    pub(super) offered: HashMap<Key, TransferId>,
    /// Offers of peers that this rank has not asked for yet.
    pub(super) early: HashMap<Key, Offer>,
    pub(super) ended: VecDeque<Completion>,
}

impl Backend for Rendezvous<'_> {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn now_s(&self) -> f64 {
        self.fabric.now_s()
    }

    fn submit(&mut self, machine: &Machine, action: Action) -> Result<(), Failure> {
        match action {
            Action::Issue(op) => self.issue(machine, op),
            Action::Transfer(transfer) => self.offer(machine, transfer),
            Action::Close(op) => {
                let begin_s = self.opened_s.remove(&op).expect("exchanges are opened before they are closed");
                self.complete(Outcome::Op(op, Vec::new()), begin_s, self.now_s());
                Ok(())
            }
        }
    }

    fn wait(&mut self, machine: &Machine, until_s: Option<f64>) -> Result<Option<Completion>, Failure> {
        let mut last = (self.fabric.progress(), Instant::now());
        loop {
            if let Some(completion) = self.ended.pop_front() {
                return Ok(Some(completion));
            }
            if self.fabric.is_cancelled() {
                return Err(failure(machine, None, FailureKind::Cancelled, "stopped by the user"));
            }
            if until_s.is_some_and(|until_s| self.now_s() >= until_s) {
                return Ok(None);
            }
            let left = until_s.map_or(LOOK, |until_s| Duration::from_secs_f64(until_s - self.now_s()));
            match self.inbox.recv_timeout(left.min(LOOK)) {
                Ok(note) => self.receive(machine, &note)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(failure(machine, None, FailureKind::PeerLost, "all peers are gone"));
                }
            }
            let progress = self.fabric.progress();
            if progress != last.0 {
                last = (progress, Instant::now());
            } else if last.1.elapsed() >= self.stuck_after {
                return Err(self.stuck(machine));
            }
        }
    }

    fn abort(&mut self, failure: &Failure) {
        self.fabric.abort(failure);
    }
}

/// Threads complete ops and let the machine order transfers; without paced links their clock is no measure.
pub(super) const CAPABILITIES: Capabilities =
    Capabilities { readiness: Readiness::Completed, transfer_order: TransferOrder::Machine, timed: false };

impl Rendezvous<'_> {
    /// Fills what the model would have computed before the iteration, and poisons what peers and codec fill.
    pub(super) fn prepare(&self) {
        self.chunks.poisoned.iter().for_each(|region| self.memory.poison(region));
        self.chunks.filled_before.iter().for_each(|chunk| self.fill(chunk));
    }

    /// Checks what no later op has consumed.
    pub(super) fn finish(&self, machine: &Machine) -> Result<(), Failure> {
        self.chunks.checked_at_end.iter().try_for_each(|chunk| self.check(machine, None, chunk))
    }

    fn issue(&mut self, machine: &Machine, op: OpId) -> Result<(), Failure> {
        let begin_s = self.now_s();
        if let Some(chunks) = self.chunks.checked_before.get(&op) {
            chunks.iter().try_for_each(|chunk| self.check(machine, Some(op), chunk))?;
        }
        let sizes = match &machine.op(op).kind {
            OpKind::Compute(_) => {
                self.chunks.filled_by.get(&op).into_iter().flatten().for_each(|chunk| self.fill(chunk));
                Vec::new()
            }
            OpKind::Encode(batch) => self.encode(machine, op, batch)?,
            OpKind::Decode(batch) => {
                self.decode(machine, op, batch)?;
                Vec::new()
            }
            OpKind::Exchange(_) => {
                self.opened_s.insert(op, begin_s);
                return Ok(());
            }
        };
        self.complete(Outcome::Op(op, sizes), begin_s, self.now_s());
        Ok(())
    }

    fn encode(&self, machine: &Machine, op: OpId, batch: &Batch) -> Result<Vec<(SizeId, u64)>, Failure> {
        let codec = self.codec.expect("coded plans name their codec");
        let encode = |block: &zipwire_schedule::plan::Block| {
            let values = self.memory.read(block.values.buffer);
            let mut frames = self.memory.write(block.static_section.buffer);
            // Both sections lie in one buffer, the static one first.
            let (head, tail) = frames.split_at_mut(range(&block.dynamic_section).start);
            let fixed = &mut head[range(&block.static_section)];
            let dynamic = &mut tail[..range(&block.dynamic_section).len()];
            let len = codec.encode(batch.layout, batch.dtype, &values[range(&block.values)], fixed, dynamic);
            len.map(|len| (block.size, len as u64)).map_err(|error| {
                let detail = format!("the chunk for rank {}: {error}", block.peer);
                failure(machine, Some(op), FailureKind::Device, detail)
            })
        };
        batch.blocks.iter().map(encode).collect()
    }

    fn decode(&self, machine: &Machine, op: OpId, batch: &Batch) -> Result<(), Failure> {
        batch.blocks.iter().try_for_each(|block| {
            let size = machine.size(block.size).expect("sizes are known before frames are decoded");
            let live = Region { len: size, ..block.dynamic_section };
            let frames = self.memory.read(live.buffer);
            let mut values = self.memory.write(block.values.buffer);
            let out = &mut values[range(&block.values)];
            let (fixed, dynamic) = (&frames[range(&block.static_section)], &frames[range(&live)]);
            zipwire_codec::decode(batch.layout, batch.dtype, fixed, dynamic, out).map_err(|error| {
                let detail = format!("the frame from rank {}: {error}", block.peer);
                failure(machine, Some(op), FailureKind::Corrupt, detail)
            })
        })
    }

    fn offer(&mut self, machine: &Machine, id: TransferId) -> Result<(), Failure> {
        let (transfer, exchange) = machine.transfer(id);
        let (src, dst) = ends(machine, id);
        let key = (machine.op(id.op).segment, exchange.stage, src, dst, transfer.tag);
        match id.direction {
            Direction::Receive => match self.early.remove(&key) {
                Some(offer) => self.take(machine, id, offer),
                None => {
                    self.offered.insert(key, id);
                    Ok(())
                }
            },
            Direction::Send => {
                let content = match transfer.content {
                    Content::Whole(region) => Offered::Bytes(region),
                    Content::Prefix(region, _) => {
                        Offered::Bytes(Region { len: machine.transfer_bytes(transfer), ..region })
                    }
                    Content::Size(size) => {
                        Offered::Size(machine.size(size).expect("sizes are known before they are sent"))
                    }
                };
                self.offered.insert(key, id);
                self.notify(machine, id.op, dst, Note::Offer(Offer { key, content }))
            }
        }
    }

    fn receive(&mut self, machine: &Machine, note: &Note) -> Result<(), Failure> {
        match *note {
            Note::Offer(offer) => match self.offered.remove(&offer.key) {
                Some(id) => self.take(machine, id, offer),
                None => {
                    self.early.insert(offer.key, offer);
                    Ok(())
                }
            },
            Note::Taken { key, begin_s, end_s } => {
                let id = self.offered.remove(&key).expect("only offered transfers are taken");
                self.complete(Outcome::Transfer(id, None), begin_s, end_s);
                Ok(())
            }
            Note::Abort => {
                let first = self.fabric.first_failure();
                let detail =
                    first.map_or_else(|| "another rank failed".to_owned(), |first| first.to_string());
                Err(failure(machine, None, FailureKind::Cancelled, detail))
            }
        }
    }

    /// Both ends are ready: the bytes move.
    fn take(
        &mut self,
        machine: &Machine,
        id: TransferId,
        Offer { key, content }: Offer,
    ) -> Result<(), Failure> {
        let begin_s = self.now_s();
        let src = key.2;
        let size = match (content, machine.transfer(id).0.content) {
            (Offered::Size(size), Content::Size(_)) => Some(size),
            (Offered::Bytes(from), Content::Whole(to) | Content::Prefix(to, _)) => {
                let expected = machine.transfer_bytes(machine.transfer(id).0);
                if from.len != expected {
                    let detail =
                        format!("rank {src} sends {} bytes where {expected} were announced", from.len);
                    return Err(failure(machine, Some(id.op), FailureKind::Corrupt, detail));
                }
                let source = self.fabric.memories[src.index()].read(from.buffer);
                let mut target = self.memory.write(to.buffer);
                target[range(&Region { len: from.len, ..to })].copy_from_slice(&source[range(&from)]);
                None
            }
            (Offered::Size(_), _) | (Offered::Bytes(_), Content::Size(_)) => {
                let detail = format!("rank {src} and this rank disagree about what moves");
                return Err(failure(machine, Some(id.op), FailureKind::Corrupt, detail));
            }
        };
        let end_s = self.now_s();
        self.complete(Outcome::Transfer(id, size), begin_s, end_s);
        self.notify(machine, id.op, src, Note::Taken { key, begin_s, end_s })
    }

    fn notify(&self, machine: &Machine, op: OpId, to: Rank, note: Note) -> Result<(), Failure> {
        if self.fabric.send(to, note) {
            return Ok(());
        }
        Err(failure(machine, Some(op), FailureKind::PeerLost, format!("rank {to} is gone")))
    }

    fn complete(&mut self, outcome: Outcome, begin_s: f64, end_s: f64) {
        self.fabric.count_progress();
        self.ended.push_back(Completion { outcome, begin_s, end_s });
    }

    fn stuck(&self, machine: &Machine) -> Failure {
        let op = self.opened_s.keys().min().copied();
        let seconds = self.stuck_after.as_secs_f64();
        failure(machine, op, FailureKind::Timeout, format!("nothing has ended on any rank for {seconds} s"))
    }

    fn fill(&self, chunk: &Chunk) {
        let mut buffer = self.memory.write(chunk.region.buffer);
        self.payload.fill(chunk.segment, chunk.src, chunk.dst, &mut buffer[range(&chunk.region)]);
    }

    fn check(&self, machine: &Machine, op: Option<OpId>, chunk: &Chunk) -> Result<(), Failure> {
        let buffer = self.memory.read(chunk.region.buffer);
        let received = &buffer[range(&chunk.region)];
        match self.payload.mismatch(chunk.segment, chunk.src, chunk.dst, received) {
            None => Ok(()),
            Some(offset) => {
                let segment = self.segments[chunk.segment.index()];
                let src = chunk.src;
                let detail =
                    format!("byte {offset} of the {segment} chunk from rank {src} is not what was sent");
                Err(failure(machine, op, FailureKind::Corrupt, detail))
            }
        }
    }
}
