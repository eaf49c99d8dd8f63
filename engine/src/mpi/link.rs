//! A process's connection with all others ([`Link`]): messages under way and received ones; and how it is shared ([`Shared`]) by the rank's
//! thread and the helper, of which the holder of the lock drives it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zipwire_mpi::{Bytes, Channel, CollectiveBuffers, Done, Endpoint, Ticket};
use zipwire_schedule::Rank;
use zipwire_schedule::plan::{Region, TransferKey};

use super::clock::Clock;
use super::connection::{Connection, lost};
use super::packet::{FRAME, Header, Packet, Partial, frames};
use super::status::StatusFile;
use super::{Member, WorldError};
use crate::memory::Memory;
use crate::report::RankReport;
use crate::transport::{CALLS, Ended, Event, Incoming, Message, Outgoing, Received, is_of_call};

/// Receives for packets that are posted at any time.
const LISTENING: usize = 32;
/// Time limit for messages of this process to itself.
const FILL_WITHIN: Duration = Duration::from_secs(5);
/// Longest interval between heartbeats.
const ALIVE: Duration = Duration::from_secs(1);

/// State of the connection; the thread that drives it has exclusive access.
pub(super) struct Link {
    endpoint: Box<dyn Connection>,
    pub(super) rank: Rank,
    pub(super) size: u32,
    pub(super) clock: Clock,
    memory: Option<Arc<Memory>>,
    /// Segments of the plan, by which calls of a library are told apart.
    segments: u32,
    sending: HashMap<Ticket, (TransferKey, f64)>,
    receiving: HashMap<Ticket, TransferKey>,
    awaited: HashMap<TransferKey, Awaited>,
    /// Headers of transfers that this rank has not asked for yet.
    early: HashMap<TransferKey, Header>,
    /// Receives of packets, in the order in which they are filled, and what has come into them.
    listening: VecDeque<(Ticket, Option<Done>)>,
    partial: Vec<Partial>,
    /// Frames under way from here.
    telling: HashMap<Ticket, ()>,
    done: Vec<Done>,
    pub(super) events: VecDeque<Event>,
    /// Messages for the coordinator of a serving run; at rank 0.
    pub(super) reported: VecDeque<Message>,
    pub(super) words: Vec<Option<Vec<u8>>>,
    pub(super) met: Option<Vec<Vec<u8>>>,
    pub(super) reports: Vec<Option<RankReport>>,
    pub(super) tasks: VecDeque<Vec<u8>>,
    /// Processes on this host, this one among them; all, until rank 0 says so.
    pub(super) neighbours: usize,
    /// Processes of the job; at rank 0.
    pub(super) members: Vec<Option<Member>>,
    /// Seconds within which each rank's clock is aligned; of this process only at rank 0.
    pub(super) aligned: Vec<Option<f64>>,
    /// Progress counters: at rank 0 of each rank; elsewhere the own one, and the sum of all in place of rank 0's.
    progress: Vec<u64>,
    heard: Vec<Instant>,
    /// Ranks whose connection has ended, as far as that shows.
    gone: Vec<Rank>,
    told: Instant,
    tells_every: Duration,
    /// When this process last polled.
    looked: Instant,
    /// A longer pause between two polls means that this process was suspended.
    stands_still_after: Duration,
    /// How long this process was suspended, if it was.
    stood_still: Option<Duration>,
    pub(super) ended: Option<Ended>,
    pub(super) is_over: bool,
}

struct Awaited {
    transfer: Incoming,
    at_s: f64,
    header: Option<Header>,
    /// Whether its bytes have come, or it has none.
    has_bytes: bool,
}

impl Link {
    pub(super) fn new(endpoint: Box<dyn Connection>, patience: Duration) -> Result<Self, Ended> {
        let (rank, size) = (Rank(endpoint.rank()), endpoint.size());
        let count = size as usize;
        let now = Instant::now();
        let mut link = Self {
            endpoint,
            rank,
            size,
            clock: Clock::new(),
            memory: None,
            segments: 0,
            sending: HashMap::new(),
            receiving: HashMap::new(),
            awaited: HashMap::new(),
            early: HashMap::new(),
            listening: VecDeque::new(),
            partial: (0..count).map(|_| Partial::default()).collect(),
            telling: HashMap::new(),
            done: Vec::new(),
            events: VecDeque::new(),
            reported: VecDeque::new(),
            words: vec![None; count],
            met: None,
            reports: (0..count).map(|_| None).collect(),
            tasks: VecDeque::new(),
            neighbours: count,
            members: vec![None; count],
            aligned: vec![None; count],
            progress: vec![0; count],
            heard: vec![now; count],
            gone: Vec::new(),
            told: now,
            tells_every: ALIVE.min(patience / 4),
            looked: now,
            stands_still_after: patience / 2,
            stood_still: None,
            ended: None,
            is_over: false,
        };
        for _ in 0..LISTENING {
            link.listen()?;
        }
        Ok(link)
    }

