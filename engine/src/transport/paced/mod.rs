//! Links of a cluster: what a transport has brought is held back until they would have brought it.
//!
//! It takes a transport of threads, which says at both ends that a transfer has begun, and whose `Control` the links share.
//!
//! The bytes come into the receiver's memory at once: what this machine takes to copy them does not come on top of the time
//! that they are declared to take.

mod ports;

use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use zipwire_cluster::Topology;
use zipwire_schedule::plan::TransferKey;
use zipwire_schedule::{Plan, Rank};

use self::ports::Ports;
use super::filter::Filter;
use super::{Ended, Event, LibraryCall, Message, Transport, is_of_call};
use crate::control::Control;
use crate::event_queue::EventQueue;
use crate::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use crate::transport::local::Note;

/// Holds back the ends of transfers of one rank.
pub(crate) struct Paced {
    /// To the thread that moves time along the links.
    wire: Sender<Load>,
    /// Ends of transfers that are reported and not due.
    held: HashMap<TransferKey, Event>,
    /// Arrival times of transfers whose end has not been reported here yet.
    arrived_s: HashMap<TransferKey, f64>,
    /// Effective bytes for each byte of grouped sends that have not begun.
    losses: HashMap<TransferKey, f64>,
    stream: fn(&TransferKey) -> Option<Stream>,
}

impl Paced {
    pub(crate) fn new(wire: Sender<Load>) -> Self {
        Self::of_streams(wire, |_| None)
    }

    /// A filter for transfers that are parts of streams.
    pub(crate) fn of_streams(wire: Sender<Load>, stream: fn(&TransferKey) -> Option<Stream>) -> Self {
        Self { wire, held: HashMap::new(), arrived_s: HashMap::new(), losses: HashMap::new(), stream }
    }

    fn hold(&mut self, key: TransferKey, end: Event) -> Option<Event> {
        if let Some(at_s) = self.arrived_s.remove(&key) {
            return Some(ended_at(end, at_s));
        }
        self.held.insert(key, end);
        None
    }
}

impl Filter for Paced {
    fn begin_group(&mut self, losses: &mut dyn Iterator<Item = (TransferKey, f64)>, _: &mut dyn Transport) {
        self.losses.extend(losses);
    }

    fn begin_call(&mut self, call: LibraryCall, _: &mut dyn Transport) -> Result<(), Ended> {
        self.wire.send(Load::Call(call)).map_err(|_| Ended::Aborted)
    }

    fn pass(&mut self, event: Event, inner: &dyn Transport) -> Result<Option<Event>, Ended> {
        match event {
            // Links know of a call as a whole.
            Event::Begun { key, .. } | Event::Sent { key, .. } if is_of_call(&key) => Ok(Some(event)),
            Event::Received(received) if is_of_call(&received.transfer.key) => Ok(Some(event)),
            // Both ends hear of it, and the sender tells the links.
            Event::Begun { key, .. } if key.src != inner.rank() => Ok(Some(event)),
            Event::Begun { key, bytes, at_s } => {
                // The thread of the links ends before its ranks only when the run is over: somebody has failed, and this rank is
                // about to hear of it.
                let stream = (self.stream)(&key);
                let loss = self.losses.remove(&key);
                let parcel = Parcel { key, bytes, begin_s: at_s, stream, loss };
                self.wire.send(Load::Parcel(parcel)).map_err(|_| Ended::Aborted)?;
                Ok(Some(event))
            }
            Event::Received(received) => Ok(self.hold(received.transfer.key, event)),
            Event::Sent { key, .. } => Ok(self.hold(key, event)),
            Event::Told(Message::Arrived { key, at_s }) => match self.held.remove(&key) {
                Some(end) => Ok(Some(ended_at(end, at_s))),
                None => {
                    self.arrived_s.insert(key, at_s);
                    Ok(None)
                }
            },
            Event::Told(_) | Event::Disagreed { .. } | Event::Repeated(_) => Ok(Some(event)),
        }
    }
}

fn ended_at(event: Event, at_s: f64) -> Event {
    match event {
        Event::Received(received) => Event::Received(super::Received { end_s: at_s, ..received }),
        Event::Sent { key, begin_s, .. } => Event::Sent { key, begin_s, end_s: at_s },
        other => other,
    }
}

/// Transfer or call that is given to the wire.
#[derive(Debug)]
pub(crate) enum Load {
    Parcel(Parcel),
    Call(LibraryCall),
}

