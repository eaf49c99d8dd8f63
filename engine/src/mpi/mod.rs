//! Ranks as processes: real bytes over MPI, or packets alone over TCP.
//!
//! Every process has a [`World`], which connects it with the others; rank 0 says what to do next ([`World::tell`]), and all run it
//! together ([`World::run`]). A transfer is one message from buffer to buffer, without a copy in between, and a short one ahead of it that
//! says what it is.
//!
//! The thread that holds the link's lock drives MPI, with calls that do not block: the rank's own thread while it waits, and a helper
//! thread while the rank codes, as most libraries move nothing unless they are called.

mod clock;
mod connection;
mod link;
mod packet;
mod rank;
mod status;
mod tcp;
mod watch;

pub use self::status::{Outcome, STATUS_VARIABLE, Status, alive_file, read_statuses};
pub use self::tcp::{MEET_VARIABLE, MeetError, TcpMeeting};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zipwire_codec::simd_level;
use zipwire_mpi::{Collective, CollectiveBuffers, Endpoint, Library, MpiError};
use zipwire_schedule::plan::Plan;
use zipwire_schedule::{Failure, FailureKind, Lane, Rank, RankEnd, RunFailure};
use zipwire_timeline::{Span, Timeline};

use self::connection::Connection;
use self::link::{Link, Shared, call_tags};
use self::packet::Packet;
use self::rank::MpiRank;
use self::status::{BEGUN, FAILED, StatusFile, TOLD};
use crate::control::refusal;
use crate::host::{self, HostSetup, Permits, RunResult, run_rank};
use crate::memory::Memory;
use crate::report::{RankReport, STUCK_AFTER};
use crate::transport::{Ended, Meeting};

/// How long processes wait until all have begun.
const MEET_WITHIN: Duration = Duration::from_secs(120);
/// Bandwidth below which a collective of MPI is taken for one that stands still, in bytes per second.
const SLOWEST_BYTES_PER_S: u64 = 1_000_000;
/// How long processes that have failed wait for rank 0 to print its report.
const LAST_WORDS: Duration = Duration::from_secs(20);
/// How long the last packets may be under way.
const GOODBYE: Duration = Duration::from_secs(5);

/// This process in its job.
#[derive(Debug)]
pub struct World {
    shared: Arc<Shared>,
    helper: Option<JoinHandle<()>>,
    rank: Rank,
    size: u32,
    library: String,
    /// Processes of the job at rank 0; elsewhere only this one.
    members: Vec<Member>,
    /// A run has failed: what was under way then still is.
    has_failed: bool,
    patience: Duration,
}

/// How the processes of a job find one another.
#[derive(Clone, Debug)]
pub enum MeetBy {
    /// By MPI, which then carries all that they say and the bytes of transfers.
    Mpi(&'static Library),
    /// By TCP, which carries what they say, and no bytes of transfers.
    Tcp(TcpMeeting),
}

impl From<&'static Library> for MeetBy {
    fn from(library: &'static Library) -> Self {
        Self::Mpi(library)
    }
}

impl From<TcpMeeting> for MeetBy {
    fn from(meeting: TcpMeeting) -> Self {
        Self::Tcp(meeting)
    }
}

/// Identity of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Version of this program.
    pub version: String,
    /// The host that it runs on.
    pub host: String,
    /// Process id on that host.
    pub process: u32,
    /// SIMD level of its codecs.
    pub simd: String,
    /// Cores that the system gives it.
    pub cores: usize,
}

