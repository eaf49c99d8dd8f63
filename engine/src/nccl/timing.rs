//! NCCL's own collectives, timed beside runs of plans.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use zipwire_kernels::{Device, DeviceRegion, Event, GpuError, Stream};
use zipwire_nccl_binding::{Communicator, Element, Library, NcclError, State};
use zipwire_schedule::{Failure, FailureKind, Rank, RankEnd};

use super::connect::{Connecting, abort, failed};
use super::gpus;
use crate::control::{Control, run_all};
use crate::report::{RankReport, ended_early, first_failure};
use crate::transport::Meeting;
use crate::transport::local::Seat;

/// How long a communicator may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A collective of NCCL that can be timed.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    AllGather,
    AllReduce,
    AllToAll,
    Broadcast,
    ReduceScatter,
}

impl Timed {
    /// The function, as NCCL calls it.
    pub fn function(self) -> &'static str {
        match self {
            Self::AllGather => "ncclAllGather",
            Self::AllReduce => "ncclAllReduce",
            Self::AllToAll => "ncclAlltoAll",
            Self::Broadcast => "ncclBroadcast",
            Self::ReduceScatter => "ncclReduceScatter",
        }
    }
}

/// A collective to time: sums are of FP32, and bytes are rounded down to whole values of equal parts.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The collective.
    pub collective: Timed,
    /// Bytes that a rank has where it sends parts or contributes, and gets where it gathers.
    pub bytes: u64,
    /// Rounds, of which the first is often slow.
    pub rounds: u32,
    /// The longest wait for other ranks.
    pub stuck_after: Duration,
}

/// Times a collective between `ranks` threads of this process, of which the n-th has the n-th GPU modulo their number: seconds of each round. A round takes
/// as long as on the rank where it is longest, from its call to its end on the GPU; ranks call at about the same time.
///
/// # Errors
/// If NCCL or a GPU fails, or the user stops it: the first failure of a rank by itself.
///
/// # Panics
/// If there are no GPUs.
pub fn time_collective(
    timing: &Timing,
    library: &'static Library,
    ranks: u32,
    gpus: &[Device],
    cancel: &AtomicBool,
) -> Result<Vec<f64>, Failure> {
    let (control, inboxes) = Control::<()>::new(ranks as usize, Instant::now(), cancel);
    let timed = run_all(&control, inboxes, |rank, inbox| {
        let mut seat = Seat { control: &control, rank, inbox };
        let device = &gpus[rank.index() % gpus.len()];
        let shares_gpus = ranks as usize > gpus.len();
        together(&mut seat, |seat| time_rank(timing, library, ranks, (device, shares_gpus), seat))
    });
    let no_thread = || Err(Failure::new(Rank(0), None, FailureKind::Device, "the system refuses a thread"));
    timed.into_iter().next().unwrap_or_else(no_thread)
}

/// Times a collective between the processes of a job, as all others do: seconds of each round, on all ranks.
///
/// # Errors
/// If NCCL or a GPU fails, or the user stops it. Rank 0 has the first failure of a rank by itself.
pub fn time_collective_of_process(
    timing: &Timing,
    library: &'static Library,
    ranks: u32,
    host: &str,
    meeting: &mut dyn Meeting,
) -> Result<Vec<f64>, Failure> {
    together(meeting, |meeting| {
        let chosen = gpus::choose(host, meeting)?;
        time_rank(timing, library, ranks, (&chosen.device, chosen.most > 1), meeting)
    })
}

/// Does a rank's part of something, and brings all failures to rank 0, which blames one.
fn together<M: Meeting + ?Sized, R>(
    meeting: &mut M,
    part: impl FnOnce(&mut M) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let rank = meeting.rank();
    let done = part(meeting);
    let report = match &done {
        Ok(_) => RankReport::idle(rank, meeting.now_s()),
        Err(failure) => {
            meeting.abort(failure);
            let end = RankEnd { failure: failure.clone(), status: None };
            RankReport::failed(rank, meeting.now_s(), end)
        }
    };
    let reports = meeting.gather(report);
    match reports.and_then(|reports| first_failure(&reports, None)) {
        Some(failure) => Err(failure),
        None => done,
    }
}

