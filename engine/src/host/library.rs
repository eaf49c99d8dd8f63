//! Collectives of a communication library, played by this executor: all ranks meet when they have issued a call, exchange their
//! shares, meet once more, and leave when paced links have moved the call.
//!
//! Shares travel as transfers that are not in the plan and that links and timelines do not see: links see the call as a whole. An All-Reduce has two rounds
//! of them: each rank adds up its shard, contribution by contribution in rank order, and then all get the sums.

use std::collections::{HashMap, HashSet, VecDeque};

use zipwire_schedule::machine::Machine;
use zipwire_schedule::plan::{CallKey, Content, Library, Region, Share, TransferKey};
use zipwire_schedule::{Collective, Failure, OpId, Rank, SizeId, sum};

use super::backend::{Due, HostBackend};
use super::cpu_s;
use super::worker::zeros;
use crate::pace::{CodecOp, Coding};
use crate::run_program::{Call, Completion, Outcome};
use crate::transport::{CALLS, Incoming, LibraryCall, Message, Outgoing, Received, is_of_call};

#[derive(Debug, Default)]
pub(super) struct Calls {
    ongoing: HashMap<CallKey, Ongoing>,
    /// How many ranks have come to each point of each call, and when the last one did.
    joined: HashMap<(CallKey, u32), (u32, f64)>,
}

/// A call that this rank has issued. Times in seconds of the transport.
#[derive(Debug)]
struct Ongoing {
    op: OpId,
    begin_s: f64,
    /// When the last rank issued it.
    met_s: Option<f64>,
    /// When all ranks had what they get.
    shared_s: Option<f64>,
    /// When the links had moved it.
    moved_s: Option<f64>,
    /// The point at which ranks meet next.
    point: u32,
    rounds: VecDeque<Round>,
    /// Its transfers that have not ended; `None` between two rounds.
    moving: Option<HashSet<TransferKey>>,
    sizes: Vec<(SizeId, u64)>,
    sum: Option<Adding>,
}

/// Exchange of shares between two barriers of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Everybody gets what the others have.
    Gather,
    /// Everybody gets the contributions to its shard, and adds them up.
    Sum,
    /// Everybody gets the sums of the others.
    GatherSums,
}

/// The sum of a shard, as far as it has come.
#[derive(Debug)]
struct Adding {
    own: Share,
    sums: Vec<f32>,
    /// Ranks whose contributions are to be added, the next one first.
    left: VecDeque<Rank>,
    is_begun: bool,
    work_s: f64,
    waiting_s: f64,
}

impl Calls {
    /// The call that a transfer is part of, if it is of one under way.
    pub(super) fn op_of(&self, key: &TransferKey) -> Option<OpId> {
        let call = is_of_call(key).then(|| self.key_of(key))??;
        self.ongoing.get(&call).map(|ongoing| ongoing.op)
    }

    /// The key of the call under way that a transfer is part of: a rank is in one group of a segment.
    fn key_of(&self, key: &TransferKey) -> Option<CallKey> {
        let part = (key.number - CALLS) / 2;
        let is_of = |call: &&CallKey| (call.segment, call.stage, call.part) == (key.segment, key.stage, part);
        self.ongoing.keys().find(is_of).copied()
    }
}

impl Adding {
    /// The sum that this rank makes in a call, if there is anything to add up.
    ///
    /// # Errors
    /// If there is no memory for it.
    fn begin(machine: &Machine, op: OpId, rank: Rank) -> Result<Option<Self>, Failure> {
        let own = machine.library(op).outputs.of(rank);
        let Some(own) = own.filter(|share| machine.content_bytes(&share.content) > 0) else {
            return Ok(None);
        };
        let (total, to) = own.chunk.sum.zip(own.content.values()).expect("reductions move sums of values");
        let sums = zeros(machine, op, to.len / total.dtype().width() as u64)?;
        let left = total.origins().collect();
        Ok(Some(Self { own, sums, left, is_begun: false, work_s: 0.0, waiting_s: 0.0 }))
    }
}

