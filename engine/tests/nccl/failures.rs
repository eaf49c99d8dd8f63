//! Runs over NCCL that must fail: every rank ends with a typed error, soon, and what has failed is named.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zipwire_codec::DType;
use zipwire_engine::Hello;
use zipwire_engine::cuda::{CudaSetup, STUCK_AFTER, devices};
use zipwire_engine::nccl::{self, Timed, Timing};
use zipwire_schedule::plan::Plan;
use zipwire_schedule::{
    Algorithm, CallKind, Choice, FailureKind, Protocol, RunFailure, SegmentId, Slot, Work,
};

use crate::common::{CHUNK, RANKS, exchange, payload, payload_of, tamper, twice};
use crate::jobs::{choice, controls, layer, run_payload, run_well, run_with, with_delays};
use crate::{Test, run_on};

pub(crate) const TESTS: &[Test] = &[
    ("failures::a_call_that_fails_ends_all_ranks", a_call_that_fails_ends_all_ranks),
    ("failures::an_error_that_comes_later_ends_all_ranks", an_error_that_comes_later_ends_all_ranks),
    ("failures::altered_bytes_are_noticed", altered_bytes_are_noticed),
    ("failures::misrouted_values_are_noticed", misrouted_values_are_noticed),
    ("failures::a_rank_that_does_not_connect_ends_all", a_rank_that_does_not_connect_ends_all),
    ("failures::a_missing_receive_ends_all", a_missing_receive_ends_all),
    ("failures::a_missing_wait_is_noticed", a_missing_wait_is_noticed),
    ("failures::communicators_are_kept", communicators_are_kept),
    ("failures::the_order_of_lists_has_no_part", the_order_of_lists_has_no_part),
    ("failures::other_plans_are_told_before_ranks_connect", other_plans_are_told_before_ranks_connect),
    ("failures::a_failure_while_timing_is_told", a_failure_while_timing_is_told),
    ("failures::cancelling_ends_all", cancelling_ends_all),
];

/// Runs a plan that must fail, and soon.
fn failure(plan: &Plan) -> Box<RunFailure> {
    let begin = Instant::now();
    let error = run_with(plan, Duration::from_secs(1)).map(|report| report.bytes_verified).unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(15), "took {:?}", begin.elapsed());
    assert!(error.ranks.contains(&error.first), "{error:?}");
    error
}

/// Other runs are well afterwards: nothing is left of one that has failed.
fn all_is_well() {
    run_well(&layer(Protocol::StaticFirst));
}

fn a_call_that_fails_ends_all_ranks() {
    for (function, number) in [
        ("ncclGetUniqueId", 1),
        ("ncclCommInitRankConfig", 2),
        ("ncclSend", 5),
        ("ncclRecv", 40),
        ("ncclGroupEnd", 30),
    ] {
        controls().fail_nccl(function, number);
        let error = failure(&layer(Protocol::StaticFirst));
        assert_eq!(error.first.kind, FailureKind::Transport, "{error}");
        let text = error.first.to_string();
        assert!(text.contains(function) && text.contains("ncclSystemError"), "{text}");
        let others = error.ranks.iter().filter(|failure| failure.rank != error.first.rank);
        for other in others {
            // Ranks that were in the same group may have failed of it before they were told.
            let is_told = other.kind == FailureKind::Cancelled || other.kind == FailureKind::Transport;
            assert!(is_told, "{other}");
        }
        all_is_well();
    }
}

fn an_error_that_comes_later_ends_all_ranks() {
    controls().fail_nccl_group(20);
    let error = failure(&layer(Protocol::StaticFirst));
    assert_eq!(error.first.kind, FailureKind::Transport, "{error}");
    all_is_well();
}

/// A byte that is flipped on the way is found by a decoder or by the comparison.
fn altered_bytes_are_noticed() {
    controls().corrupt_nccl_message(40);
    let error = failure(&layer(Protocol::Native));
    assert_eq!(error.first.kind, FailureKind::Corrupt, "{error}");
    // A size that is altered can also be one that the two ends of the next transfer do not share.
    controls().corrupt_nccl_message(80);
    failure(&layer(Protocol::StaticFirst));
    all_is_well();
}

fn misrouted_values_are_noticed() {
    let mut plan = layer(Protocol::StaticFirst);
    let ops = plan.programs[2].ops.iter().filter(|op| op.segment == SegmentId(2));
    let exchanges = ops.filter(|op| op.kind.exchange().is_some()).map(|op| op.id.index());
    for op in exchanges.collect::<Vec<_>>() {
        tamper(&mut plan, 2, op, |kind| {
            let sends = &mut exchange(kind).sends;
            (sends[0].content, sends[1].content) = (sends[1].content, sends[0].content);
        });
    }
    let error = failure(&plan);
    assert_eq!(error.first.kind, FailureKind::Corrupt, "{error}");
}

fn a_rank_that_does_not_connect_ends_all() {
    // The last rank's GPU has no room for it: it begins no communicator.
    let plan = layer(Protocol::Native);
    controls().exhaust_nccl(3);
    let error = failure(&plan);
    assert!(matches!(error.first.kind, FailureKind::Transport | FailureKind::Device), "{error}");
    all_is_well();
}

fn a_missing_receive_ends_all() {
    let mut plan = layer(Protocol::Native);
    tamper(&mut plan, 3, 0, |kind| {
        exchange(kind).receives.remove(0);
    });
    let error = failure(&plan);
    // NCCL gives the next receive what was sent for this one, or lets the send wait for ever, which the standstill ends.
    assert!(matches!(error.first.kind, FailureKind::Corrupt | FailureKind::Timeout), "{error}");
    all_is_well();
}

