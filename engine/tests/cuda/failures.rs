//! Runs that must fail: every rank ends with a typed error, and soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zipwire_engine::EngineError;
use zipwire_engine::cuda::{CudaSetup, STUCK_AFTER, check, check_memory, devices, run};
use zipwire_schedule::plan::{Content, Local, OpKind, Plan};
use zipwire_schedule::{Choice, FailureKind, Order, Protocol, RunFailure, SegmentId, Stage};

use crate::Test;
use crate::common::{RANKS, exchange, job, payload, tamper};
use crate::jobs::{choice, controls, layer, run_with};

pub(crate) const TESTS: &[Test] = &[
    ("failures::misrouted_frames_are_noticed", misrouted_frames_are_noticed),
    ("failures::ends_that_disagree_about_the_length", ends_that_disagree_about_the_length),
    ("failures::ends_that_disagree_about_what_moves", ends_that_disagree_about_what_moves),
    ("failures::a_missing_receive_ends_in_a_timeout", a_missing_receive_ends_in_a_timeout),
    ("failures::a_panic_on_one_rank_ends_all", a_panic_on_one_rank_ends_all),
    ("failures::cancelling_ends_all", cancelling_ends_all),
    ("failures::too_little_memory_is_refused", too_little_memory_is_refused),
    ("failures::plans_without_kernels_are_refused", plans_without_kernels_are_refused),
];

/// Runs a plan that must fail, and quickly.
fn failure(plan: &Plan) -> Box<RunFailure> {
    let begin = Instant::now();
    let error = run_with(plan, Duration::from_millis(500)).map(|report| report.bytes_verified).unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(10), "took {:?}", begin.elapsed());
    assert!(error.ranks.contains(&error.first), "{error:?}");
    error
}

/// The exchanges of a segment on a rank.
fn exchanges(plan: &Plan, rank: usize, segment: SegmentId) -> Vec<usize> {
    let ops = plan.programs[rank].ops.iter();
    let of_segment = ops.filter(|op| op.segment == segment && matches!(op.kind, OpKind::Exchange(_)));
    of_segment.map(|op| op.id.index()).collect()
}

/// Each is a good frame with its sizes; only its values are those of another rank.
fn misrouted_frames_are_noticed() {
    let mut plan = layer(Protocol::StaticFirst);
    assert_eq!(exchanges(&plan, 2, SegmentId(2)).len(), 3, "static sections, sizes and dynamic ones");
    // In `combine`, rank 2 sends what it has for each of two peers to the other.
    for op in exchanges(&plan, 2, SegmentId(2)) {
        tamper(&mut plan, 2, op, |kind| {
            let sends = &mut exchange(kind).sends;
            (sends[0].content, sends[1].content) = (sends[1].content, sends[0].content);
        });
    }
    let error = failure(&plan);
    assert_eq!(error.first.kind, FailureKind::Corrupt, "{error}");
    assert!(error.to_string().contains("of the combine chunk from rank 2 is not what was sent"), "{error}");
}

