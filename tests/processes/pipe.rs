//! The transport of one rank: a pipe to the hub and one back. It has the memory of this rank and no other.

use std::collections::{HashMap, VecDeque};
use std::io::{StdinLock, StdoutLock};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use zipwire::engine::transport::{
    Ended, Event, Incoming, Meeting, Message, Outgoing, Received, Shape, Transport,
};
use zipwire::engine::{Memory, RankReport};
use zipwire::schedule::plan::TransferKey;
use zipwire::schedule::{Failure, Rank};

use super::wire::{self, Envelope, Packet, Parcel};

/// How often others hear that something has ended here.
const PROGRESS: Duration = Duration::from_millis(200);
/// How long a rank waits for the others where all meet.
const MEET_WITHIN: Duration = Duration::from_secs(60);
/// How long rank 0 waits for the reports of the others.
const REPORTS_WITHIN: Duration = Duration::from_secs(20);

pub(crate) struct Pipe {
    rank: Rank,
    memory: Arc<Memory>,
    out: StdoutLock<'static>,
    inbox: Receiver<Parcel>,
    /// All ranks are on one machine, whose clock they share.
    epoch: SystemTime,
    sent: HashMap<TransferKey, Outgoing>,
    awaited: HashMap<TransferKey, Incoming>,
    /// Offers that this rank has not asked for yet: word and checksum.
    early: HashMap<TransferKey, Offer>,
    /// Transfers under way to this rank, and since when.
    coming: HashMap<TransferKey, (Incoming, Offer, f64)>,
    events: VecDeque<Event>,
    words: Option<Vec<Vec<u8>>>,
    reports: Option<Vec<RankReport>>,
    progress: u64,
    told: Instant,
    ended: Option<Ended>,
}

#[derive(Clone, Copy)]
struct Offer {
    shape: Shape,
    word: Option<u64>,
    checksum: u64,
}

impl Pipe {
    pub(crate) fn new(rank: Rank, memory: Arc<Memory>, epoch: SystemTime) -> Self {
        let (post, inbox) = channel();
        std::thread::spawn(move || {
            let mut input: StdinLock<'_> = std::io::stdin().lock();
            // Ends when the hub closes the pipe or this process ends.
            while let Ok(parcel) = wire::read(&mut input) {
                if post.send(parcel).is_err() {
                    return;
                }
            }
        });
        Self {
            rank,
            memory,
            out: std::io::stdout().lock(),
            inbox,
            epoch,
            sent: HashMap::new(),
            awaited: HashMap::new(),
            early: HashMap::new(),
            coming: HashMap::new(),
            events: VecDeque::new(),
            words: None,
            reports: None,
            progress: 0,
            told: Instant::now(),
            ended: None,
        }
    }

    /// The next plan's memory.
    pub(crate) fn set_memory(&mut self, memory: Arc<Memory>) {
        self.memory = memory;
    }

    fn post(&mut self, to: Option<Rank>, packet: Packet, bytes: Vec<u8>) -> Result<(), Ended> {
        let parcel = (Envelope { from: self.rank, to, packet, len: bytes.len() as u64 }, bytes);
        wire::write(&mut self.out, &parcel)
            .map_err(|error| Ended::Broken(format!("the hub is gone: {error}")))
    }

    fn open(&mut self, (envelope, bytes): Parcel) -> Result<(), Ended> {
        let Envelope { from, packet, .. } = envelope;
        match packet {
            Packet::Offer { key, shape, word, checksum } => {
                let offer = Offer { shape, word, checksum };
                match self.awaited.remove(&key) {
                    Some(transfer) => self.begin(transfer, offer)?,
                    None => {
                        if self.early.insert(key, offer).is_some() {
                            self.events.push_back(Event::Repeated(key));
                        }
                    }
                }
            }
            Packet::Go(key) => {
                let Some(Outgoing { bytes: region, .. }) = self.sent.remove(&key) else {
                    return Err(Ended::Broken(format!("{key:?} is asked for and not on offer")));
                };
                let begin_s = self.now_s();
                let bytes = region.map_or_else(Vec::new, |region| self.memory.read(&region).to_vec());
                self.post(Some(from), Packet::Bytes(key), bytes)?;
                let end_s = self.now_s();
                self.events.push_back(Event::Sent { key, begin_s, end_s });
            }
            Packet::Bytes(key) => {
                let Some((transfer, Offer { word, checksum, .. }, begin_s)) = self.coming.remove(&key) else {
                    return Err(Ended::Broken(format!("{key:?} comes without being asked for")));
                };
                if let Some(region) = transfer.bytes {
                    self.memory.write(&region).copy_from_slice(&bytes);
                }
                let end_s = self.now_s();
                self.events.push_back(Event::Received(Received { transfer, word, checksum, begin_s, end_s }));
            }
            Packet::Told(message) => self.events.push_back(Event::Told(message)),
            Packet::Progress => self.progress += 1,
            Packet::Words(words) => self.words = Some(words),
            Packet::Reports(reports) => self.reports = Some(reports),
            Packet::Abort => self.ended = Some(Ended::Aborted),
            Packet::Lost(rank) => {
                self.ended.get_or_insert(Ended::Lost(rank));
            }
            Packet::Word(_) | Packet::Report(_) => {
                return Err(Ended::Broken("the hub repeats a rank".to_owned()));
            }
        }
        Ok(())
    }

