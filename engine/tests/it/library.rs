//! Calls of a communication library's own collectives on the executor `threads`: they move and add up the very bytes, and keep
//! the declared time of paced runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ndarray::Array2;
use zipwire_cluster::library::{Generation, Hardware, LibraryModel, Operation};
use zipwire_cluster::{DeclaredCost, HostCost, LibraryCost, LinkId};
use zipwire_codec::DType;
use zipwire_engine::threads::{HostSetup, Pace, run};
use zipwire_schedule::plan::{OpKind, Plan};
use zipwire_schedule::{
    Algorithm, CallKind, Channel, Choice, CostModel, Deadlines, Durations, FailureKind, Fault, FaultKind,
    Job, Lane, OpId, Protocol, Rank, Segment, Slack, Slot, Work, plan,
};

use crate::common::{RANKS, nodes, on_threads, payload_of, run_gaussian, tamper};

fn planned(work: Work, protocol: Protocol) -> Plan {
    let phase = Work::Compute { phase: "phase", reads: Vec::new(), writes: vec![Slot(0), Slot(1)] };
    let segments = vec![Segment::new("phase", phase), Segment::new("call", work)];
    let job = Job { name: "case", rank_count: RANKS, slots: vec!["input", "output"], segments };
    let codec = Some("tiered".parse().unwrap());
    let plan = plan(&job, &Choice { algorithm: Some(Algorithm::Library), ..Choice::of(protocol, codec) });
    plan.validate().unwrap();
    plan
}

fn all_gather() -> Work {
    let bytes = vec![20_000, 0, 26, 10_000];
    Work::of_call(DType::Bf16, [Slot(0), Slot(1)], CallKind::AllGather { bytes })
}

fn reduce_scatter() -> Work {
    let bytes = vec![20_000, 0, 28, 10_000];
    Work::of_call(DType::F32, [Slot(0), Slot(1)], CallKind::ReduceScatter { bytes })
}

fn all_reduce() -> Work {
    Work::of_call(DType::Bf16, [Slot(0), Slot(1)], CallKind::AllReduce { bytes: 30_002 })
}

#[test]
fn every_byte_is_moved_and_compared() {
    for work in [all_gather(), reduce_scatter(), all_reduce()] {
        let plan = planned(work, Protocol::Native);
        let report = run_gaussian(&plan).unwrap();
        assert_eq!(report.bytes_verified, 2 * plan.bytes_verified());
        let wire = |lane| -> u64 {
            report.timeline.spans.iter().filter(|span| span.lane == lane).map(|span| span.bytes).sum()
        };
        let call = plan.programs[0].ops.last().unwrap().kind.library().unwrap();
        let ring_bytes = 2 * u64::from(RANKS) * call.ring_bytes(|_| 0);
        assert_eq!(
            (wire(Lane::Tx), wire(Lane::Rx), wire(Lane::Exchange)),
            (ring_bytes, ring_bytes, ring_bytes)
        );
    }
}

/// Two calls that add up are under way on each rank, one on the main channel and one beside it.
#[test]
fn sums_on_two_channels_keep_apart() {
    let reduce = |input, output| {
        Work::of_call(DType::Bf16, [Slot(input), Slot(output)], CallKind::AllReduce { bytes: 400_002 })
    };
    let segments = vec![
        Segment { channel: Channel::Background, ..Segment::new("beside", reduce(0, 1)) },
        Segment::new("main", reduce(2, 3)),
    ];
    let slots = vec!["gradients", "summed", "input", "output"];
    let job = Job { name: "case", rank_count: RANKS, slots, segments };
    let plan =
        plan(&job, &Choice { algorithm: Some(Algorithm::Library), ..Choice::of(Protocol::Native, None) });
    plan.validate().unwrap();
    assert!(plan.programs[0].ops.iter().all(|op| op.deps.is_empty()), "neither waits for the other");
    let payload = payload_of(2);
    let setup = HostSetup { iterations: 0..20, ..on_threads(&plan, &payload) };
    let report = run(&setup, &AtomicBool::new(false)).unwrap();
    assert_eq!(report.bytes_verified, 20 * plan.bytes_verified());
}

