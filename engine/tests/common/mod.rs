//! What tests of several executors share: a small layer, its payload, and plans that are changed behind the planner's back.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_engine::threads::{STUCK_AFTER, Setup};
use zipwire_schedule::plan::{Exchange, OpKind, Plan};
use zipwire_schedule::{Job, Segment, Slot, Work};
use zipwire_traces::{Payload, Rows};

pub(crate) const RANKS: u32 = 4;
/// Bytes from each rank to each other one: a tile and a part of one.
pub(crate) const CHUNK: u64 = 20_000;

/// Dispatch, compute, combine.
pub(crate) fn job() -> Job {
    let bytes = Array2::from_elem((RANKS as usize, RANKS as usize), CHUNK);
    let all_to_all = |input, output| Work::AllToAll {
        dtype: DType::Bf16,
        bytes: bytes.clone(),
        tokens: None,
        input: Slot(input),
        output: Slot(output),
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

/// Two unpaced iterations on threads, without faults.
pub(crate) fn on_threads<'a>(plan: &'a Plan, payload: &'a Payload) -> Setup<'a> {
    Setup {
        plan,
        payload,
        iterations: 0..2,
        stuck_after: STUCK_AFTER,
        cores: 2,
        pace: None,
        faults: &[],
        deadlines: None,
    }
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
