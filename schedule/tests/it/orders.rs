//! Transfer orders: how plans list transfers, what machines do with the news of their peers, and that no window ever
//! blocks, whatever the timing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::common::{THREADS, choice, layer, uniform};
use ndarray::{Array2, array};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_schedule::machine::{Direction, Input, Step, TransferId};
use zipwire_schedule::plan::{Block, Content, Exchange, Local, OpKind, Plan, TransferKey};
use zipwire_schedule::{
    Capabilities, Choice, Machine, OpId, Order, Protocol, Rank, SegmentId, Stage, TransferOrder, plan,
};

fn planned(bytes: Array2<u64>, protocol: Protocol, order: Order, window: Option<u32>) -> Plan {
    plan(&layer(bytes), &Choice { order, ..choice(protocol, window) })
}

fn exchange(plan: &Plan, rank: usize) -> &Exchange {
    plan.programs[rank].ops.iter().find_map(|op| op.kind.exchange()).unwrap()
}

#[test]
fn transfers_are_listed_by_size_then_by_step() {
    let bytes = array![[0, 8, 20, 8], [20, 0, 8, 8], [4, 20, 0, 6], [8, 0, 20, 0]];
    let peers = |order, rank| {
        let plan = planned(bytes.clone(), Protocol::Native, order, None);
        let exchange = exchange(&plan, rank);
        [&exchange.sends, &exchange.receives].map(|list| list.iter().map(|t| t.peer.0).collect::<Vec<_>>())
    };
    assert_eq!(peers(Order::Rotation, 0), [[1, 2, 3], [3, 2, 1]]);
    assert_eq!(peers(Order::LargestFirst, 0), [[2, 1, 3], [1, 3, 2]]);
    assert_eq!(peers(Order::LargestFirst, 2), [[1, 3, 0], [0, 3, 1]]);
    for order in [Order::ShiftedRounds, Order::AnyReady] {
        assert_eq!(peers(order, 0), peers(Order::Rotation, 0));
    }
}

#[test]
fn shifted_rounds_have_a_window_of_their_own() {
    for window in [None, Some(1), Some(3)] {
        let rounds = planned(uniform(4, 64), Protocol::Native, Order::ShiftedRounds, window);
        assert_eq!(exchange(&rounds, 0).window.sends, 1);
        assert_eq!(exchange(&rounds, 0).window.receives, 1);
    }
}

fn offers(machine: &mut Machine) -> Vec<(Direction, u32)> {
    let step = || match machine.poll(0.0) {
        Step::Wait { .. } => None,
        step => Some(step),
    };
    let transfer = |step| match step {
        Step::Transfer(TransferId { direction, index, .. }) => Some((direction, index)),
        Step::Issue(_) | Step::Announce(_) => None,
        other => panic!("unexpected {other:?}"),
    };
    std::iter::from_fn(step).filter_map(transfer).collect()
}

fn raw(src: u32, dst: u32) -> TransferKey {
    TransferKey { segment: SegmentId(0), stage: Stage::Raw, src: Rank(src), dst: Rank(dst), number: 0 }
}

