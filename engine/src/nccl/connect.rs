//! Communicators of a rank: one for each lane that has exchanges, as ranks put the exchanges of one lane in the same order, and those of two in any.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;
use zipwire_kernels::{Device, DeviceRegion, Event, GpuError, Stream};
use zipwire_nccl_binding::{Communicator, Config, Library, NcclError, State, UniqueId};
use zipwire_schedule::plan::{Plan, Program};
use zipwire_schedule::{Failure, FailureKind, Lane, Rank};

use super::kept::{self, Key, Known};
use crate::cuda::LOOK;
use crate::report::{Hello, compare, ended_early};
use crate::transport::Meeting;

/// Blocks of a kernel of NCCL where ranks share a GPU: kernels of all of them must have room at the same time.
pub(super) const CTAS_ON_SHARED: u32 = 4;

/// Memory and streams of what was sent to connect. They are given back when the run is over: to free memory is to wait for the GPU, on which other
/// ranks may wait for this one.
pub(super) type Rooms = Vec<(Stream, DeviceRegion)>;

/// Time of looking without sleep: a sleep is longer than a small collective.
const EAGER: Duration = Duration::from_millis(2);

/// How ranks of a plan connect.
pub(super) struct Connections<'a> {
    pub(super) library: &'static Library,
    pub(super) plan: &'a Plan,
    /// Whether several ranks have the same GPU.
    pub(super) shares_gpus: bool,
}

/// A rank that connects, and how long it waits for others.
pub(super) struct Connecting<'a, M: ?Sized> {
    pub(super) meeting: &'a mut M,
    pub(super) device: &'a Device,
    pub(super) stuck_after: Duration,
}

impl Connections<'_> {
    /// Key of a lane's communicator among those that are kept.
    pub(super) fn key(&self, rank: Rank, device: &Device, lane: Lane) -> Key {
        let (ranks, gpu) = (self.plan.rank_count(), device.ordinal());
        Key { rank, ranks, gpu, shares_gpu: self.shares_gpus, lane }
    }

    /// Communicators of a rank, which all ranks have kept or begin together, and lets each connect with the peers of its lane.
    pub(super) fn connect<M: Meeting + ?Sized>(
        &self,
        rank: &mut Connecting<'_, M>,
        hello: &Hello,
        rooms: &mut Rooms,
    ) -> Result<Vec<(Lane, Known)>, Failure> {
        let (own, lanes) = (rank.meeting.rank(), lanes(self.plan));
        // Others may wait on the same GPU from the barrier on.
        for lane in &lanes {
            rooms.push(self.room(rank, *lane).map_err(|error| failed(own, &error.into()))?);
        }
        // Ranks with different plans would connect differently.
        let words = rank.meeting.barrier(&hello.to_word()).map_err(|ended| ended_early(own, &ended))?;
        compare(hello, own, &words)?;
        let keys = lanes.iter().map(|lane| self.key(own, rank.device, *lane));
        let mut found: Vec<Option<Known>> = keys.map(kept::take).collect();
        let ids = |known: &Option<Known>| known.as_ref().map_or(0, |known| known.id).to_le_bytes();
        let word: Vec<u8> = found.iter().flat_map(ids).collect();
        let words = rank.meeting.barrier(&word).map_err(|ended| ended_early(own, &ended));
        let words = words.inspect_err(|_| abort(found.drain(..).flatten()))?;
        let is_everywhere = |place: usize| {
            let id = |word: &Vec<u8>| word.as_chunks::<8>().0.get(place).copied();
            id(&word) != Some([0; 8]) && words.iter().all(|other| id(other) == id(&word))
        };
        let missing: Vec<usize> = (0..lanes.len()).filter(|place| !is_everywhere(*place)).collect();
        // Whoever has kept what others have not has it from ranks that had other GPUs.
        abort(missing.iter().filter_map(|place| found[*place].take()));
        let names: Vec<String> = missing.iter().map(|place| lanes[*place].name().to_owned()).collect();
        let begun = rank.begin(self.library, self.plan.rank_count(), &names, self.shares_gpus);
        let begun = begun.inspect_err(|_| abort(found.drain(..).flatten()))?;
        for (place, known) in missing.into_iter().zip(begun) {
            found[place] = Some(known);
        }
        let all: Vec<(Lane, Known)> = lanes.into_iter().zip(found.into_iter().flatten()).collect();
        let mut warm = all.iter().zip(rooms.iter());
        let warm =
            warm.try_for_each(|((lane, known), room)| self.warm_up(rank, &known.communicator, *lane, room));
        match warm {
            Ok(()) => Ok(all),
            Err(failure) => {
                rank.meeting.abort(&failure);
                abort(all.into_iter().map(|(_, known)| known));
                Err(failure)
            }
        }
    }

    /// Room for what is sent to connect: a byte to send, one from each sender, and one of each rank.
    fn room<M: Meeting + ?Sized>(
        &self,
        rank: &Connecting<'_, M>,
        lane: Lane,
    ) -> Result<(Stream, DeviceRegion), GpuError> {
        let [_, senders] = peers(&self.plan.programs[rank.meeting.rank().index()], lane);
        let bytes = 1 + senders.len() as u64 + u64::from(self.plan.rank_count());
        Ok((Stream::new(rank.device)?, DeviceRegion::allocate(rank.device, bytes)?))
    }

    /// Sends a byte to each peer of a lane, and one to all ranks where the lane has calls, so that no iteration has to connect.
    fn warm_up<M: Meeting + ?Sized>(
        &self,
        rank: &mut Connecting<'_, M>,
        communicator: &Communicator,
        lane: Lane,
        (stream, room): &(Stream, DeviceRegion),
    ) -> Result<(), Failure> {
        let own = rank.meeting.rank();
        let [receivers, senders] = peers(&self.plan.programs[own.index()], lane);
        let byte = room.part(0..1);
        if !receivers.is_empty() || !senders.is_empty() {
            let called = self.library.group(|| {
                receivers.iter().try_for_each(|peer| communicator.send(&byte, peer.0, stream))?;
                (1..).zip(&senders).try_for_each(|(place, peer)| {
                    communicator.receive(&room.part(place..place + 1), peer.0, stream)
                })
            });
            called.map_err(|error: NcclError| failed(own, &error))?;
            rank.wait(|| Ok(communicator.state()? == State::Ready))?;
        }
        let mut ops = self.plan.programs[own.index()].ops.iter();
        if ops.any(|op| op.kind.lane() == lane && op.kind.library().is_some()) {
            let all = room.part(room.len() - u64::from(self.plan.rank_count())..room.len());
            communicator.all_gather(&byte, &all, stream).map_err(|error| failed(own, &error))?;
            rank.wait(|| Ok(communicator.state()? == State::Ready))?;
        }
        let done = Event::new(rank.device).and_then(|done| stream.record(&done).map(|()| done));
        let done = done.map_err(|error| failed(own, &error.into()))?;
        rank.wait(|| Ok(done.has_passed()?))
    }
}