#[test]
fn a_call_of_nothing_ends() {
    let [input, output] = [Slot(0), Slot(1)];
    let gather =
        Work::of_call(DType::Bf16, [input, output], CallKind::AllGather { bytes: vec![0; RANKS as usize] });
    let reduce = Work::of_call(DType::Bf16, [input, output], CallKind::AllReduce { bytes: 0 });
    for (work, protocol) in
        [(gather.clone(), Protocol::Native), (gather, Protocol::StaticFirst), (reduce, Protocol::Native)]
    {
        assert_eq!(run_gaussian(&planned(work, protocol)).unwrap().bytes_verified, 0);
    }
}

/// Rank 2 gives what it has widened for shard 1 as what it has for shard 0.
#[test]
fn wrong_bytes_are_noticed() {
    let bytes = vec![10_000; RANKS as usize];
    let work = Work::of_call(DType::Bf16, [Slot(0), Slot(1)], CallKind::ReduceScatter { bytes });
    let mut plan = planned(work, Protocol::Native);
    tamper(&mut plan, 2, 2, |kind| match kind {
        OpKind::Library(call) => call.inputs.list()[0].content = call.inputs.list()[1].content,
        other => panic!("{other:?} calls no library"),
    });
    let error = run_gaussian(&plan).unwrap_err();
    assert_eq!((error.first.kind, error.first.rank), (FailureKind::Corrupt, Rank(0)), "{error}");
}

#[test]
fn a_stopped_run_ends_in_a_call() {
    // Rank 3 does not call: the others would wait for ever.
    let mut plan = planned(all_gather(), Protocol::Native);
    Arc::make_mut(&mut plan.programs[3]).ops.truncate(1);
    let payload = payload_of(2);
    let setup = on_threads(&plan, &payload);
    let cancel = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            cancel.store(true, Ordering::Relaxed);
        });
        run(&setup, &cancel).unwrap_err()
    });
    assert_eq!(error.first.kind, FailureKind::Cancelled);
    let setup = HostSetup { stuck_after: Duration::from_millis(300), ..on_threads(&plan, &payload) };
    let error = run(&setup, &AtomicBool::new(false)).unwrap_err();
    assert_eq!(error.first.kind, FailureKind::Timeout);
    assert!(
        error
            .to_string()
            .contains("is in a call of the library (raw of call), which begins when all ranks are"),
        "{error}"
    );
}

const CALL_S: f64 = 20e-3 + 3.0 * 1e-3 + 3.0 * 20_000.0 / 2e6;

fn pace(late_s: f64) -> Pace {
    let cost = Some(DeclaredCost { latency_s: 20e-3, per_rank_s: 1e-3, bytes_per_s: 2e6 });
    let library = LibraryCost {
        all_gather: cost,
        reduce_scatter: cost,
        all_reduce: cost,
        broadcast: cost,
        model: None,
    };
    let mut durations = Durations::zeros(1, 2, RANKS);
    durations.set(0, 0, Rank(2), late_s);
    let topology = nodes(1, RANKS, [1e9; 2], 0.0);
    let host = HostCost { library, ..HostCost::default() };
    Pace { topology, costs: CostModel { host, codec: None }, durations, dilation: 4.0 }
}

#[test]
fn a_paced_call_begins_with_the_last_rank_and_takes_its_time() {
    for work in [all_gather(), reduce_scatter()] {
        let plan = planned(work, Protocol::Native);
        let (payload, pace) = (payload_of(2), pace(50e-3));
        let setup = HostSetup { iterations: 0..1, pace: Some(&pace), ..on_threads(&plan, &payload) };
        let timeline = run(&setup, &AtomicBool::new(false)).unwrap().timeline;
        let of = |lane| timeline.spans.iter().filter(move |span| span.lane == lane);
        let end_s = of(Lane::Exchange).next().unwrap().end_s;
        assert!(of(Lane::Exchange).all(|span| span.end_s == end_s), "all at the same time");
        assert_eq!(of(Lane::Tx).count(), RANKS as usize);
        for span in of(Lane::Tx).chain(of(Lane::Rx)) {
            assert!((0.05..0.06).contains(&span.begin_s), "when the last rank is there: {}", span.begin_s);
            let late = (span.end_s - span.begin_s) / CALL_S - 1.0;
            assert!((-1e-9..0.1).contains(&late), "{late}");
        }
    }
}