impl World {
    /// Connects with all processes of the job, which do so too. Setting `cancel` ends what is run; so does a process of which nothing is
    /// heard for as long as `stall`, or else [`STUCK_AFTER`]. Should not all have come up after `stall`, or else two minutes, this process
    /// ends, and says so, or has an error where it waits without MPI.
    ///
    /// # Errors
    /// If MPI fails, or the others do not come or answer.
    pub fn begin(
        meeting: impl Into<MeetBy>,
        stall: Option<Duration>,
        cancel: Arc<AtomicBool>,
    ) -> Result<Self, WorldError> {
        let (patience, meet_within) = (stall.unwrap_or(STUCK_AFTER), stall.unwrap_or(MEET_WITHIN));
        let (connection, status): (Box<dyn Connection>, _) = match meeting.into() {
            MeetBy::Mpi(library) => {
                let (endpoint, status) = watch::begin(library, meet_within)?;
                (Box::new(endpoint), status)
            }
            MeetBy::Tcp(meeting) => (Box::new(meeting.meet(meet_within, &cancel)?), None),
        };
        let mut link = Link::new(connection, patience)?;
        let (rank, size) = (link.rank, link.size);
        let (version, host) = link.names()?;
        let own = Member {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host,
            process: std::process::id(),
            simd: simd_level().name().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        };
        let shared = Arc::new(Shared {
            link: Mutex::new(Some(link)),
            is_waiting: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            cancel,
            status: Mutex::new(StatusFile::of_rank(status.as_ref(), rank.0, size, &own.host)),
            cores: own.cores,
        });
        // Until now it held the pipe open that says that this process is there.
        drop(status);
        shared.note(|| BEGUN.to_owned());
        let helped = Arc::clone(&shared);
        let helper = std::thread::Builder::new().name("messages".to_owned()).spawn(move || helped.help());
        // Without it messages move while the rank waits, and not while it codes.
        let helper = helper.ok();
        let members = Self::meet(&shared, rank, own, meet_within)?;
        Ok(Self { shared, helper, rank, size, library: version, members, has_failed: false, patience })
    }

    /// Introduces this process to rank 0, which collects all members.
    fn meet(shared: &Shared, rank: Rank, own: Member, within: Duration) -> Result<Vec<Member>, WorldError> {
        if rank != Rank(0) {
            shared.with(|link| link.tell(Rank(0), &Packet::Present(own.clone())))?;
            return Ok(vec![own]);
        }
        shared.with(|link| link.members[0] = Some(own.clone()));
        // Hosts start processes one after the other, and some are slow.
        let met = shared.wait(within, |link| {
            let ended = link.ended.clone().map(Err);
            let members: Option<Vec<Member>> = link.members.iter().cloned().collect();
            members.map(Ok).or(ended)
        });
        let missing = || shared.with(|link| link.members.iter().position(Option::is_none)).unwrap_or(0);
        let members = met.unwrap_or_else(|| Err(Ended::Lost(Rank(missing() as u32))))?;
        for (rank, member) in (0..).map(Rank).zip(&members) {
            let on_host = (0..).zip(&members).filter(|(_, other)| other.host == member.host);
            let neighbours: Vec<u32> = on_host.map(|(rank, _)| rank).collect();
            shared.with(|link| {
                if rank == link.rank {
                    link.set_neighbours(&neighbours);
                    return Ok(());
                }
                link.tell(rank, &Packet::Neighbours(neighbours))
            })?;
        }
        match (0..).map(Rank).zip(&members).find(|(_, member)| member.version != own.version) {
            Some((rank, Member { version: theirs, host, .. })) => {
                let (host, theirs) = (host.clone(), theirs.clone());
                Err(WorldError::Version { rank, host, theirs, own: own.version })
            }
            None => Ok(members),
        }
    }

    /// The rank of this process.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// This process.
    pub fn own(&self) -> &Member {
        // The first of all at rank 0, elsewhere the only one.
        &self.members[0]
    }

    /// The number of processes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Whether bytes of transfers go the way that the processes have met by; otherwise only what they say.
    pub fn carries_bytes(&self) -> bool {
        self.shared.with(|link| link.mpi().is_some())
    }

    /// Longest silence of a process, and longest standstill of a run.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Name and version of the library, or of what connects the processes in its place.
    pub fn library(&self) -> &str {
        &self.library
    }

    /// All processes by rank, at rank 0; elsewhere only this one.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// On ranks other than 0: reports that this process cannot take part, which ends the run.
    pub fn refuse(&mut self, why: &str) {
        self.has_failed = true;
        self.report_refusal(Failure::new(self.rank, None, FailureKind::Device, why));
    }

