//! The coordinator: it tells the machine of `zipwire-serving` what has happened, and ranks what to do.
//!
//! It holds no bytes of caches. Events carry the times that ranks report, so late messages do not delay what follows.

mod flows;
mod hear;
mod instances;

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{Failure, FailureKind, Rank, Stage};
use zipwire_serving::{Census, Input, Loss, Machine, Recorder, RequestId, Step};

use self::flows::{Open, Shards};
use self::instances::Working;
use super::agenda::Agenda;
use super::job::Job;
use super::message::{Command, Message, ShardId, Totals};
use super::rank::ended;
use super::{Lost, segment};
use crate::failure_report::Standstill;
use crate::report::panicked;
use crate::transport::{self, Ended, Event, Transport};

/// Longest sleep between two checks whether all ranks are alive.
const LOOK: Duration = Duration::from_millis(50);
/// How long ranks may take to end after the run is over.
const GOODBYE: Duration = Duration::from_secs(30);

/// An event at a known time.
#[derive(Clone, Copy, Debug)]
enum Due {
    Arrival(RequestId),
    Cancel(RequestId),
}

/// Result of the coordinator.
pub(super) struct Decided {
    pub(super) recorder: Recorder,
    pub(super) census: Census,
    pub(super) bytes_raw: u64,
    pub(super) bytes_wire: u64,
    pub(super) unanswered_at_last_arrival: u32,
    pub(super) lost: Vec<Lost>,
    pub(super) totals: Totals,
    pub(super) end_s: f64,
}

/// See the module documentation.
struct Coordinator<'a> {
    job: &'a Job<'a>,
    transport: &'a mut dyn Transport,
    machine: Machine<'a>,
    origin_s: f64,
    agenda: Agenda<Due>,
    arrivals_left: usize,
    /// Prefill instances, then those that decode.
    instances: Vec<Working>,
    /// Open shards of each flow.
    flows: Vec<Shards>,
    open: BTreeMap<ShardId, Open>,
    next_shard: u32,
    begun_flows: u32,
    /// When both ends of each request have agreed; nothing of it moves before.
    agreed_s: Vec<f64>,
    tags: HashMap<(Rank, Rank), u32>,
    /// When each rank was last heard; `None` before it is there.
    heard: Vec<Option<Instant>>,
    looked: Instant,
    /// Ranks that have said nothing for too long.
    gone: Vec<bool>,
    said_goodbye: Vec<bool>,
    decided: Decided,
}

/// Decides until all requests have ended.
///
/// # Errors
/// If a rank or the coordinator has failed; all ranks have been told.
pub(super) fn coordinate(job: &Job<'_>, transport: &mut dyn Transport) -> Result<Decided, Failure> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut coordinator = Coordinator::new(job, transport);
        coordinator.serve().map(|()| coordinator.decided)
    }));
    let ran = ran.unwrap_or_else(|panic| {
        let failure = panicked(Rank(0), &*panic).failure;
        Err(Failure { detail: format!("the coordinator: {}", failure.detail), ..failure })
    });
    ran.inspect_err(|failure| transport.abort(failure))
}

impl<'a> Coordinator<'a> {
    fn new(job: &'a Job<'a>, transport: &'a mut dyn Transport) -> Self {
        let setup = job.setup;
        let ranks = job.ranks as usize;
        let decided = Decided {
            recorder: Recorder::new(setup.requests.len(), setup.config.decode.instances),
            census: Census::default(),
            bytes_raw: 0,
            bytes_wire: 0,
            unanswered_at_last_arrival: 0,
            lost: Vec::new(),
            totals: Totals::default(),
            end_s: 0.0,
        };
        Self {
            job,
            transport,
            machine: Machine::new(setup.requests, setup.config),
            origin_s: 0.0,
            agenda: Agenda::new(),
            arrivals_left: setup.requests.len(),
            instances: instances::all(job),
            flows: Vec::new(),
            open: BTreeMap::new(),
            next_shard: 0,
            begun_flows: 0,
            agreed_s: vec![0.0; setup.requests.len()],
            tags: HashMap::new(),
            heard: vec![None; ranks],
            looked: Instant::now(),
            gone: vec![false; ranks],
            said_goodbye: vec![false; ranks],
            decided,
        }
    }