/// A link of one GPU, slower than what the library would use, holds the call back.
#[test]
fn a_paced_call_is_as_fast_as_its_slowest_link() {
    let plan = planned(all_gather(), Protocol::Native);
    let (payload, mut pace) = (payload_of(2), pace(0.0));
    pace.topology.link_bandwidths.insert(LinkId(0), 8e5);
    let setup = HostSetup { iterations: 0..1, pace: Some(&pace), ..on_threads(&plan, &payload) };
    let timeline = run(&setup, &AtomicBool::new(false)).unwrap().timeline;
    let expected_s = 20e-3 + 3.0 * 1e-3 + 3.0 * 20_000.0 / 8e5;
    let off = timeline.iterations[0].length_s / expected_s - 1.0;
    assert!((-1e-9..0.1).contains(&off), "{off}");
}

/// Grouped sends of equal parts take what the model says of an All-to-All of their size.
#[test]
fn paced_all_to_alls_are_grouped_sends() {
    let part = 40_000;
    let bytes = Array2::from_shape_fn((4, 4), |(src, dst)| if src == dst { 0 } else { part });
    let call = Work::of_call(
        DType::Bf16,
        [Slot(0), Slot(1)],
        CallKind::AllToAll { bytes: bytes.into(), tokens: None },
    );
    let job = Job {
        name: "case",
        rank_count: RANKS,
        slots: vec!["input", "output"],
        segments: vec![Segment::new("call", call)],
    };
    let plan = plan(&job, &Choice { grouped: true, ..Choice::of(Protocol::Native, None) });
    let hardware = Hardware {
        nodes: 2,
        gpus_per_node: 2,
        gpu_bytes_per_s: 1e7,
        node_bytes_per_s: 1e6,
        nvlink_domain: 0,
    };
    let model = LibraryModel { hardware, constants: Generation::Hopper.constants() };
    let library = LibraryCost { model: Some(model), ..LibraryCost::default() };
    let costs = CostModel { host: HostCost { library, ..HostCost::default() }, codec: None };
    let (durations, topology) = (Durations::zeros(1, 1, RANKS), nodes(2, 2, [1e7, 1e6], 1.0));
    let pace = Pace { topology, costs, durations, dilation: 2.0 };
    let payload = payload_of(1);
    let setup = HostSetup { iterations: 0..1, pace: Some(&pace), ..on_threads(&plan, &payload) };
    let timeline = run(&setup, &AtomicBool::new(false)).unwrap().timeline;
    let expected_s = model.cost(Operation::AllToAll, RANKS).seconds(4.0 * part as f64);
    let off = timeline.iterations[0].length_s / expected_s - 1.0;
    assert!((-0.02..0.1).contains(&off), "{off}");
}

#[test]
fn whoever_is_dead_is_blamed_for_the_call() {
    let plan = planned(all_gather(), Protocol::Native);
    let (payload, pace) = (payload_of(2), pace(50e-3));
    let slack = Slack { factor: 1.0, floor_s: 0.1 };
    let expected =
        (0..RANKS).flat_map(|rank| [(0, Rank(rank), OpId(0), 0.05), (0, Rank(rank), OpId(1), 0.05 + CALL_S)]);
    let deadlines = Deadlines::new(&plan, 1, slack, expected);
    let faults = [Fault { iteration: 0, kind: FaultKind::DeadRank(Rank(2), 0.0) }];
    let setup = HostSetup {
        iterations: 0..1,
        pace: Some(&pace),
        faults: &faults,
        deadlines: Some(&deadlines),
        ..on_threads(&plan, &payload)
    };
    let error = run(&setup, &AtomicBool::new(false)).unwrap_err();
    assert_eq!((error.first.kind, error.root_cause.rank), (FailureKind::Timeout, Rank(2)), "{error}");
}

#[test]
fn gpus_refuse_calls_of_a_library() {
    let plan = planned(all_gather(), Protocol::Native);
    let error = zipwire_engine::cuda::check(&plan).unwrap_err().to_string();
    assert!(
        error.starts_with("segment 1 calls a collective of a library, and this executor calls none"),
        "{error}"
    );
}