    /// Both ends are on offer.
    fn begin(&mut self, transfer: Incoming, offer: Offer) -> Result<(), Ended> {
        let (key, expected) = (transfer.key, transfer.shape());
        if offer.shape != expected {
            self.events.push_back(Event::Disagreed { key, offered: offer.shape, expected });
            return Ok(());
        }
        let begin_s = self.now_s();
        self.coming.insert(key, (transfer, offer, begin_s));
        self.post(Some(key.src), Packet::Go(key), Vec::new())
    }

    /// Takes in what comes until there is what is waited for, or until the run has ended, if that is asked for.
    fn wait_for<R>(
        &mut self,
        limit: Duration,
        or_end: bool,
        found: impl Fn(&mut Self) -> Option<R>,
    ) -> Result<R, Ended> {
        let begin = Instant::now();
        loop {
            if let Some(result) = found(self) {
                return Ok(result);
            }
            if let Some(ended) = self.ended.clone().filter(|_| or_end) {
                return Err(ended);
            }
            match self.inbox.recv_timeout(limit.saturating_sub(begin.elapsed())) {
                Ok(parcel) => self.open(parcel)?,
                Err(RecvTimeoutError::Timeout) => return Err(Ended::Broken("nobody answers".to_owned())),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Ended::Broken("the hub is gone".to_owned()));
                }
            }
        }
    }
}

impl Meeting for Pipe {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn now_s(&self) -> f64 {
        self.epoch.elapsed().map_or(0.0, |elapsed| elapsed.as_secs_f64())
    }

    fn barrier(&mut self, word: &[u8]) -> Result<Vec<Vec<u8>>, Ended> {
        self.post(None, Packet::Word(word.to_vec()), Vec::new())?;
        self.wait_for(MEET_WITHIN, true, |this| this.words.take())
    }

    fn rest(&mut self, timeout: Duration) -> Result<(), Ended> {
        match self.poll(timeout)? {
            None => Ok(()),
            Some(event) => Err(Ended::Broken(format!("{event:?} for a rank that hears of nothing"))),
        }
    }

    fn count_progress(&mut self) {
        self.progress += 1;
        if self.told.elapsed() >= PROGRESS {
            self.told = Instant::now();
            // If the hub is gone, whatever comes next says so.
            let _ = self.post(None, Packet::Progress, Vec::new());
        }
    }

    fn progress(&self) -> u64 {
        self.progress
    }

    fn abort(&mut self, _: &Failure) {
        let _ = self.post(None, Packet::Abort, Vec::new());
    }

    fn is_stopped(&self) -> bool {
        false
    }

    fn gather(&mut self, report: RankReport) -> Option<Vec<RankReport>> {
        let posted = self.post(None, Packet::Report(Box::new(report)), Vec::new());
        if self.rank != Rank(0) {
            return None;
        }
        // A run that has ended still has its reports.
        let reports = posted.and_then(|()| self.wait_for(REPORTS_WITHIN, false, |this| this.reports.take()));
        Some(reports.unwrap_or_default())
    }
}

impl Transport for Pipe {
    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    fn send(&mut self, transfer: Outgoing) -> Result<(), Ended> {
        let Outgoing { key, word, checksum, .. } = transfer;
        self.sent.insert(key, transfer);
        self.post(Some(key.dst), Packet::Offer { key, shape: transfer.shape(), word, checksum }, Vec::new())
    }

    fn receive(&mut self, transfer: Incoming) -> Result<(), Ended> {
        match self.early.remove(&transfer.key) {
            Some(offer) => self.begin(transfer, offer),
            None => {
                self.awaited.insert(transfer.key, transfer);
                Ok(())
            }
        }
    }

    fn tell(&mut self, to: Rank, message: Message) -> Result<(), Ended> {
        self.post(Some(to), Packet::Told(message), Vec::new())
    }

    fn poll(&mut self, timeout: Duration) -> Result<Option<Event>, Ended> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        match self.inbox.recv_timeout(timeout) {
            Ok(parcel) => self.open(parcel)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Ended::Broken("the hub is gone".to_owned())),
        }
        Ok(self.events.pop_front())
    }
}