    fn serve(&mut self) -> Result<(), Failure> {
        self.begin()?;
        let mut standstill = Standstill::new(self.transport.progress());
        let until_s = self.job.setup.until_s.map_or(f64::INFINITY, |until_s| self.job.compute_s(until_s));
        while !self.is_over() {
            let wait_s = (self.agenda.next_s().min(until_s) - self.now_s()).max(0.0) * self.job.dilation();
            self.listen(Duration::try_from_secs_f64(wait_s).unwrap_or(LOOK).min(LOOK))?;
            while let Some((at_s, due)) = self.agenda.pop(self.now_s().min(until_s)) {
                self.happen(at_s, due)?;
            }
            if self.now_s() >= until_s {
                self.stop_all()?;
                break;
            }
            self.look_for_lost()?;
            if !self.agenda.is_empty() {
                // Something is going to happen here: no standstill.
                self.transport.count_progress();
            }
            if standstill.lasts(self.transport.progress(), self.job.setup.stuck_after) {
                return Err(self.stuck());
            }
        }
        self.end()
    }

    /// Waits for all ranks, and begins with all at the same time.
    fn begin(&mut self) -> Result<(), Failure> {
        while self.heard.iter().any(Option::is_none) {
            // Ranks that are not there yet have met no one: who waits for them in vain says so.
            self.listen(LOOK)?;
        }
        self.origin_s = self.transport.now_s();
        self.tell_all(Command::Begin { origin_s: self.origin_s })?;
        for (id, request) in self.job.setup.requests.ids().zip(self.job.setup.requests.list()) {
            self.agenda.push(self.job.compute_s(request.arrival_s), Due::Arrival(id));
        }
        for trouble in self.job.setup.troubles {
            // Who dies says nothing, and is missed.
            if let Loss::Request(request) = trouble.what {
                self.agenda.push(self.job.compute_s(trouble.at_s), Due::Cancel(request));
            }
        }
        Ok(())
    }

    /// Ends the run at its latest end, even if requests are still being served.
    fn stop_all(&mut self) -> Result<(), Failure> {
        if self.arrivals_left > 0 {
            self.decided.unanswered_at_last_arrival = self.machine.census().unanswered;
        }
        for (shard, open) in std::mem::take(&mut self.open) {
            self.tell(open.src, Command::Stop(shard))?;
        }
        Ok(())
    }

    /// Tells ranks to end, and waits until nothing is under way.
    fn end(&mut self) -> Result<(), Failure> {
        self.decided.end_s = self.now_s();
        self.decided.census = self.machine.census();
        // Also those that are gone: on a machine that plays them they are there.
        self.gone.fill(false);
        self.tell_all(Command::End)?;
        let begin = Instant::now();
        while self.said_goodbye.contains(&false) {
            self.listen(LOOK)?;
            if begin.elapsed() > GOODBYE {
                let silent = self.said_goodbye.iter().position(|said| !said).unwrap_or(0);
                let detail = "it has not said that it has ended";
                return Err(Failure::new(Rank(silent as u32), None, FailureKind::Timeout, detail));
            }
        }
        Ok(())
    }

    fn happen(&mut self, at_s: f64, due: Due) -> Result<(), Failure> {
        match due {
            Due::Arrival(request) => {
                self.machine.handle(Input::Arrived(request));
                self.arrivals_left -= 1;
            }
            Due::Cancel(request) => self.machine.handle(Input::Cancelled(request)),
        }
        self.decide(at_s)?;
        if matches!(due, Due::Arrival(_)) && self.arrivals_left == 0 {
            self.decided.unanswered_at_last_arrival = self.machine.census().unanswered;
        }
        Ok(())
    }