impl<M: Meeting + ?Sized> Connecting<'_, M> {
    /// Begins a communicator for each name, together with all others.
    pub(super) fn begin(
        &mut self,
        library: &'static Library,
        ranks: u32,
        names: &[String],
        shares_gpus: bool,
    ) -> Result<Vec<Known>, Failure> {
        let own = self.meeting.rank();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut begun = Vec::new();
        for (id, name) in self.ids(library, names.len())?.iter().zip(names) {
            let name = format!("zipwire {name}");
            let config = Config { max_ctas: shares_gpus.then_some(CTAS_ON_SHARED), name };
            let connected = Communicator::begin(library, self.device, id, own.0, ranks, &config);
            let connected = connected.map_err(|error| failed(own, &error)).and_then(|communicator| {
                let connected = self.wait(|| Ok(communicator.state()? == State::Ready));
                begun.push(Known { id: xxh3_64(&id.to_bytes()), communicator });
                connected
            });
            if let Err(failure) = connected {
                self.meeting.abort(&failure);
                abort(begun);
                return Err(failure);
            }
        }
        Ok(begun)
    }

    /// The ids that rank 0 draws for all.
    fn ids(&mut self, library: &Library, count: usize) -> Result<Vec<UniqueId>, Failure> {
        let own = self.meeting.rank();
        let mut word = Vec::new();
        if own == Rank(0) {
            for _ in 0..count {
                word.extend(library.unique_id().map_err(|error| failed(own, &error))?.to_bytes());
            }
        }
        let words = self.meeting.barrier(&word).map_err(|ended| ended_early(own, &ended))?;
        let (ids, _) = words[0].as_chunks();
        Ok(ids.iter().copied().map(UniqueId::from_bytes).collect())
    }

    /// Waits for something that depends on others, and looks for the end of the run.
    pub(super) fn wait(
        &mut self,
        mut is_there: impl FnMut() -> Result<bool, NcclError>,
    ) -> Result<(), Failure> {
        let (own, begin) = (self.meeting.rank(), Instant::now());
        while !is_there().map_err(|error| failed(own, &error))? {
            if begin.elapsed() < EAGER {
                std::thread::yield_now();
                continue;
            }
            if begin.elapsed() >= self.stuck_after {
                let seconds = self.stuck_after.as_secs_f64();
                let detail = format!("NCCL has not connected it with the other ranks after {seconds} s");
                return Err(Failure::new(own, None, FailureKind::Timeout, detail));
            }
            self.meeting.rest(LOOK).map_err(|ended| ended_early(own, &ended))?;
        }
        Ok(())
    }
}

/// Gives up communicators of a rank that has failed: the failure says more than one of ending them. All at the same time, as an abort waits for the
/// GPU, on which the kernels of another one may wait for its own abort.
pub(super) fn abort(communicators: impl IntoIterator<Item = Known>) {
    std::thread::scope(|scope| {
        for known in communicators {
            scope.spawn(move || {
                let _ = known.communicator.abort();
            });
        }
    });
}

/// Lanes of a plan that have exchanges or calls on any rank.
pub(super) fn lanes(plan: &Plan) -> Vec<Lane> {
    let ops = || plan.programs.iter().flat_map(|program| &program.ops);
    let has_calls = |lane: &Lane| ops().any(|op| op.kind.lane() == *lane);
    Lane::ALL.into_iter().filter(|lane| lane.is_exchange() && has_calls(lane)).collect()
}

/// Receivers and senders that a rank has on a lane.
fn peers(program: &Program, lane: Lane) -> [BTreeSet<Rank>; 2] {
    let exchanges = program.ops.iter().filter_map(|op| op.kind.exchange().filter(|_| op.kind.lane() == lane));
    let mut peers = [BTreeSet::new(), BTreeSet::new()];
    for exchange in exchanges {
        peers[0].extend(exchange.sends.iter().map(|send| send.peer));
        peers[1].extend(exchange.receives.iter().map(|receive| receive.peer));
    }
    peers
}

/// The failure of a rank that NCCL has failed.
pub(super) fn failed(rank: Rank, error: &NcclError) -> Failure {
    let kind =
        if matches!(error, NcclError::Device(_)) { FailureKind::Device } else { FailureKind::Transport };
    Failure::new(rank, None, kind, error.to_string())
}