fn ends_that_disagree_about_the_length() {
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

fn ends_that_disagree_about_what_moves() {
    let mut plan = layer(Protocol::StaticFirst);
    let is_sizes = |plan: &Plan, op: usize| matches!(&plan.programs[1].ops[op].kind, OpKind::Exchange(e) if e.stage == Stage::Sizes);
    let op = exchanges(&plan, 1, SegmentId(0)).into_iter().find(|&op| is_sizes(&plan, op)).unwrap();
    let values = plan.programs[1].ops.iter().find_map(|op| match &op.kind {
        OpKind::Local(Local::Encode(batch)) => Some(batch.blocks[0].values),
        _ => None,
    });
    tamper(&mut plan, 1, op, |kind| exchange(kind).sends[0].content = Content::Values(values.unwrap()));
    let error = failure(&plan);
    assert_eq!(error.first.kind, FailureKind::Corrupt);
    assert!(error.to_string().contains("rank 1 and this rank disagree about what moves"), "{error}");
}

fn a_missing_receive_ends_in_a_timeout() {
    let mut plan = layer(Protocol::StaticFirst);
    let op = exchanges(&plan, 3, SegmentId(0))[0];
    tamper(&mut plan, 3, op, |kind| {
        exchange(kind).receives.remove(0);
    });
    let error = failure(&plan);
    assert_eq!(error.first.kind, FailureKind::Timeout, "{error}");
    assert!(error.first.op.is_some(), "the exchange that is open is named: {error}");
    let sender = error.ranks.iter().find(|failure| failure.rank.0 == 2).unwrap();
    assert!(sender.detail.contains("waits to send to rank 3 (static of dispatch)"), "{sender}");
    assert_eq!(error.ranks.len(), RANKS as usize, "every rank ends with an error");
}

fn a_panic_on_one_rank_ends_all() {
    let mut plan = layer(Protocol::StaticFirst);
    // Rank 1 takes what it decodes for a segment that there is no payload for.
    let mut program = (*plan.programs[1]).clone();
    program.ops.iter_mut().rfind(|op| op.kind.name() == "decode").unwrap().segment = SegmentId(3);
    plan.programs[1] = Arc::new(program);
    let error = failure(&plan);
    assert_eq!((error.first.rank.0, error.first.kind), (1, FailureKind::Device), "{error}");
    assert!(error.to_string().contains("its thread panicked"), "{error}");
}

fn cancelling_ends_all() {
    let (plan, payload, devices) = (layer(Protocol::Native), payload(), devices(1).unwrap());
    let setup = CudaSetup {
        plan: &plan,
        payload: &payload,
        iterations: 0..u32::MAX,
        stuck_after: STUCK_AFTER,
        devices: &devices,
    };
    let cancel = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        let run = scope.spawn(|| run(&setup, &cancel));
        std::thread::sleep(Duration::from_millis(200));
        cancel.store(true, Ordering::Relaxed);
        run.join().unwrap().unwrap_err()
    });
    assert_eq!(error.first.kind, FailureKind::Cancelled);
}

/// Before the run, with both numbers; and, should memory vanish in between, with the driver's error.
fn too_little_memory_is_refused() {
    is_refused_for_memory(&layer(Protocol::StaticFirst));
    // Frames are put together in memory of the decoder.
    is_refused_for_memory(&layer(Protocol::SplitSend));
    // Its kernels keep more of a frame than others.
    let huffman = Choice { codec: Some("huffman".parse().unwrap()), ..choice(Protocol::StaticFirst) };
    is_refused_for_memory(&zipwire_schedule::plan(&job(), &huffman));
}

fn is_refused_for_memory(plan: &Plan) {
    let devices = devices(1).unwrap();
    check_memory(plan, &devices).unwrap();
    controls().set_memory(1_000_000);
    let refused = check_memory(plan, &devices).unwrap_err();
    let failed = run_with(plan, STUCK_AFTER).unwrap_err();
    let EngineError::Memory { device: 0, needed, free } = refused else { panic!("{refused}") };
    controls().set_memory(needed);
    let enough = check_memory(plan, &devices).is_ok() && run_with(plan, STUCK_AFTER).is_ok();
    controls().set_memory(4 << 30);
    assert!(enough, "what is said to be needed is enough: {needed}");
    assert!(needed > 1_000_000 && free <= 1_000_000, "{needed} of {free}");
    assert!(refused.to_string().contains("GPU 0 would need"), "{refused}");
    assert_eq!(failed.first.kind, FailureKind::Device);
    assert!(failed.to_string().contains("`cuMemAlloc` failed"), "{failed}");
}

fn plans_without_kernels_are_refused() {
    let refused = |choice: &Choice| check(&zipwire_schedule::plan(&job(), choice)).unwrap_err();
    let said = |choice: &Choice, parts: &[&str]| {
        let text = refused(choice).to_string();
        assert!(parts.iter().all(|part| text.contains(part)) && text.contains("\nhelp: "), "{text}");
    };
    let codec = Some("rans".parse().unwrap());
    let compact = Choice { layout: None, codec, ..choice(Protocol::SizeFirst) };
    said(&compact, &["`size-first`", "`compact`", "`rans` with `BF16`", "`layout = \"split\"`"]);
    let raw = Choice { codec: Some("raw".parse().unwrap()), ..choice(Protocol::StaticFirst) };
    said(&raw, &["`raw`", "BF16"]);
    let order = Choice { order: Order::AnyReady, ..choice(Protocol::Native) };
    said(&order, &["`any-ready`", "`rotation`"]);
}