#[test]
fn any_ready_announces_every_send_that_moves_something() {
    let mut bytes = uniform(4, 64);
    bytes[[0, 2]] = 0;
    let plan = planned(bytes, Protocol::Native, Order::AnyReady, Some(1));
    let mut machine = Machine::new(Arc::clone(&plan.programs[0]), THREADS, 0.0);
    let steps = std::iter::from_fn(|| match machine.poll(0.0) {
        Step::Wait { .. } => None,
        Step::Announce(id) => Some(Some(machine.key(id).dst.0)),
        Step::Issue(_) => Some(None),
        other => panic!("unexpected {other:?}"),
    });
    assert_eq!(steps.flatten().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn only_ends_whose_peers_are_ready_are_offered() {
    use Direction::{Receive, Send};
    let plan = planned(uniform(6, 64), Protocol::Native, Order::AnyReady, Some(2));
    let mut machine = Machine::new(Arc::clone(&plan.programs[0]), THREADS, 0.0);
    let id = |direction, index| TransferId { op: OpId(0), direction, index };
    let ended = |direction, index| Input::Transferred { transfer: id(direction, index), size: None };
    // Before the exchange is open: rank 4 has its receive from rank 0 on offer, which is step 4.
    machine.handle(Input::PeerReady { key: raw(0, 4) });
    assert_eq!(offers(&mut machine), [(Send, 3)]);
    machine.handle(Input::PeerReady { key: raw(0, 5) });
    machine.handle(Input::PeerReady { key: raw(0, 3) });
    machine.handle(Input::PeerReady { key: raw(2, 0) });
    assert_eq!(offers(&mut machine), [(Send, 2), (Receive, 3)], "the earlier step of both");
    machine.handle(Input::PeerReady { key: raw(3, 0) });
    machine.handle(Input::PeerReady { key: raw(5, 0) });
    assert_eq!(offers(&mut machine), [(Receive, 0)], "of two that are announced, the earlier step");
    machine.handle(ended(Send, 3));
    assert_eq!(offers(&mut machine), [(Send, 4)]);
    machine.handle(ended(Receive, 3));
    machine.handle(ended(Send, 2));
    assert_eq!(offers(&mut machine), [(Receive, 2)]);
}

#[test]
fn other_orders_ignore_what_peers_offer() {
    let plan = planned(uniform(4, 64), Protocol::Native, Order::Rotation, Some(1));
    let mut machine = Machine::new(Arc::clone(&plan.programs[0]), THREADS, 0.0);
    machine.handle(Input::PeerReady { key: raw(0, 3) });
    assert_eq!(offers(&mut machine), [(Direction::Send, 0), (Direction::Receive, 0)]);
}

#[test]
fn libraries_cannot_follow_orders_that_reorder() {
    let library = Capabilities { transfer_order: TransferOrder::Library, ..THREADS };
    for order in Order::ALL {
        let plan = planned(uniform(4, 64), Protocol::Native, order, Some(1));
        let make = || Machine::new(Arc::clone(&plan.programs[0]), library, 0.0);
        assert_eq!(std::panic::catch_unwind(make).is_err(), order.reorders(), "{order:?}");
    }
}

/// An executor of no particular speed: news, transfers and ops end in any order.
struct Chaos {
    random: ChaCha8Rng,
    machines: Vec<Machine>,
    offers: HashMap<TransferKey, (usize, TransferId)>,
    /// Inputs under way, and whom they are for.
    pending: Vec<(usize, Input)>,
    open: HashMap<(usize, OpId, Direction), u32>,
    moved: HashSet<TransferKey>,
    done: HashSet<usize>,
}

impl Chaos {
    /// Plays a plan to its end and returns the transfers that moved.
    fn play(plan: &Plan, seed: u64) -> HashSet<TransferKey> {
        let machine = |program: &Arc<_>| Machine::new(Arc::clone(program), THREADS, 0.0);
        let mut chaos = Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            machines: plan.programs.iter().map(machine).collect(),
            offers: HashMap::new(),
            pending: Vec::new(),
            open: HashMap::new(),
            moved: HashSet::new(),
            done: HashSet::new(),
        };
        (0..plan.programs.len()).for_each(|rank| chaos.poll(rank));
        while !chaos.pending.is_empty() {
            let index = chaos.random.random_range(0..chaos.pending.len());
            let (rank, input) = chaos.pending.swap_remove(index);
            if let Input::Transferred { transfer, .. } = &input {
                *chaos.open.get_mut(&(rank, transfer.op, transfer.direction)).unwrap() -= 1;
            }
            chaos.machines[rank].handle(input);
            chaos.poll(rank);
        }
        assert_eq!(chaos.done.len(), plan.programs.len(), "{} stands still", plan.text(None));
        chaos.moved
    }

    fn poll(&mut self, rank: usize) {
        loop {
            match self.machines[rank].poll(0.0) {
                Step::Issue(op) => {
                    let sizes = match &self.machines[rank].op(op).kind {
                        OpKind::Exchange(_) => continue,
                        OpKind::Local(Local::Encode(batch)) => {
                            let coded = |block: &Block| {
                                (block.size, coded_bytes(rank, block.chunk.destination.unwrap()))
                            };
                            batch.blocks.iter().map(coded).collect()
                        }
                        OpKind::Compute(_)
                        | OpKind::Library(_)
                        | OpKind::Local(
                            Local::Split(_) | Local::Decode(_) | Local::Reduce(_) | Local::GatherRows(_),
                        ) => Vec::new(),
                    };
                    self.pending.push((rank, Input::Completed { op, sizes }));
                }
                Step::Announce(id) => {
                    let key = self.machines[rank].key(id);
                    self.pending.push((key.dst.index(), Input::PeerReady { key }));
                }
                Step::Transfer(id) => self.offer(rank, id),
                Step::Close(op) => self.pending.push((rank, Input::Completed { op, sizes: Vec::new() })),
                Step::Wait { .. } => return,
                Step::Done => {
                    self.done.insert(rank);
                    return;
                }
                Step::Abort(failure) => panic!("{failure}"),
            }
        }
    }

    fn offer(&mut self, rank: usize, id: TransferId) {
        let machine = &self.machines[rank];
        let (key, (transfer, exchange)) = (machine.key(id), machine.transfer(id));
        let (peer, window) = (transfer.peer.index(), exchange.window);
        let open = self.open.entry((rank, id.op, id.direction)).or_default();
        *open += 1;
        assert!(*open <= if id.direction == Direction::Send { window.sends } else { window.receives });
        let Some((_, other)) = self.offers.remove(&key) else {
            self.offers.insert(key, (rank, id));
            self.pending.push((peer, Input::PeerReady { key }));
            return;
        };
        assert!(self.moved.insert(key), "{key:?} moves twice");
        for (rank, id) in [(rank, id), (peer, other)] {
            let size = match (id.direction, self.machines[rank].transfer(id).0.content) {
                (Direction::Receive, Content::Size(_) | Content::Announced(..)) => {
                    Some(coded_bytes(key.src.index(), key.dst))
                }
                _ => None,
            };
            self.pending.push((rank, Input::Transferred { transfer: id, size }));
        }
    }
}

/// Some dynamic sections are empty, and left out.
fn coded_bytes(src: usize, dst: Rank) -> u64 {
    (src as u64 + 2 * u64::from(dst.0)) % 3
}

/// Random sparse matrices under every order, window and protocol: plans are valid, play to their ends under any timing,
/// and move the same transfers.
#[test]
fn no_window_blocks_any_order() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for case in 0..30 {
        let ranks = random.random_range(2..=9);
        let density = random.random_range(1..=4);
        // Few sizes, so that many are equal.
        let bytes = Array2::from_shape_fn((ranks, ranks), |_| {
            if random.random_range(0..4) < density { 64 * random.random_range(1..=4) } else { 0 }
        });
        for protocol in Protocol::ALL {
            let mut expected = None;
            for order in Order::ALL {
                for window in [Some(1), Some(2), Some(5), None] {
                    let plan = planned(bytes.clone(), protocol, order, window);
                    plan.validate().unwrap_or_else(|error| panic!("{error}: {}", plan.text(None)));
                    let moved = Chaos::play(&plan, case);
                    let expected = expected.get_or_insert_with(|| moved.clone());
                    assert_eq!(&moved, expected, "{order:?}, window {window:?}");
                }
            }
        }
    }
}
