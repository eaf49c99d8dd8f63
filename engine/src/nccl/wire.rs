//! One rank's end of exchanges by NCCL.
//!
//! An exchange is a group of sends and receives, or one for each round. NCCL may put a group into its stream later, when it has connected: until
//! then nothing else is called on that communicator, and the end of the exchange is not recorded.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use zipwire_kernels::{Device, Event, GpuError, Stream};
use zipwire_nccl_binding::{Communicator, Library, NcclError, State};
use zipwire_schedule::machine::{Direction, Machine, TransferId};
use zipwire_schedule::plan::{Exchange, OpKind, Plan, TransferKey};
use zipwire_schedule::{Failure, Lane, OpId};

use super::call::Call;
use super::connect::{Connecting, Connections, Rooms, abort, failed};
use super::kept::{self, Known};
use crate::cuda::wire::{End, Moved, Own, Wire, transfers};
use crate::report::Hello;
use crate::transport::{Ended, Meeting, meets_by};

/// One rank's end, and its communicators.
pub(super) struct Nccl<'a, M: ?Sized> {
    meeting: &'a mut M,
    connections: &'a Connections<'a>,
    has_rounds: bool,
    lanes: Vec<LaneEnd>,
    rooms: Rooms,
    /// Exchanges and calls that are on their streams as a whole.
    queued: VecDeque<OpId>,
    /// Rounds on their streams that have not been seen to end, in order.
    moving: VecDeque<Moving>,
}

/// A communicator, and the exchange or call on it that is not on its stream as a whole.
struct LaneEnd {
    lane: Lane,
    /// Hash of the communicator's id.
    id: u64,
    communicator: Communicator,
    opening: Option<Opening>,
}

struct Opening {
    op: OpId,
    /// Rounds that have not been begun.
    left: VecDeque<Vec<TransferId>>,
    /// The round that is being put on the stream.
    round: Option<Vec<TransferId>>,
    /// A call in place of rounds.
    call: Option<Call>,
    /// Behind the round before.
    begin: Arc<Event>,
}

struct Moving {
    lane: Lane,
    op: OpId,
    ids: Vec<TransferId>,
    begin: Arc<Event>,
    end: Arc<Event>,
}

impl<'a, M: Meeting + ?Sized> Nccl<'a, M> {
    pub(super) fn new(meeting: &'a mut M, connections: &'a Connections<'a>, has_rounds: bool) -> Self {
        let (lanes, rooms, queued, moving) = (Vec::new(), Rooms::new(), VecDeque::new(), VecDeque::new());
        Self { meeting, connections, has_rounds, lanes, rooms, queued, moving }
    }

    /// Keeps the communicators for a later run if all ranks have ended well.
    pub(super) fn end(mut self, has_succeeded: bool) {
        if !has_succeeded {
            self.give_up();
            // Freeing it would wait for ever where the GPU does.
            std::mem::forget(self.rooms);
            return;
        }
        let rank = self.meeting.rank();
        for LaneEnd { lane, id, communicator, .. } in self.lanes {
            let key = self.connections.key(rank, communicator.device(), lane);
            kept::keep(key, Known { id, communicator });
        }
    }

    /// Puts on streams what can be by now; whether there was anything.
    fn advance(&mut self, own: &Own<'_>, machine: &Machine) -> Result<bool, Failure> {
        let library = self.connections.library;
        let mut has_advanced = false;
        for end in &mut self.lanes {
            let op = end.opening.as_ref().map(|opening| opening.op);
            let advanced = end.advance(own, machine, library, &mut self.moving);
            let advanced = advanced.map_err(|error| Failure { op, ..failed(own.rank, &error) })?;
            has_advanced |= advanced;
            if let Some(Opening { op, .. }) = end.opening.take_if(|opening| opening.is_done()) {
                self.queued.push_back(op);
            }
        }
        Ok(has_advanced)
    }