/// Some waits between streams are noticed when they are missing, by the values or by a decoder.
fn a_missing_wait_is_noticed() {
    let plan = layer(Protocol::Native);
    let before = controls().waits();
    run_well(&plan);
    let waits = controls().waits() - before;
    let failed = (0..200_u64).find_map(|run| {
        let result = with_delays(run + 1, || {
            controls().drop_wait(1 + run * 37 % waits);
            run_with(&plan, Duration::from_secs(5))
        });
        controls().drop_wait(0);
        result.err()
    });
    let failure = failed.expect("no missing wait of 200 was noticed");
    assert_eq!(failure.first.kind, FailureKind::Corrupt, "{failure}");
}

/// Runs that end well keep their communicators, and those of other lanes take others.
fn communicators_are_kept() {
    let run = |plan: &Plan| {
        let (payload, devices) = (payload(), devices(1).unwrap());
        let (iterations, stuck_after) = (0..1, Duration::from_secs(5));
        let setup = CudaSetup { plan, payload: &payload, iterations, stuck_after, devices: &devices };
        nccl::run(&setup, nccl::library::library().unwrap(), &AtomicBool::new(false))
    };
    let plan = layer(Protocol::Native);
    run(&plan).unwrap();
    controls().fail_nccl("ncclCommInitRankConfig", 1);
    run(&plan).expect("no communicator is begun");
    let error = run(&layer(Protocol::OverlapSizes)).unwrap_err();
    assert!(error.first.to_string().contains("ncclCommInitRankConfig"), "{error}");
    nccl::release();
    all_is_well();
}

/// Ends may list the transfers of an exchange differently, also where two ranks exchange several.
fn the_order_of_lists_has_no_part() {
    let bytes = vec![CHUNK; RANKS as usize];
    let work = Work::of_call(DType::Bf16, [Slot(0), Slot(1)], CallKind::AllGather { bytes });
    let algorithm = Some(Algorithm::Hierarchical);
    let (mut most, mut plans) = (0, Protocol::ALL.map(layer).to_vec());
    plans.extend(
        Protocol::ALL.map(|protocol| {
            twice(RANKS, &work, &Choice { algorithm, ranks_per_node: 2, ..choice(protocol) })
        }),
    );
    for mut plan in plans {
        let ops = plan.programs[1].ops.iter().filter(|op| op.kind.exchange().is_some());
        for op in ops.map(|op| op.id.index()).collect::<Vec<_>>() {
            tamper(&mut plan, 1, op, |kind| {
                let receives = &mut exchange(kind).receives;
                receives.reverse();
                let same = |peer| receives.iter().filter(|receive| receive.peer == peer).count();
                most = most.max(receives.iter().map(|receive| same(receive.peer)).max().unwrap_or(0));
            });
        }
        let payload = payload_of(plan.segments.len());
        run_payload(&plan, &payload, STUCK_AFTER).unwrap_or_else(|failure| panic!("{failure}"));
    }
    assert!(most > 1, "some ranks exchange several transfers at a time");
}

/// Ranks in processes plan by themselves; one that has planned something else is told so, and not that it does not connect.
fn other_plans_are_told_before_ranks_connect() {
    let plan = layer(Protocol::Native);
    let devices = devices(1).unwrap();
    let (library, payload) = (nccl::library::library().unwrap(), payload());
    let setup = CudaSetup {
        plan: &plan,
        payload: &payload,
        iterations: 0..1,
        stuck_after: STUCK_AFTER,
        devices: &devices,
    };
    let failure = nccl::run_with_hellos(&setup, library, &AtomicBool::new(false), |rank| {
        let own = Hello::new(&plan);
        if rank.0 == 2 { Hello { plan: "another".to_owned(), ..own } } else { own }
    });
    let failure = failure.unwrap_err();
    assert_eq!(failure.first.kind, FailureKind::Mismatch, "{failure}");
}

fn a_failure_while_timing_is_told() {
    let (library, gpus) = (nccl::library::library().unwrap(), devices(2).unwrap());
    let stuck_after = Duration::from_secs(5);
    let timing = Timing { collective: Timed::AllGather, bytes: 1 << 16, rounds: 3, stuck_after };
    let time = || nccl::time_collective(&timing, library, 3, &gpus, &AtomicBool::new(false));
    assert_eq!(time().unwrap().len(), 3);
    controls().fail_nccl("ncclAllGather", 5);
    let failure = time().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Transport, "{failure}");
    assert!(failure.detail.contains("ncclAllGather"), "{failure}");
    assert_eq!(time().unwrap().len(), 3);
}

fn cancelling_ends_all() {
    let (plan, payload, devices) = (layer(Protocol::Native), payload(), devices(1).unwrap());
    let (plan, payload, iterations) = (&plan, &payload, 0..u32::MAX);
    let setup = CudaSetup { plan, payload, iterations, stuck_after: STUCK_AFTER, devices: &devices };
    let cancel = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        let run = scope.spawn(|| run_on(&setup, &cancel));
        std::thread::sleep(Duration::from_millis(300));
        cancel.store(true, Ordering::Relaxed);
        run.join().unwrap().unwrap_err()
    });
    assert_eq!(error.first.kind, FailureKind::Cancelled);
    all_is_well();
}