    /// Prepares for a plan with so many segments, in the memory of this rank.
    pub(super) fn begin_run(&mut self, memory: Arc<Memory>, segments: u32) {
        (self.memory, self.segments) = (Some(memory), segments);
        self.stood_still = None;
        self.events.clear();
        self.reported.clear();
    }

    pub(super) fn largest_tag(&self) -> u32 {
        self.endpoint.largest_tag()
    }

    /// Name and version of what connects the processes; the name of this host.
    pub(super) fn names(&mut self) -> Result<(String, String), WorldError> {
        self.endpoint.names()
    }

    /// Ends the connection, together with all others. No messages may be left.
    pub(super) fn finish(mut self) -> Result<(), WorldError> {
        // MPI must not be left with receives under way, and may not be asked to forget them: what this process says to itself fills them.
        for _ in 0..self.listening.len() {
            self.endpoint.send(Channel::Control, Bytes::Owned(Vec::new()), self.rank.0, 0)?;
        }
        let begin = Instant::now();
        while self.endpoint.under_way() > 0 && begin.elapsed() < FILL_WITHIN {
            self.endpoint.test(&mut self.done)?;
        }
        self.endpoint.finish()
    }

    /// Carries out a collective of MPI itself, which waits for all.
    pub(super) fn collective(&mut self, buffers: &mut CollectiveBuffers) -> Result<(), WorldError> {
        let ended = self.mpi().map(|endpoint| endpoint.collective(buffers));
        self.looked = Instant::now();
        Ok(ended.ok_or(WorldError::PacketsOnly)??)
    }

    /// MPI, if it is what connects the processes.
    pub(super) fn mpi(&mut self) -> Option<&mut Endpoint> {
        self.endpoint.mpi()
    }

    fn listen(&mut self) -> Result<(), Ended> {
        let ticket = self.endpoint.receive(Channel::Control, Bytes::Owned(vec![0; FRAME]), None, 0)?;
        self.listening.push_back((ticket, None));
        Ok(())
    }

    pub(super) fn tell(&mut self, to: Rank, packet: &Packet) -> Result<(), Ended> {
        for frame in frames(packet) {
            let sent = self.endpoint.send(Channel::Control, Bytes::Owned(frame), to.0, 0);
            self.telling.insert(sent?, ());
        }
        Ok(())
    }

    /// Sends a packet to a process, possibly this one; the number behind the last rank's is the coordinator at rank 0.
    pub(super) fn tell_anybody(&mut self, to: Rank, packet: Packet) -> Result<(), Ended> {
        let to = if to.0 == self.size { Rank(0) } else { to };
        if to == self.rank { self.open(to, packet) } else { self.tell(to, &packet) }
    }

    /// Sends a packet to all others; returns the first error.
    pub(super) fn tell_all(&mut self, packet: &Packet) -> Result<(), Ended> {
        let others = (0..self.size).map(Rank).filter(|rank| *rank != self.rank);
        let told: Vec<Result<(), Ended>> =
            others.collect::<Vec<_>>().into_iter().map(|rank| self.tell(rank, packet)).collect();
        told.into_iter().collect()
    }

    pub(super) fn abort(&mut self) {
        if self.ended != Some(Ended::Aborted) {
            // Whoever cannot be told finds out by itself.
            let _ = self.tell_all(&Packet::Abort);
        }
        self.ended = Some(Ended::Aborted);
    }

    pub(super) fn has_told(&self) -> bool {
        self.telling.is_empty()
    }

    pub(super) fn send(&mut self, transfer: Outgoing) -> Result<(), Ended> {
        let Outgoing { key, bytes, word, checksum } = transfer;
        let at_s = self.clock.now_s();
        self.tell(key.dst, &Packet::Header(Header { key, shape: transfer.shape(), word, checksum, at_s }))?;
        match bytes.filter(|region| region.len > 0) {
            Some(region) => {
                let (channel, tag) = self.tag(&key);
                let bytes = self.lend(region, false);
                let ticket = self.endpoint.send(channel, bytes, key.dst.0, tag);
                self.sending.insert(ticket?, (key, at_s));
            }
            None => self.events.push_back(Event::Sent { key, begin_s: at_s, end_s: at_s }),
        }
        Ok(())
    }