    /// The transfers of an exchange that move something, by the groups in which they do.
    fn rounds(&self, machine: &Machine, op: OpId) -> VecDeque<Vec<TransferId>> {
        let mut ids = transfers(machine, op);
        // NCCL pairs sends and receives of two ranks by their order, and ends may list them differently.
        ids.sort_by_key(|id| {
            let key = machine.key(*id);
            (key.src, key.dst, key.number)
        });
        let round = |id: &TransferId| match &machine.op(op).kind {
            OpKind::Exchange(exchange) if self.has_rounds => round(exchange, id.direction, id.index),
            _ => 0,
        };
        let count = ids.iter().map(|id| round(id) + 1).max().unwrap_or(0);
        let of_round = |number| ids.iter().copied().filter(|id| round(id) == number).collect::<Vec<_>>();
        (0..count).map(of_round).filter(|ids| !ids.is_empty()).collect()
    }
}

impl Opening {
    fn is_done(&self) -> bool {
        self.left.is_empty() && self.round.is_none() && self.call.is_none()
    }
}

impl LaneEnd {
    /// Puts on the stream what can be by now; whether there was anything. Errors of the communicator are found even if there is not.
    fn advance(
        &mut self,
        own: &Own<'_>,
        machine: &Machine,
        library: &Library,
        moving: &mut VecDeque<Moving>,
    ) -> Result<bool, NcclError> {
        let Self { lane, communicator, opening, .. } = self;
        let mut has_advanced = false;
        while communicator.state()? == State::Ready {
            let Some(opening) = opening else { break };
            let stream = own.device_state.stream(*lane);
            if let Some(ids) = opening.round.take() {
                let end = record(stream)?;
                let begin = std::mem::replace(&mut opening.begin, Arc::clone(&end));
                moving.push_back(Moving { lane: *lane, op: opening.op, ids, begin, end });
            } else if let Some(call) = opening.call.take_if(|call| call.is_begun()) {
                call.end(stream)?;
            }
            has_advanced = true;
            if let Some(call) = &mut opening.call {
                call.begin(communicator, stream)?;
            } else if let Some(ids) = opening.left.pop_front() {
                library
                    .group(|| ids.iter().try_for_each(|id| queue(own, machine, communicator, stream, *id)))?;
                opening.round = Some(ids);
            } else {
                break;
            }
        }
        Ok(has_advanced)
    }
}

/// An event behind all that is on a stream.
fn record(stream: &Stream) -> Result<Arc<Event>, GpuError> {
    let event = Event::new(stream.device())?;
    stream.record(&event)?;
    Ok(Arc::new(event))
}

/// One end of a transfer, as a part of a group.
fn queue(
    own: &Own<'_>,
    machine: &Machine,
    communicator: &Communicator,
    stream: &Stream,
    id: TransferId,
) -> Result<(), NcclError> {
    let key = machine.key(id);
    for place in End::of(machine, id).places(own.device_state) {
        match id.direction {
            Direction::Send => communicator.send(&place, key.dst.0, stream)?,
            Direction::Receive => communicator.receive(&place, key.src.0, stream)?,
        }
    }
    Ok(())
}

impl<M: Meeting + ?Sized> Meeting for Nccl<'_, M> {
    meets_by!(meeting);

    fn barrier(&mut self, word: &[u8]) -> Result<Vec<Vec<u8>>, Ended> {
        self.meeting.barrier(word)
    }
}

