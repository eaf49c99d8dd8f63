//! The executor `threads` when all is well, and when it is not: every planted fault ends all ranks with a typed error.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use zipwire_engine::threads::{HostSetup, RunReport, STUCK_AFTER, run};
use zipwire_payload::Payload;
use zipwire_schedule::plan::{Content, Local, OpKind, Plan};
use zipwire_schedule::{Choice, FailureKind, Protocol, RunFailure, plan};

use crate::common::{RANKS, exchange, job, on_threads, payload, payload_of, tamper};

/// Dispatch, compute, combine among four ranks.
fn layer(protocol: Protocol) -> Plan {
    let codec = Some("tiered".parse().unwrap());
    plan(&job(), &Choice { window: Some(2), speculative_capacity: Some(0.5), ..Choice::of(protocol, codec) })
}

fn run_with(plan: &Plan, payload: &Payload, stuck_after: Duration) -> Result<RunReport, Box<RunFailure>> {
    let setup = HostSetup { iterations: 0..3, stuck_after, ..on_threads(plan, payload) };
    run(&setup, &AtomicBool::new(false))
}

fn failure(plan: &Plan) -> Box<RunFailure> {
    let begin = Instant::now();
    let error = run_with(plan, &payload(), Duration::from_millis(300)).unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(5), "took {:?}", begin.elapsed());
    assert!(error.ranks.contains(&error.first), "{error:?}");
    error
}

#[test]
fn every_protocol_delivers() {
    for protocol in Protocol::ALL {
        let plan = layer(protocol);
        let RunReport { timeline, bytes_verified, .. } = run_with(&plan, &payload(), STUCK_AFTER).unwrap();
        assert_eq!(bytes_verified, 3 * plan.bytes_raw(), "every byte of every iteration");
        assert_eq!(timeline.iterations.len(), 3);
        assert!(timeline.spans.iter().all(|span| 0.0 <= span.begin_s && span.begin_s <= span.end_s));
    }
}

#[test]
fn misrouted_chunks_are_noticed() {
    let mut plan = layer(Protocol::SizeFirst);
    // In `combine`, rank 2 sends the frame for each of two peers to the other, and announces its size.
    let exchanges: Vec<usize> = (0..plan.programs[2].ops.len())
        .filter(|&op| {
            plan.programs[2].ops[op].kind.name() == "exchange" && plan.programs[2].ops[op].segment.0 == 2
        })
        .collect();
    assert_eq!(exchanges.len(), 2, "sizes and frames");
    for op in exchanges {
        tamper(&mut plan, 2, op, |kind| {
            let sends = &mut exchange(kind).sends;
            let content = sends[0].content;
            sends[0].content = sends[1].content;
            sends[1].content = content;
        });
    }
    let error = failure(&plan);
    assert_eq!(error.first.kind, FailureKind::Corrupt, "{error}");
    assert!(error.to_string().contains("of the combine chunk from rank 2 is not what was sent"), "{error}");
}

#[test]
fn a_frame_of_another_chunk_is_corrupt() {
    let mut plan = layer(Protocol::SizeFirst);
    let encode = plan.programs[1].ops.iter().position(|op| op.kind.name() == "encode").unwrap();
    // Rank 1 announces one value less than its peer expects.
    tamper(&mut plan, 1, encode, |kind| match kind {
        OpKind::Local(Local::Encode(batch)) => batch.blocks[0].values.len -= 2,
        other => panic!("{other:?} is no encode"),
    });
    let error = failure(&plan);
    assert_eq!((error.first.rank.0, error.first.kind), (2, FailureKind::Corrupt), "{error}");
    assert!(error.to_string().contains("the frame from rank 1"), "{error}");
}

#[test]
fn ends_that_disagree_about_the_length_are_corrupt() {
    let mut plan = layer(Protocol::Native);
    tamper(&mut plan, 0, 0, |kind| {
        let Content::Values(region) = &mut exchange(kind).sends[0].content else {
            panic!("raw chunks are whole")
        };
        region.len -= 2;
    });
    let error = failure(&plan);
    assert_eq!(error.first.kind, FailureKind::Corrupt);
    assert!(error.to_string().contains("rank 0 sends 19998 bytes where 20000 were announced"), "{error}");
}

#[test]
fn a_missing_receive_ends_in_a_timeout_on_all_ranks() {
    let mut plan = layer(Protocol::StaticFirst);
    let exchange_op = plan.programs[3].ops.iter().position(|op| op.kind.name() == "exchange").unwrap();
    tamper(&mut plan, 3, exchange_op, |kind| {
        exchange(kind).receives.remove(0);
    });
    let error = failure(&plan);
    assert_eq!(error.first.kind, FailureKind::Timeout, "{error}");
    assert!(error.first.op.is_some(), "the exchange that is open is named: {error}");
    let sender = error.ranks.iter().find(|failure| failure.rank.0 == 2).unwrap();
    assert!(sender.detail.contains("waits to send to rank 3 (static of dispatch)"), "{sender}");
    assert_eq!(error.ranks.len(), RANKS as usize, "every rank ends with an error");
}

#[test]
fn a_panic_on_one_rank_ends_all() {
    // A payload without a source for the last segment: the fill of `combine` panics on every rank.
    let payload = payload_of(2);
    let error = run_with(&layer(Protocol::Native), &payload, STUCK_AFTER).unwrap_err();
    assert_eq!(error.first.kind, FailureKind::Device);
    assert!(error.to_string().contains("its thread panicked"), "{error}");
    assert_eq!(error.ranks.len(), RANKS as usize);
}

#[test]
fn cancelling_ends_all() {
    let (plan, payload) = (layer(Protocol::Native), payload());
    let setup = HostSetup::new(&plan, &payload, 0..u32::MAX);
    let cancel = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        let run = scope.spawn(|| run(&setup, &cancel));
        std::thread::sleep(Duration::from_millis(100));
        cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        run.join().unwrap().unwrap_err()
    });
    assert_eq!(error.first.kind, FailureKind::Cancelled);
}