    pub(super) fn receive(&mut self, transfer: Incoming) -> Result<(), Ended> {
        let key = transfer.key;
        let region = transfer.bytes.filter(|region| region.len > 0);
        let header = self.early.remove(&key);
        let awaited = Awaited { transfer, at_s: self.clock.now_s(), header, has_bytes: region.is_none() };
        if self.disagrees(&awaited) {
            return Ok(());
        }
        self.awaited.insert(key, awaited);
        if let Some(region) = region {
            let (channel, tag) = self.tag(&key);
            let bytes = self.lend(region, true);
            let ticket = self.endpoint.receive(channel, bytes, Some(key.src.0), tag);
            self.receiving.insert(ticket?, key);
        }
        self.arrive(key);
        Ok(())
    }

    fn lend(&self, region: Region, is_written: bool) -> Bytes {
        let memory = self.memory.as_ref().expect("transfers belong to a run, which has memory");
        Bytes::Lent(Box::new(memory.lend(region, is_written)))
    }

    /// Under which tag the bytes of a transfer travel. Those of a plan have their numbers, which tell all between two ranks apart; those of
    /// calls are told apart by all that is in a key.
    fn tag(&self, key: &TransferKey) -> (Channel, u32) {
        if !is_of_call(key) {
            return (Channel::Data, key.number);
        }
        let stage = key.stage as u32;
        let place = (key.number - CALLS) * STAGES + stage;
        (Channel::Calls, place * self.segments + key.segment.0)
    }

    /// How long this process was suspended, if it was, up to this moment: whoever reports a failure asks, as a process that was stopped
    /// inside a call of MPI goes on behind its last poll.
    pub(super) fn suspension(&mut self) -> Option<Duration> {
        let since = self.looked.elapsed();
        self.looked += since;
        if since > self.stands_still_after {
            self.stood_still = Some(since);
        }
        self.stood_still
    }

    /// Polls the connection and handles completed messages; whether there were any.
    pub(super) fn advance(&mut self) -> Result<bool, Ended> {
        self.suspension();
        self.stay_alive()?;
        let mut done = std::mem::take(&mut self.done);
        let tested = self.endpoint.test(&mut done);
        if let Err(Ended::Lost(rank)) = &tested {
            self.gone.push(*rank);
        }
        let has_come = !done.is_empty();
        let taken = done.drain(..).try_for_each(|message| self.take(message));
        self.done = done;
        let opened = self.open_packets();
        let result = tested.and(taken).and(opened);
        if let Err(ended) = &result {
            self.ended.get_or_insert_with(|| ended.clone());
        }
        result.map(|()| has_come)
    }

    fn take(&mut self, message: Done) -> Result<(), Ended> {
        let ticket = message.ticket;
        if self.telling.remove(&ticket).is_some() {
            return message.error.map_or(Ok(()), |error| Err(lost(Rank(message.peer), &error)));
        }
        if let Some((key, begin_s)) = self.sending.remove(&ticket) {
            if let Some(error) = message.error {
                return Err(lost(key.dst, &error));
            }
            let end_s = self.clock.now_s();
            self.events.push_back(Event::Sent { key, begin_s, end_s });
            return Ok(());
        }
        if let Some(key) = self.receiving.remove(&ticket) {
            return self.take_bytes(key, message);
        }
        let place = self.listening.iter_mut().find(|(own, _)| *own == ticket);
        let (_, came) = place.expect("a message is one of those under way");
        *came = Some(message);
        Ok(())
    }

    fn take_bytes(&mut self, key: TransferKey, message: Done) -> Result<(), Ended> {
        let (len, expected) = (message.len, message.bytes.len());
        match message.error {
            // The header says what the sender meant.
            Some(error) if error.is_truncation() => return Ok(()),
            Some(error) => return Err(lost(key.src, &error)),
            None if len != expected => return Ok(()),
            None => {}
        }
        // The loan ends: from here on the bytes are the rank's.
        drop(message);
        if let Some(awaited) = self.awaited.get_mut(&key) {
            awaited.has_bytes = true;
            self.arrive(key);
        }
        Ok(())
    }