impl Round {
    fn all(collective: Collective) -> VecDeque<Self> {
        match collective {
            Collective::AllGather | Collective::Broadcast => [Self::Gather].into(),
            Collective::ReduceScatter => [Self::Sum].into(),
            Collective::AllReduce => [Self::Sum, Self::GatherSums].into(),
        }
    }
}

impl HostBackend<'_> {
    pub(super) fn call(&mut self, machine: &Machine, op: OpId, begin_s: f64) -> Result<(), Failure> {
        if machine.ring_bytes(op) == 0 {
            // All ranks know that: nobody calls.
            self.complete_at(machine, begin_s, Outcome::Op(op, Vec::new()), begin_s);
            return Ok(());
        }
        let library = machine.library(op);
        let key = library.key(machine.op(op).segment);
        let ongoing = Ongoing {
            op,
            begin_s,
            met_s: None,
            shared_s: None,
            moved_s: None,
            point: 0,
            rounds: Round::all(library.collective),
            moving: None,
            sizes: Vec::new(),
            sum: None,
        };
        self.calls.ongoing.insert(key, ongoing);
        self.join(machine, key)
    }

    /// Comes to the next point at which all ranks meet.
    fn join(&mut self, machine: &Machine, call: CallKey) -> Result<(), Failure> {
        let ongoing = self.calls.ongoing.get_mut(&call).expect("a rank joins calls that it has issued");
        let (op, point, at_s) = (ongoing.op, ongoing.point, self.transport.now_s());
        ongoing.moving = None;
        let own = self.rank;
        for peer in machine.library(op).group.ranks().filter(|peer| *peer != own) {
            self.tell(machine, peer, Message::Joined { call, point, at_s })?;
        }
        self.peer_joined(machine, call, point, at_s)
    }

    /// A rank, this one or another, has come to a point of a call. Goes on if it is the last one.
    pub(super) fn peer_joined(
        &mut self,
        machine: &Machine,
        call: CallKey,
        point: u32,
        at_s: f64,
    ) -> Result<(), Failure> {
        let (count, last_s) = self.calls.joined.entry((call, point)).or_insert((0, at_s));
        (*count, *last_s) = (*count + 1, last_s.max(at_s));
        let (count, last_s) = (*count, *last_s);
        let Some(ongoing) = self.calls.ongoing.get(&call) else { return Ok(()) };
        if count < machine.library(ongoing.op).group.count {
            return Ok(());
        }
        self.calls.joined.remove(&(call, point));
        self.meet_in_call(machine, call, last_s)
    }

    /// All ranks have met: begins the next round, or ends the call if none is left.
    fn meet_in_call(&mut self, machine: &Machine, key: CallKey, at_s: f64) -> Result<(), Failure> {
        let ongoing = self.calls.ongoing.get_mut(&key).expect("ranks meet in calls that they have issued");
        let (op, is_first) = (ongoing.op, ongoing.met_s.is_none());
        ongoing.met_s.get_or_insert(at_s);
        ongoing.point += 1;
        let round = ongoing.rounds.pop_front();
        if round.is_none() {
            ongoing.shared_s = Some(at_s);
        }
        self.transport.count_progress();
        if is_first {
            self.overlap.begin_call(at_s);
            self.begin_on_links(machine, key, op, at_s)?;
        }
        match round {
            Some(round) => self.begin_round(machine, key, round),
            None => {
                self.leave_call(key);
                Ok(())
            }
        }
    }

    /// Lets the links know of a call, for all ranks at once. Without links it has moved when all have what they get.
    fn begin_on_links(
        &mut self,
        machine: &Machine,
        key: CallKey,
        op: OpId,
        at_s: f64,
    ) -> Result<(), Failure> {
        let Some(pace) = self.pace else {
            let ongoing = self.calls.ongoing.get_mut(&key).expect("it was looked at");
            ongoing.moved_s = Some(at_s);
            return Ok(());
        };
        let library = machine.library(op);
        if self.rank != library.group.first {
            return Ok(());
        }
        let activity = pace.costs.call(library, &pace.topology, machine.ring_bytes(op));
        let begun = self.transport.begin_call(LibraryCall {
            call: key,
            group: library.group,
            activity,
            begin_s: at_s,
        });
        begun.map_err(|ended| self.failure_report.ended(machine, Some(op), &ended))
    }

    /// The links have moved a call.
    pub(super) fn moved(&mut self, key: CallKey, at_s: f64) {
        let ongoing = self.calls.ongoing.get_mut(&key).expect("links move calls that this rank has issued");
        ongoing.moved_s = Some(at_s);
        self.leave_call(key);
    }

    /// Leaves a call once the links have moved it, and all ranks have what they get.
    fn leave_call(&mut self, key: CallKey) {
        let ongoing = &self.calls.ongoing[&key];
        if let Some((shared_s, moved_s)) = ongoing.shared_s.zip(ongoing.moved_s) {
            let moved_s = shared_s.max(moved_s);
            self.due.push((moved_s, Due::Return { key, moved_s }));
        }
    }

    /// Offers what the others get of this rank, and waits for what it gets.
    fn begin_round(&mut self, machine: &Machine, key: CallKey, round: Round) -> Result<(), Failure> {
        let op = self.calls.ongoing[&key].op;
        let (given, got) = handed_over(machine.library(op), self.rank, round);
        let moves = |(_, share): &(Rank, Share)| machine.content_bytes(&share.content) > 0;
        let outgoing: Vec<Outgoing> = given
            .into_iter()
            .filter(moves)
            .map(|(peer, share)| {
                let (bytes, content) = (region(machine, &share.content), share.content);
                let size = |size| machine.size(size).expect("sizes are known before they are given");
                let word = content.brings().map(size);
                Outgoing { key: transfer_key(key, round, self.rank, peer), bytes, word, checksum: 0 }
            })
            .collect();
        let incoming: Vec<Incoming> = got
            .into_iter()
            .filter(moves)
            .map(|(peer, share)| {
                let (bytes, has_word) = (region(machine, &share.content), share.content.brings().is_some());
                Incoming { key: transfer_key(key, round, peer, self.rank), bytes, has_word }
            })
            .collect();
        let ongoing = self.calls.ongoing.get_mut(&key).expect("it was looked at");
        let keys =
            outgoing.iter().map(|transfer| transfer.key).chain(incoming.iter().map(|transfer| transfer.key));
        ongoing.moving = Some(keys.collect());
        ongoing.sum = if round == Round::Sum { Adding::begin(machine, op, self.rank)? } else { None };

        let broken = |ended| self.failure_report.ended(machine, Some(op), &ended);
        // What is the same for all is summed up once.
        let mut last = None;
        for transfer in outgoing {
            let content = (transfer.bytes, transfer.word);
            let checksum = match last {
                Some((other, checksum)) if other == content => checksum,
                _ => self.worker.checksum(transfer.bytes, transfer.word),
            };
            last = Some((content, checksum));
            self.transport.send(Outgoing { checksum, ..transfer }).map_err(broken)?;
        }
        for transfer in incoming {
            self.transport.receive(transfer).map_err(broken)?;
        }
        self.advance_sum(machine, key)?;
        self.end_round(machine, key)
    }

    pub(super) fn receive_in_call(&mut self, machine: &Machine, received: &Received) -> Result<(), Failure> {
        let Received { transfer: Incoming { key, bytes, .. }, word, checksum, .. } = *received;
        let call = self.calls.key_of(&key);
        let Some((call, ongoing)) = call.and_then(|call| Some((call, self.calls.ongoing.get_mut(&call)?)))
        else {
            return Err(self.failure_report.confused(machine, &key, "belongs to no call under way"));
        };
        if self.worker.checksum(bytes, word) != checksum {
            return Err(Failure::corrupt_transfer(self.rank, ongoing.op, key));
        }
        if let Some(word) = word {
            let outputs = &machine.library(ongoing.op).outputs;
            let share = outputs.listed().iter().find(|share| share.chunk.origin == key.src);
            ongoing.sizes.extend(share.and_then(|share| share.content.brings()).map(|size| (size, word)));
        }
        let is_contribution = ongoing.sum.as_ref().is_some_and(|sum| sum.left.front() == Some(&key.src));
        if is_contribution {
            let from = bytes.expect("contributions are values");
            self.add(call, from)?;
            self.advance_sum(machine, call)?;
        }
        self.leave_in_call(machine, key)
    }

    pub(super) fn leave_in_call(&mut self, machine: &Machine, key: TransferKey) -> Result<(), Failure> {
        let call = self.calls.key_of(&key);
        self.transport.count_progress();
        let moving = call.and_then(|call| Some((call, self.calls.ongoing.get_mut(&call)?.moving.as_mut()?)));
        let Some((call, moving)) = moving else {
            return Err(self.failure_report.confused(machine, &key, "belongs to no call under way"));
        };
        moving.remove(&key);
        self.end_round(machine, call)
    }

    /// Joins the others once nothing of the round is left to move or to add.
    fn end_round(&mut self, machine: &Machine, key: CallKey) -> Result<(), Failure> {
        let ongoing = &self.calls.ongoing[&key];
        let has_moved = ongoing.moving.as_ref().is_some_and(HashSet::is_empty);
        if has_moved && ongoing.sum.is_none() { self.join(machine, key) } else { Ok(()) }
    }

    /// Adds contributions of this rank while it is their turn, asks for the next one of another, or stores the finished sum.
    fn advance_sum(&mut self, machine: &Machine, key: CallKey) -> Result<(), Failure> {
        let op = self.calls.ongoing[&key].op;
        loop {
            let ongoing = self.calls.ongoing.get_mut(&key).expect("it was looked at");
            let Some(adding) = &mut ongoing.sum else { return Ok(()) };
            match adding.left.front() {
                Some(origin) if *origin == self.rank => {
                    self.add(key, own_values(machine.library(op), self.rank))?;
                }
                Some(&origin) => {
                    let library = machine.library(op);
                    let len = own_values(library, self.rank).len;
                    let transfer = transfer_key(key, Round::Sum, origin, self.rank);
                    let bytes = Some(self.worker.memory.spare(library.channel, len));
                    ongoing.moving.get_or_insert_default().insert(transfer);
                    let asked = self.transport.receive(Incoming { key: transfer, bytes, has_word: false });
                    return asked.map_err(|ended| self.failure_report.ended(machine, Some(op), &ended));
                }
                None => {
                    let adding = ongoing.sum.take().expect("it was looked at");
                    self.store(machine, op, &adding);
                    return Ok(());
                }
            }
        }
    }

    fn add(&mut self, key: CallKey, from: Region) -> Result<(), Failure> {
        let began_s = self.transport.now_s();
        let permit = self.permits.take();
        let begin_cpu_s = cpu_s();
        let waited_s = self.transport.now_s() - began_s;
        let adding = self.calls.ongoing.get_mut(&key).and_then(|ongoing| ongoing.sum.as_mut());
        let adding = adding.expect("contributions come while a sum is made");
        let dtype = adding.own.chunk.sum.expect("it is a sum").dtype();
        let combine = if adding.is_begun { sum::add } else { sum::begin };
        combine(&mut adding.sums, dtype, &self.worker.memory.read(&from));
        adding.is_begun = true;
        adding.left.pop_front();
        adding.waiting_s += waited_s;
        adding.work_s += cpu_s() - begin_cpu_s;
        drop(permit);
        Ok(())
    }

    fn store(&mut self, machine: &Machine, op: OpId, adding: &Adding) {
        let Adding { own, sums, work_s, waiting_s, .. } = adding;
        let (total, to) = own.chunk.sum.zip(own.content.values()).expect("reductions move sums of values");
        let begin_cpu_s = cpu_s();
        sum::store(sums, total.dtype(), &mut self.worker.memory.write(&to));
        let (rank, segment, coding) = (self.rank, machine.op(op).segment, Coding::Library);
        let (bytes_raw, work_s) = (to.len * total.count() as u64, work_s + cpu_s() - begin_cpu_s);
        self.codec_work.add(&CodecOp { rank, segment, coding, bytes_raw, work_s, waiting_s: *waiting_s });
    }

    /// A call has moved everything, and its time is over. The host knows of sizes later.
    pub(super) fn return_from_call(&mut self, key: CallKey, moved_s: f64) {
        let ongoing = self.calls.ongoing.remove(&key).expect("calls end once");
        let Ongoing { op, begin_s, met_s, sizes, .. } = ongoing;
        self.overlap.end_call(moved_s);
        let sync_s = if sizes.is_empty() { 0.0 } else { self.declared_s(|pace| pace.costs.host.sync_s) };
        let dilation = self.dilation();
        let met_s = met_s.expect("calls begin before they end") / dilation;
        let outcome = Outcome::Call(Call { op, sizes, met_s, moved_s: moved_s / dilation });
        // The moment that all ranks agree on, and not that at which this thread woke up.
        let end_s = moved_s + sync_s;
        let completion = Completion { outcome, begin_s: begin_s / dilation, end_s: end_s / dilation };
        self.due.push((end_s, Due::Completion(completion)));
    }
}