/// A transfer whose ends are both on offer, given to the wire by its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parcel {
    pub(crate) key: TransferKey,
    pub(crate) bytes: u64,
    /// When both ends were ready, in seconds of this machine.
    pub(crate) begin_s: f64,
    /// The stream that it is part of; `None` if it is alone.
    pub(crate) stream: Option<Stream>,
    /// Effective bytes for each byte of one of a group of sends; `None` if it is no such one.
    pub(crate) loss: Option<f64>,
}

/// Transfers between two ranks that follow one another on the wire as if they were one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Tells it from others between the same ranks.
    pub(crate) number: u32,
    /// Whether others were before: the first one has had the latency of all.
    pub(crate) follows: bool,
}

/// Turns that the mean transfer takes at a port.
const TURNS: u64 = 128;
/// Bytes of a turn. Fewer cost this machine more than they add.
const QUANTUM: RangeInclusive<u64> = 256..=16 * 1024;

/// Longest sleep between two checks whether the run is over.
const LOOK: Duration = Duration::from_millis(50);

/// The thread that moves time along the ports. It takes transfers whose ends are both ready and says when the last byte has arrived; it
/// moves no bytes itself.
pub(crate) struct Wire<'a> {
    topology: &'a Topology,
    dilation: f64,
    ports: Ports,
    /// Parcels and calls whose latency is running.
    launched: EventQueue<Load>,
    /// Transfers and calls on the ports.
    moving: Vec<Option<Load>>,
    /// Parcels that wait for the one before them in their stream; streams that have nothing under way are not there.
    streams: HashMap<(Rank, Rank, u32), VecDeque<Parcel>>,
}

impl<'a> Wire<'a> {
    /// The links of a cluster, so many times slower, for transfers of so many bytes in the mean.
    pub(crate) fn new(topology: &'a Topology, dilation: f64, mean_bytes: u64) -> Self {
        let bandwidths = topology.capacities().into_iter().map(|bandwidth| bandwidth / dilation);
        // A fraction of a transfer, so that passing it from port to port in turns costs little beside moving it.
        let quantum = (mean_bytes / TURNS).clamp(*QUANTUM.start(), *QUANTUM.end());
        Self {
            topology,
            dilation,
            ports: Ports::new(bandwidths, quantum),
            launched: EventQueue::new(),
            moving: Vec::new(),
            streams: HashMap::new(),
        }
    }

