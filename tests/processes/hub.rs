//! Between the pipes of all ranks: hands packets on, later and in another order, and knows who is gone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire::engine::host::{RunReport, RunResult};
use zipwire::engine::{RankReport, conclude};
use zipwire::schedule::Rank;
use zipwire::timeline::Timeline;
use zipwire::{Cancel, Prepared};

use super::rank::{SEPARATOR, VARIABLE, resolve};
use super::wire::{self, Envelope, Packet, Parcel};

/// The longest that a packet is held back.
const LONGEST: Duration = Duration::from_millis(2);
/// No run of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Planted failures.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mischief {
    /// A rank that is killed when so many packets have come from it.
    pub(crate) killed: Option<(u32, usize)>,
    /// A rank that reads another scenario than the others.
    pub(crate) odd: Option<(u32, &'static str)>,
    /// Two ranks between which the first bytes arrive with a flipped bit.
    pub(crate) flipped: Option<(u32, u32)>,
}

/// A scenario whose ranks are to run.
pub(crate) struct Hub {
    pub(crate) file: String,
    pub(crate) sets: Vec<String>,
    pub(crate) mischief: Mischief,
}

/// A packet from a rank, or the end of its pipe.
type News = (Rank, Option<Parcel>);

/// The ranks that run.
struct Ranks {
    children: Vec<Child>,
    /// To the thread that writes into each rank's pipe.
    posts: Vec<Sender<Parcel>>,
    news: Receiver<News>,
}

/// Packets that have come and are to be handed on.
struct State {
    random: ChaCha8Rng,
    /// By when and in which order they came; the places of parcels.
    later: BinaryHeap<Reverse<(Instant, usize)>>,
    parcels: Vec<Option<(Rank, Parcel)>>,
    heard: Vec<usize>,
    words: Vec<Option<Vec<u8>>>,
    reports: Vec<Option<RankReport>>,
    has_failed: Vec<bool>,
    is_gone: Vec<bool>,
    flipped: Option<(u32, u32)>,
    /// Reports of all ranks, by iteration.
    results: Vec<Vec<RankReport>>,
}

impl Hub {
    /// Runs all variants, and gives results up to the first that failed.
    pub(crate) fn run(&self) -> Vec<RunResult> {
        let experiment = resolve(&self.file, &self.sets);
        let prepared =
            Prepared::new(&experiment, &Cancel::new()).expect("scenarios of the tests can be planned");
        let ranks = experiment.job().rank_count;
        let mut gathered =
            self.gather(ranks, experiment.variants.len() * experiment.iterations as usize).into_iter();
        let mut results = Vec::new();
        for index in 0..experiment.variants.len() {
            let plan = &prepared.planned(index).plan;
            let (mut timeline, mut bytes_verified) = (Timeline::default(), 0);
            let mut codec_work = zipwire::engine::host::CodecWork::default();
            for iteration in 0..experiment.iterations {
                let Some(mut reports) = gathered.next() else { return results };
                bytes_verified += reports.iter().map(|report| report.bytes_verified).sum::<u64>();
                reports.iter().for_each(|report| codec_work.merge(&report.codec_work));
                if let Err(failure) = conclude(plan, None, iteration, &mut reports, &mut timeline) {
                    results.push(Err(failure));
                    return results;
                }
            }
            results.push(Ok(Some(RunReport { timeline, bytes_verified, codec_work, unfired: Vec::new() })));
        }
        results
    }