    /// Reports a transfer once both its header and its bytes have come.
    fn arrive(&mut self, key: TransferKey) {
        let is_here = |awaited: &Awaited| awaited.has_bytes && awaited.header.is_some();
        if !self.awaited.get(&key).is_some_and(is_here) {
            return;
        }
        let Some(Awaited { transfer, at_s, header: Some(header), .. }) = self.awaited.remove(&key) else {
            return;
        };
        let Header { word, checksum, at_s: offered_s, .. } = header;
        let end_s = self.clock.now_s();
        let begin_s = at_s.max(offered_s).min(end_s);
        self.events.push_back(Event::Received(Received { transfer, word, checksum, begin_s, end_s }));
    }

    /// Whether the sender's shape differs from this rank's; if so, reports it.
    fn disagrees(&mut self, awaited: &Awaited) -> bool {
        let Awaited { transfer, header: Some(Header { key, shape: offered, .. }), .. } = awaited else {
            return false;
        };
        let (key, offered, expected) = (*key, *offered, transfer.shape());
        let disagrees = offered != expected;
        if disagrees {
            self.events.push_back(Event::Disagreed { key, offered, expected });
        }
        disagrees
    }

    /// Opens packets that have come, in the order in which they came.
    fn open_packets(&mut self) -> Result<(), Ended> {
        while self.listening.front().is_some_and(|(_, came)| came.is_some()) {
            let Some((_, Some(message))) = self.listening.pop_front() else { break };
            self.listen()?;
            let Done { bytes: Bytes::Owned(bytes), len, peer, error, .. } = message else {
                unreachable!("frames have bytes of their own")
            };
            if let Some(error) = error {
                return Err(Ended::Broken(error.to_string()));
            }
            let from = Rank(peer);
            self.heard[from.index()] = Instant::now();
            let packet = self.partial[from.index()].take(&bytes[..len]);
            let broken = |why: String| Ended::Broken(format!("rank {from} has sent {why}"));
            if let Some(packet) = packet.map_err(broken)? {
                self.open(from, packet)?;
            }
        }
        Ok(())
    }

    fn open(&mut self, from: Rank, packet: Packet) -> Result<(), Ended> {
        match packet {
            Packet::Present(member) => self.members[from.index()] = Some(member),
            Packet::Neighbours(ranks) => self.set_neighbours(&ranks),
            Packet::Header(header) => {
                let key = header.key;
                if let Some(mut awaited) = self.awaited.remove(&key) {
                    if awaited.header.replace(header).is_some() {
                        self.events.push_back(Event::Repeated(key));
                    }
                    if !self.disagrees(&awaited) {
                        self.awaited.insert(key, awaited);
                        self.arrive(key);
                    }
                } else if self.early.insert(key, header).is_some() {
                    self.events.push_back(Event::Repeated(key));
                }
            }
            Packet::Reported(message) => self.reported.push_back(message),
            Packet::Told(message) => self.events.push_back(Event::Told(message)),
            Packet::Word(word) => self.words[from.index()] = Some(word),
            Packet::Words(words) => self.met = Some(words),
            Packet::Alive(count) => self.progress[from.index()] = count,
            Packet::Report(report) => {
                let kept = &mut self.reports[from.index()];
                if kept.as_ref().is_none_or(|kept| kept.failed.is_none() && report.has_failed_itself()) {
                    *kept = Some(*report);
                }
            }
            Packet::Abort => {
                self.ended.get_or_insert(Ended::Aborted);
            }
            Packet::Task(task) => self.tasks.push_back(task),
            Packet::Align => {
                let own_s = self.clock.own_s();
                self.tell(from, &Packet::Ask(own_s))?;
            }
            Packet::Ask(asked_s) => {
                let now_s = self.clock.now_s();
                self.tell(from, &Packet::Answer(asked_s, now_s))?;
            }
            Packet::Answer(asked_s, theirs_s) => {
                let packet = match self.clock.answer(asked_s, theirs_s) {
                    None => Packet::Ask(self.clock.own_s()),
                    Some(residual_s) => Packet::Aligned(residual_s),
                };
                self.tell(from, &packet)?;
            }
            Packet::Aligned(residual_s) => self.aligned[from.index()] = Some(residual_s),
            Packet::End => self.is_over = true,
        }
        Ok(())
    }

    pub(super) fn set_neighbours(&mut self, ranks: &[u32]) {
        self.neighbours = ranks.len();
        self.endpoint.set_near(ranks);
    }

    /// Whether all ranks have reported that can.
    pub(super) fn has_all_reports(&self) -> bool {
        (0..).map(Rank).zip(&self.reports).all(|(rank, report)| report.is_some() || self.gone.contains(&rank))
    }

