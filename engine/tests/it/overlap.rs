//! Paced runs in which compute overlaps with codec ops and transfers of its rank: it does its declared work at the speed of the
//! moment.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ndarray::Array2;
use zipwire_cluster::{CodecCost, HostCost, Slowdown};
use zipwire_codec::DType;
use zipwire_engine::threads::{HostSetup, Pace, run};
use zipwire_payload::{Payload, Rows};
use zipwire_schedule::{
    CallKind, Choice, CostModel, Durations, Job, Lane, Order, Protocol, Rank, Segment, Slot, Work, plan,
};
use zipwire_timeline::Timeline;

use crate::common::nodes;

/// A compute phase of 100 ms on two ranks, beside an All-to-All of 400 kB that takes 40 ms raw, and whose encode and decode
/// take 30 ms each.
fn run_beside(protocol: Protocol, compute_slowdown: Slowdown) -> Timeline {
    let bytes = Array2::from_elem((2, 2), 400_000);
    let call = Work::of_call(
        DType::Bf16,
        [Slot(0), Slot(1)],
        CallKind::AllToAll { bytes: bytes.into(), tokens: None },
    );
    let work = Work::Compute { phase: "work", reads: Vec::new(), writes: vec![Slot(2)] };
    let segments = vec![Segment::new("work", work), Segment::new("call", call)];
    let job = Job { name: "beside", rank_count: 2, slots: vec!["in", "out", "own"], segments };
    let codec = (protocol != Protocol::Native).then(|| "tiered".parse().unwrap());
    let order = Order::Rotation;
    let plan = plan(&job, &Choice { order, speculative_capacity: Some(0.5), ..Choice::of(protocol, codec) });
    let mut durations = Durations::zeros(1, 2, 2);
    (0..2).for_each(|rank| durations.set(0, 0, Rank(rank), 0.1));
    let topology = nodes(1, 2, [1e7; 2], 0.0);
    let codec = CodecCost { encode_bytes_per_s: 4e5 / 0.03, decode_bytes_per_s: 4e5 / 0.03, launch_s: 0.0 };
    let host = HostCost { compute_slowdown, ..HostCost::default() };
    let pace = Pace { topology, costs: CostModel { host, codec: Some(codec) }, durations, dilation: 8.0 };
    let rows = Arc::new(Rows::gaussian(1.0, 7));
    let payload = Payload::new(7, vec![Arc::clone(&rows), rows]);
    let setup = HostSetup { pace: Some(&pace), ..HostSetup::new(&plan, &payload, 0..1) };
    run(&setup, &AtomicBool::new(false)).unwrap().timeline
}

/// Compute takes `expected_s`, and a little more where threads wake up late; what it loses is a fifth.
fn assert_ends(timeline: &Timeline, expected_s: f64) {
    let phases: Vec<_> = timeline.spans.iter().filter(|span| span.lane == Lane::Compute).collect();
    assert_eq!(phases.len(), 2);
    for phase in phases {
        let seconds = phase.end_s - phase.begin_s;
        assert!(
            (-0.02..0.08).contains(&(seconds / expected_s - 1.0)),
            "{seconds} s, expected {expected_s} s"
        );
    }
}

#[test]
fn transfers_slow_the_compute_beside_them() {
    let slowdown = Slowdown { exchange: 2.0, ..Slowdown::default() };
    // 40 ms at half speed.
    assert_ends(&run_beside(Protocol::Native, slowdown), 0.12);
}

#[test]
fn codec_ops_slow_the_compute_beside_them() {
    let slowdown = Slowdown { codec: 1.5, ..Slowdown::default() };
    // Encode and decode both fall within: 60 ms at two thirds of the speed.
    assert_ends(&run_beside(Protocol::SizeFirst, slowdown), 0.12);
}

#[test]
fn without_slowdown_compute_takes_its_declared_time() {
    assert_ends(&run_beside(Protocol::SizeFirst, Slowdown::default()), 0.1);
}
