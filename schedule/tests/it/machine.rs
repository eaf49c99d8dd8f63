//! The machine against a toy executor: readiness rules, windows, sizes, and misuse.

use std::sync::Arc;

use crate::common::{STREAMS, THREADS, choice, layer, uniform};
use zipwire_schedule::machine::{Direction, Input, Step, TransferId};
use zipwire_schedule::plan::{Content, OpKind, Program};
use zipwire_schedule::{
    Capabilities, Choice, Failure, FailureKind, Machine, OpId, Order, Protocol, Rank, plan,
};

fn program(protocol: Protocol, window: Option<u32>) -> Arc<Program> {
    Arc::clone(&plan(&layer(uniform(4, 2048)), &choice(protocol, window)).programs[0])
}

/// Polls until the machine waits or ends; the last step is returned apart.
fn poll_all(machine: &mut Machine) -> (Vec<Step>, Step) {
    let mut steps = Vec::new();
    loop {
        match machine.poll(0.0) {
            step @ (Step::Wait { .. } | Step::Done | Step::Abort(_)) => return (steps, step),
            step => steps.push(step),
        }
    }
}

/// Sizes that an op defines, all 100 bytes.
fn sizes(machine: &Machine, op: OpId) -> Vec<(zipwire_schedule::SizeId, u64)> {
    machine.op(op).kind.effects().defines.into_iter().map(|size| (size, 100)).collect()
}

#[test]
fn completion_readiness_runs_one_op_at_a_time() {
    let program = program(Protocol::SizeFirst, None);
    let mut machine = Machine::new(program, THREADS, 0.0);
    let (steps, last) = poll_all(&mut machine);
    assert_eq!(steps, [Step::Issue(OpId(0))], "encode");
    assert_eq!(last, Step::Wait { until_s: None });
    let sizes = sizes(&machine, OpId(0));
    machine.handle(Input::Completed { op: OpId(0), sizes });
    let (steps, _) = poll_all(&mut machine);
    let transfers = steps.iter().filter(|step| matches!(step, Step::Transfer(_))).count();
    assert_eq!((steps[0].clone(), transfers), (Step::Issue(OpId(1)), 6), "3 sends and 3 receives of sizes");
}

#[test]
fn the_window_bounds_sends_and_receives_apart() {
    let mut machine = Machine::new(program(Protocol::Native, Some(2)), THREADS, 0.0);
    let (steps, _) = poll_all(&mut machine);
    let id = |direction, index| TransferId { op: OpId(0), direction, index };
    let offered =
        [(Direction::Send, 0), (Direction::Send, 1), (Direction::Receive, 0), (Direction::Receive, 1)];
    let expected: Vec<Step> = offered.iter().map(|&(d, i)| Step::Transfer(id(d, i))).collect();
    assert_eq!(steps[1..], expected);
    machine.handle(Input::Transferred { transfer: id(Direction::Receive, 1), size: None });
    assert_eq!(
        poll_all(&mut machine).0,
        [Step::Transfer(id(Direction::Receive, 2))],
        "only receives have room"
    );
    for (direction, index) in [(Direction::Send, 0), (Direction::Send, 1)] {
        machine.handle(Input::Transferred { transfer: id(direction, index), size: None });
    }
    assert_eq!(poll_all(&mut machine).0, [Step::Transfer(id(Direction::Send, 2))]);
    for (direction, index) in [(Direction::Send, 2), (Direction::Receive, 0), (Direction::Receive, 2)] {
        machine.handle(Input::Transferred { transfer: id(direction, index), size: None });
    }
    assert_eq!(poll_all(&mut machine).0, [Step::Close(OpId(0))]);
    machine.handle(Input::Completed { op: OpId(0), sizes: Vec::new() });
    assert_eq!(poll_all(&mut machine).0, [Step::Issue(OpId(1))], "the experts");
}

/// With stream order the host waits only where it must know sizes: once per coded All-to-All.
#[test]
fn issue_readiness_waits_for_sizes_alone() {
    for (protocol, ops_before_wait) in
        [(Protocol::Native, 3), (Protocol::SizeFirst, 2), (Protocol::StaticFirst, 3)]
    {
        let mut machine = Machine::new(program(protocol, None), STREAMS, 0.0);
        let mut host_waits = 0;
        loop {
            let (steps, last) = poll_all(&mut machine);
            let issued: Vec<OpId> = steps
                .iter()
                .map(|step| match step {
                    Step::Issue(op) => *op,
                    other => panic!("libraries order transfers: {other:?}"),
                })
                .collect();
            if host_waits == 0 {
                assert_eq!(issued.len(), ops_before_wait, "{protocol:?}");
            }
            if last == Step::Done {
                break;
            }
            // The device catches up with all that was issued.
            let in_flight: Vec<OpId> = issued;
            assert!(!in_flight.is_empty(), "{protocol:?} waits for nothing");
            for op in in_flight {
                let sizes = sizes(&machine, op);
                machine.handle(Input::Completed { op, sizes });
            }
            host_waits += 1;
        }
        let expected = if protocol == Protocol::Native { 1 } else { 3 };
        assert_eq!(host_waits, expected, "{protocol:?}: one per coded call, one at the end");
    }
}

