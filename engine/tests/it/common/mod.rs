//! Fixtures of the executors' tests: a small layer, its payload, and plans that are changed behind the planner's back.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ndarray::Array2;
use zipwire_cluster::{Fabric, Topology};
use zipwire_codec::DType;
use zipwire_engine::threads::{HostSetup, RunReport, run};
use zipwire_payload::{Payload, Rows};
use zipwire_schedule::plan::{Exchange, OpKind, Plan};
use zipwire_schedule::{CallKind, Choice, Job, RunFailure, Segment, Slot, Work, plan};

pub(crate) const RANKS: u32 = 4;
/// Bytes from each rank to each other one: a tile and a part of one.
pub(crate) const CHUNK: u64 = 20_000;

/// Dispatch, compute, combine.
pub(crate) fn job() -> Job {
    let bytes = Array2::from_elem((RANKS as usize, RANKS as usize), CHUNK);
    let all_to_all = |input, output| {
        Work::of_call(
            DType::Bf16,
            [Slot(input), Slot(output)],
            CallKind::AllToAll { bytes: bytes.clone().into(), tokens: None },
        )
    };
    let compute =
        Work::Compute { phase: "expert", reads: vec![Slot(1)], writes: vec![Slot(0), Slot(1), Slot(2)] };
    Job {
        name: "layer",
        rank_count: RANKS,
        slots: vec!["tokens", "expert", "combined"],
        segments: vec![
            Segment::new("dispatch", all_to_all(0, 1)),
            Segment::new("expert", compute),
            Segment::new("combine", all_to_all(1, 2)),
        ],
    }
}

/// A phase, the call, and the same call once more over the same memory.
pub(crate) fn twice(rank_count: u32, work: &Work, choice: &Choice) -> Plan {
    let phase = || Work::Compute { phase: "phase", reads: vec![Slot(1)], writes: vec![Slot(0), Slot(1)] };
    let segments = vec![
        Segment::new("before", phase()),
        Segment::new("first", work.clone()),
        Segment::new("between", phase()),
        Segment::new("second", work.clone()),
    ];
    plan(&Job { name: "twice", rank_count, slots: vec!["input", "output"], segments }, choice)
}

/// Nodes with one NIC each: bytes per second of a GPU's link and of a NIC, and seconds of any latency.
pub(crate) fn nodes(nodes: u32, gpus_per_node: u32, bandwidths: [f64; 2], latency_s: f64) -> Topology {
    Topology {
        nodes,
        gpus_per_node,
        nics_per_node: 1,
        gpu_bandwidth: bandwidths[0],
        nic_bandwidth: bandwidths[1],
        latency_intra_s: latency_s,
        latency_inter_s: latency_s,
        fabric: Fabric::Nodes,
        nodes_per_domain: 1,
        link_bandwidths: [].into(),
    }
}

/// Runs a plan on threads; a standstill ends it after a while.
pub(crate) fn run_plan(plan: &Plan, payload: &Payload) -> Result<RunReport, Box<RunFailure>> {
    let setup = HostSetup { stuck_after: Duration::from_secs(20), ..on_threads(plan, payload) };
    run(&setup, &AtomicBool::new(false))
}

/// Two unpaced iterations on threads, without faults.
pub(crate) fn on_threads<'a>(plan: &'a Plan, payload: &'a Payload) -> HostSetup<'a> {
    HostSetup::new(plan, payload, 0..2)
}

/// The same rows for the first `segments` segments.
pub(crate) fn payload_of(segments: usize) -> Payload {
    let rows = Arc::new(Rows::gaussian(1.0, 7));
    Payload::new(7, (0..segments).map(|_| Arc::clone(&rows)).collect())
}

/// For all segments of [`job`].
pub(crate) fn payload() -> Payload {
    payload_of(3)
}

/// Values of many sizes for all segments of a plan: sums of a few BF16 values of one size are exact in FP32, in any order.
pub(crate) fn values_of_many_sizes(plan: &Plan) -> Payload {
    let mut state = 1_u32;
    let values = (0..64 * 256).flat_map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let exponent = 112 + (state >> 20) % 24;
        let bits = (state >> 31) << 15 | exponent << 7 | (state >> 8) & 0x7f;
        u16::try_from(bits).expect("16 bits").to_le_bytes()
    });
    let rows = Arc::new(Rows::new(values.collect(), 512));
    Payload::new(7, plan.segments.iter().map(|_| Arc::clone(&rows)).collect())
}

pub(crate) fn run_sums(plan: &Plan) -> Result<RunReport, Box<RunFailure>> {
    run_plan(plan, &values_of_many_sizes(plan))
}

pub(crate) fn run_gaussian(plan: &Plan) -> Result<RunReport, Box<RunFailure>> {
    run_plan(plan, &payload_of(plan.segments.len()))
}

/// Changes an op of one rank behind the planner's back.
pub(crate) fn tamper(plan: &mut Plan, rank: usize, op: usize, change: impl FnOnce(&mut OpKind)) {
    let mut program = (*plan.programs[rank]).clone();
    change(&mut program.ops[op].kind);
    plan.programs[rank] = Arc::new(program);
}

pub(crate) fn exchange(kind: &mut OpKind) -> &mut Exchange {
    match kind {
        OpKind::Exchange(exchange) => exchange,
        other => panic!("{other:?} is no exchange"),
    }
}