    pub(super) fn count_progress(&mut self) {
        self.progress[self.rank.index()] += 1;
    }

    /// Changes whenever something ends anywhere, as far as is known here.
    pub(super) fn progress(&self) -> u64 {
        self.progress.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Sends heartbeats when they are due: rank 0 to all, others to rank 0.
    fn stay_alive(&mut self) -> Result<(), Ended> {
        if self.told.elapsed() < self.tells_every || self.is_over {
            return Ok(());
        }
        self.told = Instant::now();
        let (own, all) = (self.progress[self.rank.index()], self.progress());
        if self.rank == Rank(0) {
            self.tell_all(&Packet::Alive(all))
        } else {
            self.tell(Rank(0), &Packet::Alive(own))
        }
    }

    /// First rank that has been silent for longer than `limit`, among those whose heartbeats come here.
    pub(super) fn silent(&self, limit: Duration) -> Option<Rank> {
        let hears = |rank: &Rank| *rank != self.rank && (self.rank == Rank(0) || *rank == Rank(0));
        (0..self.size).map(Rank).filter(hears).find(|rank| self.heard[rank.index()].elapsed() > limit)
    }
}

/// Stages of exchanges that tags tell apart.
const STAGES: u32 = zipwire_schedule::Stage::ALL.len() as u32;

/// Numbers that the calls of a plan need as tags, for calls with so many parts.
pub(super) fn call_tags(segments: u32, parts: u32) -> u64 {
    u64::from(segments) * u64::from(STAGES) * 2 * u64::from(parts)
}

/// How long a waiting thread polls without a pause after the last message: where each process of the host has a core, and where processes share
/// cores, which working ones need.
const EAGER: Duration = Duration::from_millis(2);
const EAGER_ON_SHARED_CORES: Duration = Duration::from_micros(50);
/// Longest pause between two polls.
const LONGEST_PAUSE: Duration = Duration::from_micros(500);
/// State shared by the rank's thread and the helper.
pub(super) struct Shared {
    pub(super) link: Mutex<Option<Link>>,
    /// Whether the rank's thread drives the link itself.
    pub(super) is_waiting: AtomicBool,
    pub(super) is_over: AtomicBool,
    /// Set when the user wants all to end.
    pub(super) cancel: Arc<AtomicBool>,
    pub(super) status: Mutex<Option<StatusFile>>,
    pub(super) cores: usize,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the status of this process, if there is a status file; `doing` is called only then.
    pub(super) fn note(&self, doing: impl FnOnce() -> String) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = status.as_mut() {
            status.write(&doing());
        }
    }

    pub(super) fn keeps_notes(&self) -> bool {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Runs `what` with the locked link.
    pub(super) fn with<R>(&self, what: impl FnOnce(&mut Link) -> R) -> R {
        what(self.lock().as_mut().expect("the link is there until the world ends"))
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Drives the link until `found` finds something, or the time is over. `found` sees the link each time something may have come.
    pub(super) fn wait<R>(
        &self,
        limit: Duration,
        mut found: impl FnMut(&mut Link) -> Option<R>,
    ) -> Option<R> {
        self.is_waiting.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        let mut quiet_since = begin;
        let result = loop {
            let (result, has_come, neighbours) = self.with(|link| {
                // What has ended is said by what `found` looks at.
                let has_come = link.advance().unwrap_or(false);
                (found(link), has_come, link.neighbours)
            });
            let now = Instant::now();
            if result.is_some() || now - begin >= limit {
                break result;
            }
            if has_come {
                quiet_since = now;
            }
            let quiet = now - quiet_since;
            let eager = if neighbours <= self.cores { EAGER } else { EAGER_ON_SHARED_CORES };
            if quiet < eager {
                std::thread::yield_now();
            } else {
                std::thread::sleep((quiet / 8).min(LONGEST_PAUSE).min(limit - (now - begin)));
            }
        };
        self.is_waiting.store(false, Ordering::Relaxed);
        result
    }

    /// Keeps messages moving while the rank's thread does something else.
    pub(super) fn help(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(LONGEST_PAUSE);
            if self.is_waiting.load(Ordering::Relaxed) {
                continue;
            }
            if let Ok(mut link) = self.link.try_lock()
                && let Some(link) = link.as_mut()
            {
                // Whoever looks at the link next finds why.
                let _ = link.advance();
            }
        }
    }
}