    fn report_refusal(&self, failure: Failure) {
        let end = RankEnd { failure, status: None };
        self.shared.with(|link| {
            let report = RankReport::failed(link.rank, link.clock.now_s(), end);
            // If rank 0 cannot be told, it notices that this rank is gone.
            let _ = link.tell(Rank(0), &Packet::Report(Box::new(report)));
            let _ = link.tell_all(&Packet::Abort);
            link.ended.get_or_insert(Ended::Aborted);
        });
    }

    /// On rank 0: sends the next task to all others.
    ///
    /// # Errors
    /// If they cannot be told.
    pub fn tell(&self, task: &[u8]) -> Result<(), WorldError> {
        Ok(self.shared.with(|link| link.tell_all(&Packet::Task(task.to_vec())))?)
    }

    /// On all others: the next task; `None` when the job is over.
    ///
    /// # Errors
    /// If rank 0 is lost, or another process has failed.
    pub fn next_task(&mut self) -> Result<Option<Vec<u8>>, WorldError> {
        let next = self.wait_for_next();
        if let Err(error) = &next {
            // It has done its part, and others have not.
            self.has_failed = true;
            self.note_failure(FAILED, &format!("while it waited for more to do: {error}"));
        }
        next
    }

    /// Notes that this process's part of a run has failed, by itself or because it was told to end.
    fn note_end(&self, name: &str, is_told: bool, why: &str) {
        let how = if is_told || self.shared.is_cancelled() { TOLD } else { FAILED };
        self.note_failure(how, &format!("in `{name}`: {why}"));
    }

    /// Notes how a run has failed, or that this process was suspended while others waited for it.
    fn note_failure(&self, how: &str, what: &str) {
        let stood_still = self.shared.with(Link::suspension);
        self.shared.note(|| match stood_still {
            Some(time) => format!("stood still for {:.1} s, and failed {what}", time.as_secs_f64()),
            None => format!("{how} {what}"),
        });
    }