#[test]
fn empty_dynamic_sections_are_left_out() {
    let mut machine = Machine::new(program(Protocol::StaticFirst, None), THREADS, 0.0);
    let mut moved = Vec::new();
    loop {
        let (steps, last) = poll_all(&mut machine);
        if last == Step::Done {
            break;
        }
        for step in steps {
            match step {
                Step::Issue(op) if matches!(machine.op(op).kind, OpKind::Exchange(_)) => {}
                Step::Issue(op) => {
                    // Nothing in the dynamic sections.
                    let sizes =
                        machine.op(op).kind.effects().defines.into_iter().map(|size| (size, 0)).collect();
                    machine.handle(Input::Completed { op, sizes });
                }
                Step::Transfer(transfer) => {
                    let (end, exchange) = machine.transfer(transfer);
                    moved.push(exchange.stage);
                    let size = match (end.content, transfer.direction) {
                        (Content::Size(_) | Content::Announced(..), Direction::Receive) => Some(0),
                        _ => None,
                    };
                    machine.handle(Input::Transferred { transfer, size });
                }
                Step::Close(op) => machine.handle(Input::Completed { op, sizes: Vec::new() }),
                other => panic!("unexpected {other:?}"),
            }
        }
    }
    assert_eq!(moved.len(), 2 * (6 + 6), "static sections and sizes, twice");
}

#[test]
fn transfers_wait_for_their_time() {
    let program = program(Protocol::Native, None);
    let mut late = (*program).clone();
    let OpKind::Exchange(exchange) = &mut late.ops[0].kind else { panic!("an exchange") };
    exchange.sends.iter_mut().for_each(|transfer| transfer.not_before_s = 2.0);
    let late = Arc::new(late);
    let mut machine = Machine::new(Arc::clone(&late), THREADS, 10.0);
    let steps: Vec<Step> = std::iter::from_fn(|| match machine.poll(10.0) {
        Step::Wait { until_s } => {
            assert_eq!(until_s, Some(12.0));
            None
        }
        step => Some(step),
    })
    .collect();
    assert_eq!(steps.len(), 1 + 3, "the exchange and its receives");
    assert!(matches!(
        machine.poll(12.0),
        Step::Transfer(TransferId { direction: Direction::Send, index: 0, .. })
    ));

    let untimed = Capabilities { timed: false, ..THREADS };
    let mut machine = Machine::new(late, untimed, 10.0);
    assert_eq!(poll_all(&mut machine).0.len(), 1 + 6);
}

#[test]
fn the_first_failure_wins() {
    let mut machine = Machine::new(program(Protocol::Native, None), THREADS, 0.0);
    for (kind, detail) in [(FailureKind::Corrupt, "first"), (FailureKind::Timeout, "second")] {
        machine.handle(Input::Failed(Failure::new(Rank(0), Some(OpId(0)), kind, detail)));
    }
    let Step::Abort(failure) = machine.poll(0.0) else { panic!("failures end the program") };
    assert_eq!(failure.to_string(), "rank 0 received corrupt bytes in op `%0`: first");
}

#[test]
#[should_panic(expected = "without being issued")]
fn completing_what_was_not_issued_is_a_bug() {
    let mut machine = Machine::new(program(Protocol::Native, None), THREADS, 0.0);
    machine.handle(Input::Completed { op: OpId(1), sizes: Vec::new() });
}

/// News that comes again admits no further transfer, ends nothing, and offers nothing twice, even when its exchange is over.
#[test]
fn news_that_comes_again_changes_nothing() {
    let mut machine = Machine::new(program(Protocol::SizeFirst, Some(1)), THREADS, 0.0);
    let (steps, _) = poll_all(&mut machine);
    let mut told = Vec::new();
    let mut left: Vec<Step> = steps;
    while let Some(step) = left.pop() {
        let input = match step {
            Step::Issue(op) if machine.op(op).kind.exchange().is_some() => continue,
            Step::Issue(op) => Input::Completed { op, sizes: sizes(&machine, op) },
            Step::Close(op) => Input::Completed { op, sizes: Vec::new() },
            Step::Transfer(transfer) => {
                let brings = machine.transfer(transfer).0.content.brings().is_some();
                let size = (brings && transfer.direction == Direction::Receive).then_some(100);
                Input::Transferred { transfer, size }
            }
            step => panic!("{step:?}"),
        };
        machine.handle(input.clone());
        left.extend(poll_all(&mut machine).0);
        told.push(input);
        let before = format!("{machine:?}");
        for input in &told {
            machine.handle(input.clone());
        }
        assert_eq!(format!("{machine:?}"), before);
        assert_eq!(poll_all(&mut machine).0, []);
    }
    assert_eq!(machine.poll(0.0), Step::Done);
}

