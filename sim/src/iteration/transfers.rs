//! Transfers in virtual time: from the offer of an end to the arrival at both ends.

use std::collections::{HashMap, HashSet};

use zipwire_cluster::library::Sends;
use zipwire_schedule::machine::{Direction, Input, TransferId};
use zipwire_schedule::plan::{Chunk, Plan, Transfer, TransferKey};
use zipwire_schedule::{Failure, Groups, OpId, Rank, SegmentId, Stage};
use zipwire_timeline::Span;

use super::Iteration;
use crate::network::FlowId;
use crate::queue::Event;

pub(super) type End = (Rank, TransferId);

#[derive(Clone, Copy)]
pub(super) struct Transit {
    pub(super) send: End,
    pub(super) receive: End,
    /// The rank that the sender sends to, for which another one may stand.
    pub(super) to: Rank,
    pub(super) bytes: u64,
    /// Transfers that it stands for.
    pub(super) times: u32,
    /// When its latency began, in seconds since the barrier.
    pub(super) begin_s: f64,
    /// The sender's grouped sends that it is one of.
    pub(super) grouped: Option<Sends>,
}

/// All of them, by number; the number is given to another one when a transit has ended.
#[derive(Default)]
pub(super) struct Transits {
    list: Vec<Transit>,
    /// Numbers that no transit has now.
    free: Vec<u32>,
    /// The transit of each flow.
    of_flow: Vec<u32>,
}

impl Transits {
    /// Adds one, and returns its number.
    pub(super) fn begin(&mut self, transit: Transit) -> u32 {
        if let Some(number) = self.free.pop() {
            self.list[number as usize] = transit;
            return number;
        }
        self.list.push(transit);
        u32::try_from(self.list.len() - 1).expect("transfers are counted in 32 bits")
    }

    pub(super) fn get(&self, number: u32) -> &Transit {
        &self.list[number as usize]
    }

    pub(super) fn end(&mut self, number: u32) -> Transit {
        self.free.push(number);
        self.list[number as usize]
    }

    /// The network moves a transit as this flow from now on.
    pub(super) fn move_as(&mut self, number: u32, flow: FlowId) {
        if self.of_flow.len() <= flow.index() {
            self.of_flow.resize(flow.index() + 1, 0);
        }
        self.of_flow[flow.index()] = number;
    }

    /// The transit that the network moves as this flow.
    pub(super) fn of_flow(&self, flow: FlowId) -> u32 {
        self.of_flow[flow.index()]
    }
}

/// Offers of a rank that have room in memory when there are none: a burst is not followed by another one soon.
const OFFERS_KEPT: usize = 64;

impl Iteration<'_> {
    /// A transfer starts when both ends have been offered, and nobody else is waited for. A sender that follows its peers
    /// learns of the receiver's offer at once.
    pub(super) fn offer(&mut self, rank: Rank, id: TransferId) {
        let machine = &self.host(rank).machine;
        let key = machine.key(id);
        let (&Transfer { peer, chunk: Chunk { part, .. }, .. }, exchange) = machine.transfer(id);
        let (follows_peers, is_flow) = (exchange.order.follows_peers(), exchange.channel.flow().is_some());
        // Both ends are known by the transfer that stands for all that are alike, at the ranks that stand for those at its ends.
        let symmetry = self.setup.plan.symmetry;
        let (src, dst) = symmetry.pair(key.src, key.dst);
        let (key, peer) = (TransferKey { src, dst, ..key }, symmetry.member(peer));
        let offers = &mut self.host(rank).offers;
        let other = offers.remove(&key);
        if offers.is_empty() && offers.capacity() > OFFERS_KEPT {
            *offers = HashMap::default();
        }
        let Some(other) = other else {
            self.host(peer).offers.insert(key, id);
            if follows_peers {
                self.queue.push(self.now_s, Event::PeerReady { rank: peer, key });
            }
            return;
        };
        let (send, receive) = match id.direction {
            Direction::Send => ((rank, id), (peer, other)),
            Direction::Receive => ((peer, other), (rank, id)),
        };
        let barriers = self.barriers.as_mut().filter(|_| !is_flow);
        if !barriers.is_some_and(|barriers| barriers.holds(&key, part, (send, receive))) {
            self.begin_transfer(send, receive);
        }
    }

    pub(super) fn begin_transfer(&mut self, send: End, receive: End) {
        let (src, dst) = (send.0, receive.0);
        let sender = &self.host(src).machine;
        let transfer = sender.transfer(send.1).0;
        let (bytes, to, times) = (sender.transfer_bytes(transfer), transfer.peer, transfer.times);
        let grouped = self.host(src).grouped.get(&send.1.op).copied();
        let transit =
            self.transits.begin(Transit { send, receive, to, bytes, times, begin_s: self.now_s, grouped });
        // A group has had its latency when it was opened.
        let latency_s = grouped.map_or_else(|| self.setup.topology.route(src, to).latency_s, |_| 0.0);
        self.queue.push(self.now_s + latency_s, Event::Moves { rank: src, transfer: send.1, transit });
        for rank in [src, dst] {
            self.host(rank).moving += 1;
            self.adapt_compute(rank);
        }
    }

    /// The last byte of a transfer has left the links.
    pub(super) fn deliver(&mut self, transit: u32) {
        let Transit { send: (rank, transfer), receive: (dst, receive), bytes, .. } =
            *self.transits.get(transit);
        let key = self.host(rank).machine.key(transfer);
        let fate = self.faults.fate(&key);
        if let (Some(fate), Some(fired)) = (fate, self.setup.fired) {
            fate.moved(bytes, fired);
        }
        match fate {
            None => self.arrive(transit),
            // Checksums are compared where the bytes arrive, before anybody else hears of them.
            Some(fate) if !fate.flipped.is_empty() && bytes > 0 => {
                self.first_failure.get_or_insert_with(|| Failure::corrupt_transfer(dst, receive.op, key));
            }
            Some(fate) if fate.is_dropped => {}
            Some(fate) => {
                self.queue.push(self.now_s + fate.late_s, Event::Arrives { rank, transfer, transit });
            }
        }
    }

    pub(super) fn arrive(&mut self, transit: u32) {
        let Transit { send, receive, bytes, begin_s, .. } = self.transits.end(transit);
        let sender = &self.host(send.0).machine;
        let size = sender.transfer(send.1).0.content.brings().and_then(|size| sender.size(size));
        for ((rank, id), size) in [(send, None), (receive, size)] {
            let (now_s, index) = (self.now_s, self.index);
            let host = self.host(rank);
            host.moving -= 1;
            let (transfer, exchange) = host.machine.transfer(id);
            let op = host.machine.op(id.op);
            let span =
                Span::of_transfer(rank, index, op, exchange, transfer, id.direction, bytes, begin_s, now_s);
            let content = transfer.content;
            if size.is_some() {
                host.sizes_s.insert(id.op, now_s);
            }
            if let Some((left, sizes)) = host.library.get_mut(&id.op) {
                *left -= 1;
                sizes.extend(content.brings().zip(size));
                if *left == 0 {
                    self.close(rank, id.op);
                }
            } else {
                host.machine.handle(Input::Transferred { transfer: id, size });
                self.dirty.insert(rank);
            }
            self.spans.push(span);
            self.adapt_compute(rank);
        }
    }
}