    /// Reports of all ranks on so many iterations, or until some rank fails.
    fn gather(&self, ranks: u32, iterations: usize) -> Vec<Vec<RankReport>> {
        let running = self.start(ranks);
        let count = ranks as usize;
        let mut state = State {
            random: ChaCha8Rng::seed_from_u64(17),
            later: BinaryHeap::new(),
            parcels: Vec::new(),
            heard: vec![0; count],
            words: vec![None; count],
            reports: (0..count).map(|_| None).collect(),
            has_failed: vec![false; count],
            is_gone: vec![false; count],
            flipped: self.mischief.flipped,
            results: Vec::new(),
        };
        let Ranks { mut children, posts, news } = running;
        let begin = Instant::now();
        while !state.is_gone.iter().all(|&gone| gone) {
            assert!(begin.elapsed() < PATIENCE, "ranks do not end: {:?}", state.is_gone);
            state.hand_on(&posts);
            match news.recv_timeout(state.pause()) {
                Ok((rank, Some(parcel))) => {
                    state.heard[rank.index()] += 1;
                    if self.mischief.killed == Some((rank.0, state.heard[rank.index()])) {
                        children[rank.index()].kill().expect("it is a child");
                    }
                    state.take(&posts, parcel);
                }
                Ok((rank, None)) => {
                    let has_ended = state.has_failed[rank.index()]
                        || state.results.len() == iterations
                        || state.results.len() + 1 == iterations && state.reports[rank.index()].is_some();
                    state.lose(&posts, rank, has_ended);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        drop(posts);
        for child in &mut children {
            child.wait().expect("it is a child");
        }
        state.results
    }

    fn start(&self, ranks: u32) -> Ranks {
        let epoch =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970").as_nanos();
        let program = std::env::current_exe().expect("this program is a file");
        let (hear, news) = channel();
        let (mut children, mut posts) = (Vec::new(), Vec::new());
        for rank in 0..ranks {
            let own = self.mischief.odd.filter(|(odd, _)| *odd == rank).map(|(_, set)| set.to_owned());
            let mut task = vec![rank.to_string(), epoch.to_string(), self.file.clone()];
            task.extend(self.sets.iter().cloned().chain(own));
            let mut child = Command::new(&program)
                .env(VARIABLE, task.join(&SEPARATOR.to_string()))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("this program can be started again");
            let mut input = child.stdin.take().expect("it is a pipe");
            let mut output = child.stdout.take().expect("it is a pipe");
            let (post, letters) = channel::<Parcel>();
            std::thread::spawn(move || {
                // A rank that is gone reads nothing more.
                letters.iter().try_for_each(|parcel| wire::write(&mut input, &parcel)).ok();
            });
            let hear = hear.clone();
            std::thread::spawn(move || {
                loop {
                    let parcel = wire::read(&mut output).ok();
                    let has_ended = parcel.is_none();
                    if hear.send((Rank(rank), parcel)).is_err() || has_ended {
                        return;
                    }
                }
            });
            children.push(child);
            posts.push(post);
        }
        Ranks { children, posts, news }
    }
}

impl State {
    fn take(&mut self, posts: &[Sender<Parcel>], (envelope, mut bytes): Parcel) {
        let Envelope { from, to, packet, .. } = envelope;
        if let (Some((src, dst)), Packet::Bytes(key)) = (self.flipped, &packet)
            && (key.src.0, key.dst.0) == (src, dst)
            && let Some(byte) = bytes.last_mut()
        {
            *byte ^= 1;
            self.flipped = None;
        }
        match packet {
            Packet::Word(word) => {
                self.words[from.index()] = Some(word);
                if self.words.iter().all(Option::is_some) {
                    let words: Vec<_> = self.words.iter_mut().filter_map(Option::take).collect();
                    tell_all(posts, None, &Packet::Words(words));
                }
            }
            Packet::Report(report) => {
                self.has_failed[from.index()] |= report.failed.is_some();
                let kept = &mut self.reports[from.index()];
                if kept.as_ref().is_none_or(|kept| kept.failed.is_none() && report.has_failed_itself()) {
                    *kept = Some(*report);
                }
                self.conclude_if_all(posts);
            }
            Packet::Abort | Packet::Progress => tell_all(posts, Some(from), &packet),
            // All that ranks tell one another may take its time and be overtaken.
            Packet::Offer { .. } | Packet::Go(_) | Packet::Bytes(_) | Packet::Told(_) => {
                let to = to.expect("such packets are for a rank");
                let late = LONGEST.mul_f64(self.random.random_range(0.0..1.0));
                self.later.push(Reverse((Instant::now() + late, self.parcels.len())));
                let envelope = Envelope { from, to: Some(to), packet, len: bytes.len() as u64 };
                self.parcels.push(Some((to, (envelope, bytes))));
            }
            Packet::Words(_) | Packet::Reports(_) | Packet::Lost(_) => panic!("only the hub says so"),
        }
    }

    /// When the next packet is to be handed on.
    fn pause(&self) -> Duration {
        let next = self.later.peek().map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()));
        next.unwrap_or(Duration::from_millis(50))
    }

    fn hand_on(&mut self, posts: &[Sender<Parcel>]) {
        while let Some(Reverse((at, place))) = self.later.peek().copied() {
            if at > Instant::now() {
                return;
            }
            self.later.pop();
            let (to, parcel) = self.parcels[place].take().expect("a packet is handed on once");
            // Those who are gone miss nothing.
            let _ = posts[to.index()].send(parcel);
        }
    }

    /// The pipe of a rank has ended, as it does when the rank has done all, or has failed and said so.
    fn lose(&mut self, posts: &[Sender<Parcel>], rank: Rank, has_ended: bool) {
        self.is_gone[rank.index()] = true;
        if !has_ended {
            tell_all(posts, Some(rank), &Packet::Lost(rank));
        }
        self.conclude_if_all(posts);
    }

    /// When all that are there have reported an iteration, rank 0 hears of it.
    fn conclude_if_all(&mut self, posts: &[Sender<Parcel>]) {
        let Self { reports, is_gone, .. } = self;
        let is_missing = |(report, gone): (&Option<RankReport>, &bool)| report.is_none() && !gone;
        if reports.iter().zip(&*is_gone).any(is_missing) || reports.iter().all(Option::is_none) {
            return;
        }
        let reports: Vec<RankReport> = reports.iter_mut().filter_map(Option::take).collect();
        tell(posts, Rank(0), Packet::Reports(reports.clone()));
        self.results.push(reports);
    }
}

fn tell_all(posts: &[Sender<Parcel>], but: Option<Rank>, packet: &Packet) {
    let ranks = (0..).map(Rank).take(posts.len()).filter(|rank| Some(*rank) != but);
    ranks.for_each(|rank| tell(posts, rank, packet.clone()));
}

fn tell(posts: &[Sender<Parcel>], to: Rank, packet: Packet) {
    let envelope = Envelope { from: to, to: Some(to), packet, len: 0 };
    // Those who are gone miss nothing.
    let _ = posts[to.index()].send((envelope, Vec::new()));
}
