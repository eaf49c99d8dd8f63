//! The thread that moves time along the ports: it takes transfers whose ends are both ready and says when the last
//! byte has arrived. It moves no bytes itself.

use std::collections::BinaryHeap;
use std::ops::RangeInclusive;
use std::time::Duration;

use zipwire_cluster::Topology;
use zipwire_schedule::Plan;
use zipwire_schedule::plan::TransferKey;

use super::ports::{self, Ports};
use crate::control::Control;
use crate::sync::mpsc::{Receiver, RecvTimeoutError};
use crate::transport::Message;
use crate::transport::local::Note;

/// A transfer whose ends are both on offer, given to the wire by its receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parcel {
    pub(crate) key: TransferKey,
    pub(crate) bytes: u64,
    /// When both ends were ready, in seconds of this machine.
    pub(crate) begin_s: f64,
    /// Whether it is behind another one on the wire, which has had the latency of both.
    pub(crate) follows: bool,
}

/// Turns that the mean transfer takes at a port.
const TURNS: u64 = 128;
/// Bytes of a turn. Fewer cost this machine more than they add.
const QUANTUM: RangeInclusive<u64> = 256..=16 * 1024;

/// Longest sleep between two looks at whether the run is over.
const LOOK: Duration = Duration::from_millis(50);

/// A parcel whose latency is running.
#[derive(Debug)]
struct Launched {
    moves_s: f64,
    parcel: Parcel,
}

impl PartialEq for Launched {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Launched {}

impl PartialOrd for Launched {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Launched {
    /// Reversed: the heap yields the earliest first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.moves_s.total_cmp(&self.moves_s).then_with(|| other.parcel.key.cmp(&self.parcel.key))
    }
}

/// All links of the cluster.
pub(crate) struct Wire<'a> {
    topology: &'a Topology,
    dilation: f64,
    ports: Ports,
    launched: BinaryHeap<Launched>,
    /// The parcel of each transfer on the ports.
    moving: Vec<Option<Parcel>>,
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
            launched: BinaryHeap::new(),
            moving: Vec::new(),
        }
    }

    /// Serves until all receivers have gone or the run has ended.
    pub(crate) fn run(mut self, parcels: &Receiver<Parcel>, control: &Control<'_, Note>) {
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
            match parcels.recv_timeout(wait) {
                Ok(parcel) => {
                    let route = self.topology.route(parcel.key.src, parcel.key.dst);
                    let latency_s = if parcel.follows { 0.0 } else { route.latency_s };
                    let moves_s = parcel.begin_s + latency_s * self.dilation;
                    self.launched.push(Launched { moves_s, parcel });
                }
                Err(RecvTimeoutError::Timeout) if !control.is_aborted() => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn next_s(&self) -> f64 {
        self.launched.peek().map_or(f64::INFINITY, |launched| launched.moves_s).min(self.ports.next_s())
    }

    /// Lets everything happen that is due. Events keep their own times, so sleeping too long delays news and nothing
    /// else.
    fn catch_up(&mut self, control: &Control<'_, Note>) {
        if self.next_s() > control.now_s() {
            return;
        }
        let _span = tracing::info_span!("pace").entered();
        while self.next_s() <= control.now_s() {
            let launch_s = self.launched.peek().map_or(f64::INFINITY, |launched| launched.moves_s);
            if launch_s <= self.ports.next_s() {
                let Some(Launched { moves_s, parcel }) = self.launched.pop() else { return };
                let route = self.topology.route(parcel.key.src, parcel.key.dst);
                let ports: Vec<usize> = route.links().iter().map(|link| link.index()).collect();
                let id: ports::Id = self.ports.begin(ports, parcel.bytes, moves_s);
                if self.moving.len() <= id {
                    self.moving.resize(id + 1, None);
                }
                self.moving[id] = Some(parcel);
                continue;
            }
            // Bytes that move are progress, however long a transfer takes.
            control.count_progress();
            if let Some((id, at_s)) = self.ports.serve() {
                let Parcel { key, .. } = self.moving[id].take().expect("what is on the ports has a parcel");
                // A rank that has gone has failed, and said so.
                for end in [key.src, key.dst] {
                    control.send(end, Note::Told(Message::Arrived { key, at_s }));
                }
            }
        }
    }
}

/// Bytes of the mean transfer of a plan.
pub(crate) fn mean_bytes(plan: &Plan) -> u64 {
    let ops = plan.programs.iter().flat_map(|program| &program.ops);
    let sends = ops.filter_map(|op| op.kind.exchange()).flat_map(|exchange| &exchange.sends);
    let regions = sends.filter_map(|transfer| transfer.content.region());
    let (bytes, count) = regions.fold((0, 0), |(bytes, count), region| (bytes + region.len, count + 1));
    bytes / count.max(1)
}