    /// Carries out the steps of the machine until it has no more.
    fn decide(&mut self, at_s: f64) -> Result<(), Failure> {
        while let Some(step) = self.machine.poll() {
            match step {
                Step::Prefill(step) => self.begin_prefill(&step, at_s)?,
                Step::Decode(step) => self.begin_step(step, at_s)?,
                Step::Move(id, flow) => self.begin_flow(id, &flow, at_s)?,
                Step::Stop(id) => self.stop_flow(id)?,
                Step::Tokens { instance, continuing } => {
                    self.decided.recorder.step(at_s, instance, continuing);
                }
                Step::Note(request, moment) => self.decided.recorder.note(at_s, request, moment),
            }
        }
        Ok(())
    }

    /// Whether all requests have ended and no work is open.
    fn is_over(&self) -> bool {
        if !self.open.is_empty() || self.instances.iter().any(|instance| instance.is_busy) {
            return false;
        }
        let left = if self.arrivals_left == 0 { self.machine.census().in_flight } else { 1 };
        let is_over = left == 0 || self.agenda.is_empty();
        assert!(!is_over || left == 0, "nothing happens any more, and {left} requests are not served");
        is_over
    }

    /// Handles messages of ranks: waits `timeout` for the first, and takes all that are there.
    fn listen(&mut self, timeout: Duration) -> Result<(), Failure> {
        let mut wait = timeout;
        loop {
            let event = self.transport.poll(wait).map_err(|why| self.ended(&why))?;
            match event {
                Some(Event::Told(transport::Message::Serving(Message::Report(rank, report)))) => {
                    self.hear(rank, report)?;
                }
                Some(_) => {}
                None => return Ok(()),
            }
            wait = Duration::ZERO;
        }
    }

    /// Declares ranks lost that have been silent for too long.
    fn look_for_lost(&mut self) -> Result<(), Failure> {
        let limit = self.job.setup.lost_after;
        if self.looked.elapsed() > limit / 2 {
            // It was this process that stood still.
            self.heard.iter_mut().flatten().for_each(|heard| *heard = Instant::now());
        }
        self.looked = Instant::now();
        for index in 0..self.gone.len() {
            let is_silent = self.heard[index].is_some_and(|heard| heard.elapsed() > limit);
            if is_silent && !self.gone[index] {
                self.lose(Rank(index as u32))?;
            }
        }
        Ok(())
    }

    /// Failure of a standstill: it names the receiver and the sender of the oldest shard on its way.
    fn stuck(&self) -> Failure {
        let seconds = self.job.setup.stuck_after.as_secs_f64();
        let nothing = format!("nothing has ended on any rank for {seconds} s");
        let Some(open) = self.open.values().next() else {
            return Failure::new(Rank(0), None, FailureKind::Timeout, nothing);
        };
        let &Open { src, dst, request, .. } = open;
        let detail = format!("{nothing}; it waits for what rank {src} sends");
        let key = TransferKey { segment: segment(request), stage: Stage::Raw, src, dst, number: 0 };
        Failure { transfer: Some(key), ..Failure::new(dst, None, FailureKind::Timeout, detail) }
    }

    /// Seconds of the run.
    fn now_s(&self) -> f64 {
        (self.transport.now_s() - self.origin_s) / self.job.dilation()
    }

    fn tell(&mut self, to: Rank, command: Command) -> Result<(), Failure> {
        if self.gone[to.index()] {
            return Ok(());
        }
        let told = self.transport.tell(to, transport::Message::Serving(Message::Command(command)));
        told.map_err(|why| self.ended(&why))
    }

    fn tell_all(&mut self, command: Command) -> Result<(), Failure> {
        (0..self.job.ranks).try_for_each(|rank| self.tell(Rank(rank), command))
    }

    fn ended(&self, why: &Ended) -> Failure {
        ended(Rank(0), why)
    }
}