/// Shares of a call, each with the other rank that it goes to, or comes from.
type Handed = Vec<(Rank, Share)>;

/// Shares that a rank sends in a round, and those that it receives. Contributions to its own sum are not among these: it asks for them one by one.
fn handed_over(library: &Library, rank: Rank, round: Round) -> (Handed, Handed) {
    let peers = || library.group.ranks().filter(|peer| *peer != rank);
    let to = |peer: Rank, share: Option<Share>| Some((peer, share?));
    match round {
        Round::Gather => {
            let given = peers().flat_map(|peer| library.inputs.iter().map(move |share| (peer, share)));
            (given.collect(), library.outputs.iter().map(|share| (share.chunk.origin, share)).collect())
        }
        Round::Sum => {
            let given = peers().filter_map(|peer| to(peer, library.inputs.of(peer)));
            (given.collect(), Vec::new())
        }
        Round::GatherSums => {
            let given = peers().filter_map(|peer| to(peer, library.outputs.of(rank)));
            let got = peers().filter_map(|peer| to(peer, library.outputs.of(peer)));
            (given.collect(), got.collect())
        }
    }
}

/// Region of a rank's contribution to its own shard; every rank contributes as many bytes.
fn own_values(library: &Library, rank: Rank) -> Region {
    let own = library.inputs.of(rank).and_then(|share| share.content.values());
    own.expect("plans are checked: all contribute to what is added up")
}

/// The bytes that move of a content whose sizes are known.
fn region(machine: &Machine, content: &Content) -> Option<Region> {
    let word_bytes = if content.brings().is_some() { Content::SIZE_BYTES } else { 0 };
    content.region().map(|region| Region { len: machine.content_bytes(content) - word_bytes, ..region })
}

/// Key of a transfer of a call: its number is `CALLS` or above, as no transfer of a plan has.
fn transfer_key(call: CallKey, round: Round, src: Rank, dst: Rank) -> TransferKey {
    let CallKey { segment, stage, part, .. } = call;
    let second = u32::from(round == Round::GatherSums);
    TransferKey { segment, stage, src, dst, number: CALLS + 2 * part + second }
}