    /// Serves until all receivers have gone or the run has ended.
    pub(crate) fn run(mut self, loads: &Receiver<Load>, control: &Control<'_, Note>) {
        loop {
            self.catch_up(control);
            let now_s = control.now_s();
            let next_s = self.next_s();
            let wait = if next_s.is_finite() {
                // Something is on its way: no standstill.
                control.count_progress();
                Duration::try_from_secs_f64((next_s - now_s).max(0.0)).unwrap_or(LOOK).min(LOOK)
            } else {
                LOOK
            };
            match loads.recv_timeout(wait) {
                Ok(Load::Parcel(parcel)) => self.take(parcel),
                Ok(Load::Call(call)) => {
                    self.launched
                        .push(call.begin_s + call.activity.latency_s * self.dilation, Load::Call(call));
                }
                Err(RecvTimeoutError::Timeout) if !control.is_aborted() => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, parcel: Parcel) {
        if let Some(key) = stream_of(&parcel) {
            if let Some(waiting) = self.streams.get_mut(&key) {
                waiting.push_back(parcel);
                return;
            }
            self.streams.insert(key, VecDeque::new());
        }
        self.launch(parcel, parcel.begin_s);
    }

    fn launch(&mut self, parcel: Parcel, at_s: f64) {
        let route = self.topology.route(parcel.key.src, parcel.key.dst);
        let follows = parcel.stream.is_some_and(|stream| stream.follows);
        let has_begun = follows || parcel.loss.is_some();
        let latency_s = if has_begun { 0.0 } else { route.latency_s };
        self.launched.push(at_s + latency_s * self.dilation, Load::Parcel(parcel));
    }

    /// A parcel is there: the next one of its stream follows.
    fn follow(&mut self, parcel: &Parcel, at_s: f64) {
        let Some(key) = stream_of(parcel) else { return };
        match self.streams.get_mut(&key).and_then(VecDeque::pop_front) {
            Some(next) => self.launch(next, next.begin_s.max(at_s)),
            None => _ = self.streams.remove(&key),
        }
    }

    fn next_s(&self) -> f64 {
        self.launched.next_s().min(self.ports.next_s())
    }

    /// Lets everything happen that is due. Events keep their own times, so sleeping too long delays news and nothing
    /// else.
    fn catch_up(&mut self, control: &Control<'_, Note>) {
        if self.next_s() > control.now_s() {
            return;
        }
        let _span = tracing::info_span!("pace").entered();
        while self.next_s() <= control.now_s() {
            if let Some((moves_s, load)) = self.launched.pop(self.ports.next_s()) {
                self.begin(load, moves_s);
                continue;
            }
            // Bytes that move are progress, however long a transfer takes.
            control.count_progress();
            if let Some((id, at_s)) = self.ports.serve() {
                let load = self.moving[id].take().expect("what is on the ports is known");
                self.end(&load, at_s, control);
            }
        }
    }

    /// Puts something on the ports.
    fn begin(&mut self, load: Load, at_s: f64) {
        let id: ports::Id = match &load {
            Load::Parcel(parcel) => {
                let route = self.topology.route(parcel.key.src, parcel.key.dst);
                let ports = route.links().iter().map(|link| link.index()).collect();
                let effective = parcel.bytes as f64 * parcel.loss.unwrap_or(1.0);
                self.ports.begin(ports, effective.round() as u64, at_s)
            }
            Load::Call(LibraryCall { activity, .. }) => {
                let demand: Vec<(usize, f64)> =
                    activity.demand.iter().map(|&(link, bytes)| (link.index(), bytes)).collect();
                self.ports.begin_spread(&demand, activity.moving_s * self.dilation, at_s)
            }
        };
        if self.moving.len() <= id {
            self.moving.resize_with(id + 1, || None);
        }
        self.moving[id] = Some(load);
    }

    /// Tells the ranks of what has left the ports. A rank that has gone has failed, and said so.
    fn end(&mut self, load: &Load, at_s: f64, control: &Control<'_, Note>) {
        match load {
            Load::Parcel(parcel) => {
                self.follow(parcel, at_s);
                let key = parcel.key;
                for end in [key.src, key.dst] {
                    control.send(end, Note::Told(Message::Arrived { key, at_s }));
                }
            }
            Load::Call(LibraryCall { call, group, .. }) => {
                for rank in group.ranks() {
                    control.send(rank, Note::Told(Message::Moved { call: *call, at_s }));
                }
            }
        }
    }
}

fn stream_of(parcel: &Parcel) -> Option<(Rank, Rank, u32)> {
    parcel.stream.map(|stream| (parcel.key.src, parcel.key.dst, stream.number))
}

/// Mean raw bytes of a transfer, and of what a rank moves in a call of a library.
pub(crate) fn mean_bytes(plan: &Plan) -> u64 {
    let (mut bytes, mut count) = (0, 0);
    for op in plan.programs.iter().flat_map(|program| &program.ops) {
        let sends = op.kind.exchange().map(|exchange| &exchange.sends[..]).unwrap_or_default();
        for region in sends.iter().filter_map(|transfer| transfer.content.region()) {
            (bytes, count) = (bytes + region.len, count + 1);
        }
        if let Some(call) = op.kind.library() {
            let shares = call.inputs.iter().filter_map(|share| share.content.region());
            (bytes, count) = (bytes + shares.map(|region| region.len).sum::<u64>(), count + 1);
        }
    }
    bytes / count.max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use zipwire_schedule::{Rank, SegmentId, Stage};

    use super::*;
    use crate::control::Control;
    use crate::sync::mpsc::channel;
    use crate::transport::local::{Local, Process};

    /// The links end as soon as a rank has failed. Another one that has a transfer for them then has not failed itself.
    #[test]
    fn who_finds_the_links_gone_is_not_to_blame() {
        let cancel = AtomicBool::new(false);
        let (control, mut inboxes) = Control::new(1, Instant::now(), &cancel);
        let process = Process { control: &control, memories: &[] };
        let local = Local::new(process, Rank(0), inboxes.remove(0));
        let (wire, links) = channel();
        drop(links);
        let key =
            TransferKey { src: Rank(0), dst: Rank(1), number: 0, segment: SegmentId(0), stage: Stage::Raw };
        let begun = Event::Begun { key, bytes: 1, at_s: 0.0 };
        assert_eq!(Paced::new(wire).pass(begun, &local).unwrap_err(), Ended::Aborted);
    }
}