fn time_rank<M: Meeting + ?Sized>(
    timing: &Timing,
    library: &'static Library,
    ranks: u32,
    (device, shares_gpus): (&Device, bool),
    meeting: &mut M,
) -> Result<Vec<f64>, Failure> {
    let own = meeting.rank();
    // Others may wait on the same GPU from the first call on: no memory is allocated or freed meanwhile.
    let work = Work::new(timing, ranks, device).map_err(|error| failed(own, &error.into()))?;
    let mut rank = Connecting { meeting, device, stuck_after: timing.stuck_after };
    let timed = rank.begin(library, ranks, &["collectives".to_owned()], shares_gpus).and_then(|mut begun| {
        let known = begun.pop().expect("one was begun");
        let timed = time_rounds(timing, &known.communicator, &work, &mut rank);
        match &timed {
            // It has done its part; what fails now is of no interest.
            Ok(_) => drop(known.communicator.finish(Instant::now() + ENDS_WITHIN)),
            Err(failure) => {
                rank.meeting.abort(failure);
                abort([known]);
            }
        }
        timed
    });
    if timed.is_err() {
        // Freeing it would wait for ever where the GPU does.
        std::mem::forget(work);
    }
    timed
}

fn time_rounds<M: Meeting + ?Sized>(
    timing: &Timing,
    communicator: &Communicator,
    work: &Work,
    rank: &mut Connecting<'_, M>,
) -> Result<Vec<f64>, Failure> {
    let own = rank.meeting.rank();
    let broken = |error: NcclError| failed(own, &error);
    let mut seconds = Vec::new();
    for _ in 0..timing.rounds {
        rank.meeting.barrier(&[]).map_err(|ended| ended_early(own, &ended))?;
        let (begin, end) = (Event::new(rank.device), Event::new(rank.device));
        let (begin, end) = begin.and_then(|begin| Ok((begin, end?))).map_err(|error| broken(error.into()))?;
        work.stream.record(&begin).map_err(|error| broken(error.into()))?;
        work.call(communicator).map_err(broken)?;
        rank.wait(|| Ok(communicator.state()? == State::Ready))?;
        work.stream.record(&end).map_err(|error| broken(error.into()))?;
        rank.wait(|| Ok(end.has_passed()?))?;
        let own_s = end.seconds_since(&begin).map_err(|error| broken(error.into()))?;
        let all = rank.meeting.barrier(&own_s.to_le_bytes()).map_err(|ended| ended_early(own, &ended))?;
        let times = all.iter().filter_map(|word| Some(f64::from_le_bytes(word.as_slice().try_into().ok()?)));
        seconds.push(times.fold(0.0, f64::max));
    }
    Ok(seconds)
}

/// Stream and regions of a collective.
struct Work {
    timed: Timed,
    stream: Stream,
    from: DeviceRegion,
    to: DeviceRegion,
}

impl Work {
    fn new(timing: &Timing, ranks: u32, device: &Device) -> Result<Self, GpuError> {
        let ranks = u64::from(ranks);
        let part = timing.bytes / ranks / Element::F32.width() * Element::F32.width();
        let (given, got) = match timing.collective {
            Timed::AllGather => (part, ranks * part),
            Timed::ReduceScatter => (ranks * part, part),
            Timed::AllReduce | Timed::AllToAll | Timed::Broadcast => (ranks * part, ranks * part),
        };
        let stream = Stream::new(device)?;
        let (from, to) = (DeviceRegion::allocate(device, given)?, DeviceRegion::allocate(device, got)?);
        stream.fill(&from, 0)?;
        Ok(Self { timed: timing.collective, stream, from, to })
    }

    fn call(&self, communicator: &Communicator) -> Result<(), NcclError> {
        let Self { timed, stream, from, to } = self;
        match timed {
            Timed::AllGather => communicator.all_gather(from, to, stream),
            Timed::AllReduce => communicator.all_reduce(from, to, Element::F32, stream),
            Timed::AllToAll => communicator.all_to_all(from, to, stream),
            Timed::Broadcast => communicator.broadcast(from, to, Rank(0).0, stream),
            Timed::ReduceScatter => communicator.reduce_scatter(from, to, Element::F32, stream),
        }
    }
}