// Transfers that wait for ranks that are no end of them ([`TransferStart::Barrier`](zipwire_cluster::TransferStart)).
//
// A stage of a call may be several exchanges on a rank, such as the steps of a ring. The rank is there when it has opened the
// first of them: it cannot open the others before bytes have moved. A coded flow is a call of its own, whose two ranks are the ends of all
// its transfers, so it has no barriers.

/// Transfers that start together: segment, stage, part, and the lowest rank of the group.
type Key = (SegmentId, Stage, u32, Rank);

/// All stages of all calls of an iteration.
pub(super) struct Barriers {
    barriers: HashMap<Key, Barrier>,
    /// The stages that a rank enters with an exchange; absent where it is in all of that exchange already.
    entered: HashMap<(Rank, OpId), Vec<Key>>,
    /// Groups of each segment.
    among: Vec<Option<Groups>>,
}

#[derive(Default)]
struct Barrier {
    /// Ranks that take part and are not there.
    missing: u32,
    /// Both ends, the sending one first, of transfers that wait for them.
    held: Vec<(End, End)>,
}

impl Barriers {
    pub(super) fn new(plan: &Plan) -> Self {
        let (barriers, entered) = Default::default();
        let mut all = Self { barriers, entered, among: plan.among.clone() };
        for program in &plan.programs {
            let mut known = HashSet::new();
            for op in &program.ops {
                let exchange = op.kind.exchange().filter(|exchange| exchange.channel.flow().is_none());
                let Some(exchange) = exchange else { continue };
                let transfers = exchange.sends.iter().chain(&exchange.receives);
                let first = all.first(op.segment, program.rank);
                let keys = transfers.map(|transfer| (op.segment, exchange.stage, transfer.chunk.part, first));
                let new: Vec<Key> = keys.filter(|&key| known.insert(key)).collect();
                for &key in &new {
                    all.barriers.entry(key).or_default().missing += 1;
                }
                if !new.is_empty() {
                    all.entered.insert((program.rank, op.id), new);
                }
            }
        }
        all
    }

    /// The lowest rank of a rank's group.
    fn first(&self, segment: SegmentId, rank: Rank) -> Rank {
        let group = self.among[segment.index()].and_then(|groups| groups.of(rank));
        group.map_or(Rank(0), |group| group.first)
    }

    /// A rank has opened an exchange. The transfers that waited for nobody else, in the order in which they came.
    pub(super) fn enter(&mut self, rank: Rank, op: OpId) -> Vec<(End, End)> {
        let mut released = Vec::new();
        for key in self.entered.remove(&(rank, op)).into_iter().flatten() {
            let barrier = self.barriers.get_mut(&key).expect("every stage has a barrier");
            barrier.missing -= 1;
            if barrier.missing == 0 {
                released.append(&mut barrier.held);
            }
        }
        released
    }

    /// Whether a transfer whose ends are both offered has to wait. If so, it is kept until the last rank enters.
    pub(super) fn holds(&mut self, key: &TransferKey, part: u32, ends: (End, End)) -> bool {
        let stage = (key.segment, key.stage, part, self.first(key.segment, key.src));
        let barrier = self.barriers.get_mut(&stage).expect("every stage has a barrier");
        let waits = barrier.missing > 0;
        if waits {
            barrier.held.push(ends);
        }
        waits
    }
}