    fn wait_for_next(&self) -> Result<Option<Vec<u8>>, WorldError> {
        loop {
            let found = self.shared.wait(Duration::from_secs(1), |link| {
                if let Some(task) = link.tasks.pop_front() {
                    return Some(Ok(Some(task)));
                }
                if link.is_over {
                    return Some(Ok(None));
                }
                let lost = link.silent(self.patience).map(Ended::Lost);
                link.ended.clone().or(lost).map(|ended| Err(ended.into()))
            });
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// On rank 0: aligns the clocks of all processes, one after the other, while these wait for their next task. Returns the error bound of the worst clock
    /// in seconds; `None` if others are lost or have failed, as the next run hears from all ranks and says which.
    ///
    /// # Errors
    /// If a process does not answer, or says that it cannot take part.
    pub fn align(&mut self) -> Result<Option<f64>, WorldError> {
        let error = match self.align_all() {
            Ok(worst_s) => return Ok(Some(worst_s)),
            Err(error) => error,
        };
        let refused = self.shared.with(|link| {
            // Whoever cannot be told finds out by itself.
            let _ = link.tell_all(&Packet::Abort);
            link.ended.get_or_insert(Ended::Aborted);
            // Who refuses says so before it lets all end.
            let failures = link.reports.iter().flatten().filter_map(|report| report.failed.as_ref());
            failures.map(|end| &end.failure).find(|failure| failure.kind == FailureKind::Device).cloned()
        });
        match (refused, error) {
            (Some(failure), _) => {
                self.has_failed = true;
                Err(WorldError::Refused(failure))
            }
            (None, WorldError::Ended(_)) => Ok(None),
            (None, error) => {
                self.has_failed = true;
                Err(error)
            }
        }
    }

    fn align_all(&self) -> Result<f64, WorldError> {
        let (mut worst_s, patience) = (0.0_f64, self.patience);
        for rank in (1..self.size).map(Rank) {
            self.shared.with(|link| {
                link.aligned[rank.index()] = None;
                link.tell(rank, &Packet::Align)
            })?;
            let aligned = self.shared.wait(patience, |link| {
                let ended = link.ended.clone().map(Err);
                link.aligned[rank.index()].map(Ok).or(ended)
            });
            let silent = || WorldError::Silent { rank, member: self.members[rank.index()].clone(), patience };
            worst_s = worst_s.max(aligned.ok_or_else(silent)??);
        }
        Ok(worst_s)
    }

    /// Runs this process's rank of a plan, as all others run theirs; `name` is what the run is called. Rank 0 has the report of all, the others have none.
    ///
    /// # Errors
    /// If the plan does not fit the job: then nothing is run. All processes find that.
    pub fn run(&mut self, name: &str, setup: &HostSetup<'_>) -> Result<RunResult, WorldError> {
        self.check(setup.plan)?;
        if setup.plan.transfer_numbers() > 0 && !self.carries_bytes() {
            return Err(WorldError::PacketsOnly);
        }
        let result = self.run_checked(name, setup);
        self.note_result(name, &result);
        Ok(result.map(|report| {
            report.map(|mut report| {
                begin_sends_when_received(&mut report.timeline);
                report
            })
        }))
    }

    /// Runs this process's rank of a plan whose bytes move by something else: ranks only meet. As [`Self::run`] otherwise.
    ///
    /// # Errors
    /// If the plan has another number of ranks than the job. All processes find that.
    pub fn run_meeting(
        &mut self,
        name: &str,
        plan: &Plan,
        run: impl FnOnce(&mut dyn Meeting) -> RunResult,
    ) -> Result<RunResult, WorldError> {
        self.check_ranks(plan)?;
        let result = run(&mut self.seat(name));
        self.note_result(name, &result);
        Ok(result)
    }

    /// Does this process's part of something for which ranks only meet, as all others do theirs; `name` is what it is called.
    ///
    /// # Errors
    /// Errors of `part`.
    pub fn do_together<R>(
        &mut self,
        name: &str,
        part: impl FnOnce(&mut dyn Meeting) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let result = part(&mut self.seat(name));
        if let Err(failure) = &result {
            self.note_end(name, failure.kind == FailureKind::Cancelled, &failure.to_string());
            self.has_failed = true;
        }
        result
    }

    /// Place of this process among the others in something that has no memory of its own.
    fn seat(&self, name: &str) -> MpiRank {
        let memory = Arc::new(Memory::empty());
        self.shared.with(|link| link.begin_run(Arc::clone(&memory), 1));
        MpiRank::new(Arc::clone(&self.shared), name, self.rank, memory, self.patience)
    }

    fn note_result(&mut self, name: &str, result: &RunResult) {
        match result {
            Ok(_) => self.shared.note(|| format!("has ended its part of `{name}`")),
            Err(failure) => {
                self.note_end(name, failure.first.kind == FailureKind::Cancelled, &failure.first.to_string());
            }
        }
        self.has_failed |= result.is_err();
    }

    fn run_checked(
        &self,
        name: &str,
        setup: &HostSetup<'_>,
    ) -> Result<Option<host::RunReport>, Box<RunFailure>> {
        let plan = setup.plan;
        let memory = host::memory(plan, self.rank).inspect_err(|failure| {
            if self.rank != Rank(0) {
                self.report_refusal(failure.first.clone());
            }
        })?;
        let segments = u32::try_from(plan.segments.len()).expect("segments are counted in 32 bits");
        self.shared.with(|link| link.begin_run(Arc::clone(&memory), segments));
        let mut rank = MpiRank::new(Arc::clone(&self.shared), name, self.rank, memory, setup.stuck_after);
        // A process has its rank's share of the machine: one core codes, another one may keep messages moving.
        run_rank(setup, &Permits::new(1), &mut rank)
    }

    /// Whether a plan has a rank for each process.
    ///
    /// # Errors
    /// [`WorldError::Ranks`].
    pub fn check_ranks(&self, plan: &Plan) -> Result<(), WorldError> {
        let (ranks, processes) = (plan.rank_count(), self.size);
        if ranks == processes { Ok(()) } else { Err(WorldError::Ranks { ranks, processes }) }
    }

    /// Whether a run has failed: then the processes do not meet again, as messages may be under way for ever.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether a plan fits the job.
    ///
    /// # Errors
    /// If it has another number of ranks, or more transfers than MPI has tags.
    pub fn check(&self, plan: &Plan) -> Result<(), WorldError> {
        self.check_ranks(plan)?;
        let largest = self.shared.with(|link| link.largest_tag());
        let ops = plan.programs.iter().flat_map(|program| &program.ops);
        let parts = ops.filter_map(|op| Some(op.kind.library()?.part + 1)).max().unwrap_or(0);
        let segments = u32::try_from(plan.segments.len()).expect("segments are counted in 32 bits");
        let needed = u64::from(plan.transfer_numbers()).max(call_tags(segments, parts)).saturating_sub(1);
        if needed > u64::from(largest) { Err(WorldError::Tags { needed, largest }) } else { Ok(()) }
    }

    /// Carries out a collective of MPI itself, as all others do; seconds of each of so many rounds, from when the first process has begun until
    /// the last one has what it gets, at rank 0. Elsewhere none. The first rounds are often slow.
    ///
    /// # Errors
    /// If it cannot be cut into equal parts of whole values, or MPI fails.
    pub fn time_collective(
        &mut self,
        collective: Collective,
        bytes: u64,
        rounds: u32,
    ) -> Result<Vec<f64>, WorldError> {
        let memory = Arc::new(Memory::empty());
        let name = "a collective of MPI";
        let mut rank = MpiRank::new(Arc::clone(&self.shared), name, self.rank, memory, self.patience);
        let values = usize::try_from(bytes / size_of::<f32>() as u64).unwrap_or(usize::MAX);
        let buffers = |endpoint: &mut Endpoint| CollectiveBuffers::new(endpoint, collective, values);
        let buffers = self.shared.with(|link| link.mpi().map(buffers)).ok_or(WorldError::PacketsOnly)?;
        let mut buffers = buffers.ok_or(WorldError::Parts { bytes, processes: self.size })?;
        let mut seconds = Vec::new();
        let call = collective.function();
        let within = self.patience + Duration::from_secs(bytes / SLOWEST_BYTES_PER_S);
        for _ in 0..rounds {
            let is_in_call = AtomicBool::new(false);
            let waiting = |waited: Duration| self.shared.note(|| watch::is_in(call, waited));
            let give_up = |waited: Duration| {
                let why = watch::why(call, "stood still", waited, self.size);
                self.shared.note(|| format!("{FAILED} {why}"));
                if !self.shared.keeps_notes() {
                    watch::complain(Some(self.rank.0), &why);
                }
            };
            let work = || -> Result<(f64, f64), WorldError> {
                rank.barrier(&[])?;
                is_in_call.store(true, Ordering::Relaxed);
                let begin_s = rank.now_s();
                self.shared.with(|link| link.collective(&mut buffers))?;
                Ok((begin_s, rank.now_s()))
            };
            // The call blocks, and with it what hears of silent processes; the barrier before it hears of them.
            let (begin_s, end_s) =
                watch::watched(within, &is_in_call, waiting, give_up, work).map_err(WorldError::Watch)??;
            let report = RankReport { begin_s, ..RankReport::idle(self.rank, end_s) };
            if let Some(reports) = rank.gather(report) {
                let begin_s = reports.iter().map(|report| report.begin_s).fold(f64::INFINITY, f64::min);
                let end_s = reports.iter().map(|report| report.end_s).fold(begin_s, f64::max);
                seconds.push(end_s - begin_s);
            }
        }
        Ok(seconds)
    }

    /// Marks this process as finished, on rank 0 with its exit code: the program that started the job need
    /// not look for more.
    pub fn has_said_all(&self, code: Option<u8>) {
        let mut status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = status.as_mut() {
            status.end(code);
        }
    }

    /// Ends the job: rank 0 tells all others, which wait for that. After a run that has
    /// failed, messages may be under way for ever: then MPI is not ended, and this process must end without it.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn finish(mut self) -> Result<(), WorldError> {
        if self.rank == Rank(0) {
            let told = self.shared.with(|link| {
                let told = link.tell_all(&Packet::End);
                link.is_over = true;
                told
            });
            self.shared.wait(GOODBYE, |link| link.has_told().then_some(()));
            told?;
        } else if self.has_failed {
            // A rank 0 that is gone has no last words.
            let patience = self.patience;
            let is_over = |link: &mut Link| link.is_over || link.silent(patience).is_some();
            self.shared.wait(LAST_WORDS, |link| is_over(link).then_some(()));
        }
        let has_ended = self.shared.with(|link| link.ended.is_some());
        if !self.has_failed && !has_ended {
            crate::nccl::release();
        }
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(helper) = self.helper.take() {
            // It ends at its next look.
            let _ = helper.join();
        }
        let link = self.shared.lock().take();
        match link {
            Some(link) if !self.has_failed && !has_ended => {
                let (rank, ranks) = (self.rank.0, self.size);
                let give_up = |waited| {
                    watch::complain(Some(rank), &watch::why("MPI_Finalize", "had not come", waited, ranks));
                };
                let is_in_call = AtomicBool::new(true);
                watch::watched(self.patience, &is_in_call, |_| {}, give_up, || link.finish())
                    .map_err(WorldError::Watch)??;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Moves the begin of each send span to that of its receive span: a sender does not hear when its receiver was ready.
fn begin_sends_when_received(timeline: &mut Timeline) {
    let key = |span: &Span, src, dst| (span.iteration, span.segment, span.stage, src, dst, span.tag);
    let received = timeline.spans.iter().filter(|span| span.lane == Lane::Rx);
    let begins: std::collections::HashMap<_, f64> =
        received.filter_map(|span| Some((key(span, span.peer?, span.rank), span.begin_s))).collect();
    for span in timeline.spans.iter_mut().filter(|span| span.lane == Lane::Tx) {
        let Some(peer) = span.peer else { continue };
        if let Some(begin_s) = begins.get(&key(span, span.rank, peer)) {
            span.begin_s = span.begin_s.max(*begin_s).min(span.end_s);
        }
    }
}

/// Errors of joint operations of processes.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// MPI cannot be had, or has failed.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// The processes have not met.
    #[error("the processes of the job have not met: {0}")]
    Meet(#[from] MeetError),
    /// Meetings that carry no bytes of transfers cannot run it.
    #[error(
        "the processes of the job have met without MPI and exchange no bytes of transfers by themselves\n\
         help: run it over GPUs and NCCL, or start it with the `mpirun` of an MPI library"
    )]
    PacketsOnly,
    /// There is no thread to watch over a call of MPI.
    #[error("the system refuses a thread that ends the wait for other ranks: {}", refusal(.0))]
    Watch(io::Error),
    /// Other processes are lost, or have failed.
    #[error("the processes of the job have lost one another: {0}")]
    Ended(#[from] Ended),
    /// The plan needs more tags than the library has.
    #[error("the plan's transfers need tags up to {needed}, and those of the MPI library end at {largest}")]
    Tags { needed: u64, largest: u32 },
    /// Another number of ranks.
    #[error("the plan has {ranks} ranks, and the job has {processes} processes")]
    Ranks { ranks: u32, processes: u32 },
    /// Another version of this program.
    #[error(
        "rank {rank} on host `{host}` is version {theirs} of zipwire, and rank 0 is {own}\nhelp: install one version on all hosts"
    )]
    Version { rank: Rank, host: String, theirs: String, own: String },
    /// A process has reported that it cannot take part.
    #[error("rank {} cannot take part: {}", .0.rank, .0.detail)]
    Refused(Failure),
    /// A collective of MPI that this program does not carry out.
    #[error("{bytes} B are not equal parts of whole values for {processes} processes, or too many")]
    Parts { bytes: u64, processes: u32 },
    /// A process does not answer.
    #[error(
        "rank {rank} (process {} on `{}`) has said nothing for {} s, and all wait for it to begin",
        member.process, member.host, patience.as_secs_f64()
    )]
    Silent { rank: Rank, member: Member, patience: Duration },
}