#[test]
fn a_peer_is_ready_for_a_transfer_once() {
    let any_ready = Choice { order: Order::AnyReady, ..choice(Protocol::Native, None) };
    let plan = plan(&layer(uniform(4, 2048)), &any_ready);
    let mut machine = Machine::new(Arc::clone(&plan.programs[0]), THREADS, 0.0);
    let (steps, _) = poll_all(&mut machine);
    assert_eq!(steps.len(), 4, "the exchange, and three announcements: {steps:?}");
    let receive = TransferId { op: OpId(0), direction: Direction::Receive, index: 1 };
    for expected in [vec![Step::Transfer(receive)], Vec::new()] {
        machine.handle(Input::PeerReady { key: machine.key(receive) });
        assert_eq!(poll_all(&mut machine).0, expected);
    }
    machine.handle(Input::Transferred { transfer: receive, size: None });
    machine.handle(Input::PeerReady { key: machine.key(receive) });
    assert_eq!(poll_all(&mut machine).0, [], "it has ended");
}

#[test]
fn news_that_contradicts_what_came_first_is_a_failure() {
    let encode = |machine: &Machine, value| {
        let sizes = sizes(machine, OpId(0)).into_iter().map(|(size, _)| (size, value)).collect();
        Input::Completed { op: OpId(0), sizes }
    };
    let mut machine = Machine::new(program(Protocol::SizeFirst, None), THREADS, 0.0);
    poll_all(&mut machine);
    machine.handle(encode(&machine, 100));
    poll_all(&mut machine);
    let transfer = TransferId { op: OpId(1), direction: Direction::Receive, index: 0 };
    for size in [7, 8] {
        machine.handle(Input::Transferred { transfer, size: Some(size) });
    }
    let Step::Abort(failure) = machine.poll(0.0) else { panic!("sizes differ") };
    assert_eq!((failure.kind, failure.transfer), (FailureKind::Transport, Some(machine.key(transfer))));
    assert!(failure.to_string().ends_with("has ended twice, with 7 and 8 bytes of a size"), "{failure}");

    let mut machine = Machine::new(program(Protocol::SizeFirst, None), THREADS, 0.0);
    poll_all(&mut machine);
    for value in [100, 101] {
        machine.handle(encode(&machine, value));
    }
    let Step::Abort(failure) = machine.poll(0.0) else { panic!("sizes differ") };
    assert_eq!((failure.kind, failure.op), (FailureKind::Device, Some(OpId(0))));
}

#[test]
#[should_panic(expected = "without being on offer")]
fn a_transfer_that_ends_without_being_on_offer_is_a_bug() {
    let mut machine = Machine::new(program(Protocol::Native, Some(1)), THREADS, 0.0);
    poll_all(&mut machine);
    let transfer = TransferId { op: OpId(0), direction: Direction::Send, index: 2 };
    machine.handle(Input::Transferred { transfer, size: None });
}

#[test]
fn what_a_library_has_moved_is_no_longer_pending() {
    let mut machine = Machine::new(program(Protocol::Native, None), STREAMS, 0.0);
    let (steps, _) = poll_all(&mut machine);
    let Step::Issue(exchange) = steps[0] else { panic!("{steps:?}") };
    assert!(steps.iter().all(|step| matches!(step, Step::Issue(_))), "a library needs no offers: {steps:?}");
    let of_exchange =
        |machine: &Machine| machine.status().pending.iter().filter(|p| p.op == exchange).count();
    assert_eq!(of_exchange(&machine), 6, "three sends, three receives");
    assert!(machine.status().pending.iter().all(|pending| pending.offered));
    let transfer = TransferId { op: exchange, direction: Direction::Receive, index: 1 };
    machine.handle(Input::Transferred { transfer, size: None });
    assert_eq!(of_exchange(&machine), 5);
    // The others need not be reported.
    machine.handle(Input::Completed { op: exchange, sizes: Vec::new() });
    assert_eq!(of_exchange(&machine), 0);
}

/// Where a device carries out a lane in the order of issue, an exchange whose sizes the host waits for is not overtaken by a later one:
/// at the peer, whose host may know them already, the order would be another.
#[test]
fn devices_get_the_exchanges_of_a_lane_in_program_order() {
    // Parts of three tiles each, so that there are two parts.
    let parts = Choice { parts: 2, ..choice(Protocol::SizeFirst, None) };
    let plan = plan(&layer(uniform(2, 96 * 1024)), &parts);
    let mut machine = Machine::new(Arc::clone(&plan.programs[0]), STREAMS, 0.0);
    let exchanges: Vec<OpId> =
        machine.program().ops.iter().filter(|op| op.kind.exchange().is_some()).map(|op| op.id).collect();
    let (mut issued, mut running): (Vec<OpId>, Vec<OpId>) = Default::default();
    while machine.completed() < machine.program().ops.len() {
        let (steps, _) = poll_all(&mut machine);
        running.extend(steps.iter().map(|step| match step {
            Step::Issue(op) => *op,
            step => panic!("{step:?}"),
        }));
        issued.extend(
            running
                .iter()
                .copied()
                .filter(|op| exchanges.contains(op) && !issued.contains(op))
                .collect::<Vec<_>>(),
        );
        // What was issued last ends first: sizes of the second part are known before those of the first one.
        let op = running.pop().unwrap();
        let sizes = sizes(&machine, op);
        machine.handle(Input::Completed { op, sizes });
    }
    assert_eq!(issued, exchanges);
}