impl<M: Meeting + ?Sized> Wire for Nccl<'_, M> {
    fn give_up(&mut self) {
        let lanes = self.lanes.drain(..);
        abort(lanes.map(|LaneEnd { id, communicator, .. }| Known { id, communicator }));
    }

    fn connect(&mut self, device: &Device, hello: &Hello, stuck_after: Duration) -> Result<(), Failure> {
        if !self.lanes.is_empty() {
            return Ok(());
        }
        let mut rank = Connecting { meeting: &mut *self.meeting, device, stuck_after };
        let connected = self.connections.connect(&mut rank, hello, &mut self.rooms)?;
        let end = |(lane, Known { id, communicator })| LaneEnd { lane, id, communicator, opening: None };
        self.lanes = connected.into_iter().map(end).collect();
        Ok(())
    }

    fn takes(&self, lane: Lane) -> bool {
        !self.lanes.iter().any(|end| end.lane == lane && end.opening.is_some())
    }

    fn open(&mut self, own: &Own<'_>, machine: &Machine, op: OpId) -> Result<(), Failure> {
        let lane = machine.op(op).kind.lane();
        let begin = record(own.device_state.stream(lane)).map_err(|error| own.broken(Some(op), &error))?;
        let (left, call) = (self.rounds(machine, op), Call::of(own, machine, op));
        let end = self.lanes.iter_mut().find(|end| end.lane == lane);
        let end = end.expect("lanes of all exchanges and calls have communicators");
        end.opening = Some(Opening { op, left, round: None, call, begin });
        self.advance(own, machine).map(|_| ())
    }

    fn listen(&mut self, own: &Own<'_>, machine: &Machine, timeout: Duration) -> Result<bool, Failure> {
        let has_advanced = self.advance(own, machine)?;
        let timeout = if has_advanced { Duration::ZERO } else { timeout };
        self.meeting.rest(timeout).map_err(|ended| own.ended(machine, None, &ended))?;
        Ok(has_advanced)
    }

    fn take_queued(&mut self) -> Option<OpId> {
        self.queued.pop_front()
    }

    fn first_open(&self) -> Option<OpId> {
        self.lanes.iter().filter_map(|end| Some(end.opening.as_ref()?.op)).min()
    }

    fn look(&mut self, own: &Own<'_>, moved: &mut Vec<Moved>) -> Result<(), GpuError> {
        // Behind a round that has not ended none has on its lane.
        let mut busy = [false; Lane::ALL.len()];
        let mut index = 0;
        while let Some(moving) = self.moving.get(index) {
            let is_busy = &mut busy[moving.lane as usize];
            if *is_busy || !moving.end.has_passed()? {
                *is_busy = true;
                index += 1;
                continue;
            }
            let (begin_s, end_s) = (own.clock.time_s(&moving.begin)?, own.clock.time_s(&moving.end)?);
            moved.extend(moving.ids.iter().map(|id| Moved { id: *id, begin_s, end_s }));
            self.moving.remove(index);
        }
        Ok(())
    }

    fn has_unreported(&self, op: OpId) -> bool {
        self.moving.iter().any(|moving| moving.op == op)
    }
}

/// The round of an exchange that a transfer is in: as many move at a time as the window has.
fn round(exchange: &Exchange, direction: Direction, index: u32) -> u32 {
    match direction {
        Direction::Send => index / exchange.window.sends,
        Direction::Receive => index / exchange.window.receives,
    }
}

/// Whether both ends of every transfer of a plan are in the same round of their exchanges. Otherwise groups of one rank could wait for those of another in a
/// circle, and an exchange is one group.
pub(super) fn has_rounds(plan: &Plan) -> bool {
    let mut receivers: HashMap<TransferKey, u32> = HashMap::new();
    let exchanges = || {
        plan.programs.iter().flat_map(|program| {
            program.ops.iter().filter_map(|op| Some((program.rank, op.segment, op.kind.exchange()?)))
        })
    };
    for (rank, segment, exchange) in exchanges() {
        let keys = exchange.receives.iter().map(|receive| exchange.key_of_receive(rank, segment, receive));
        receivers.extend(keys.zip(0..).map(|(key, index)| (key, round(exchange, Direction::Receive, index))));
    }
    exchanges().all(|(rank, segment, exchange)| {
        let keys = exchange.sends.iter().map(|send| exchange.key_of_send(rank, segment, send));
        keys.zip(0..)
            .all(|(key, index)| receivers.get(&key) == Some(&round(exchange, Direction::Send, index)))
    })
}
