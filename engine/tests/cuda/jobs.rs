//! Plans, payloads and settings of the fake driver for the tests.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ndarray::Array2;
use zipwire_codec::{DType, Layout};
use zipwire_emulation::Controls;
use zipwire_engine::cuda::{Report, STUCK_AFTER, Setup, devices, run};
use zipwire_schedule::plan::Plan;
use zipwire_schedule::{Choice, Job, Order, Protocol, RunFailure, Segment, Slot, Work, plan};
use zipwire_traces::{Payload, Rows};

pub(crate) const RANKS: u32 = 4;
/// Bytes from each rank to each other one: a tile and a part of one.
pub(crate) const CHUNK: u64 = 20_000;
pub(crate) const ITERATIONS: u32 = 2;

pub(crate) fn controls() -> Controls {
    Controls::find().expect("the harness has started this below the emulation")
}

/// Dispatch, compute, combine.
pub(crate) fn job() -> Job {
    let bytes = Array2::from_elem((RANKS as usize, RANKS as usize), CHUNK);
    let all_to_all = |input, output| Work::AllToAll {
        dtype: DType::Bf16,
        bytes: bytes.clone(),
        input: Slot(input),
        output: Slot(output),
    };
    let compute = Work::Compute { reads: vec![Slot(1)], writes: vec![Slot(0), Slot(1), Slot(2)] };
    Job {
        name: "layer",
        rank_count: RANKS,
        slots: vec!["tokens", "expert", "combined"],
        segments: vec![
            Segment { name: "dispatch", work: all_to_all(0, 1) },
            Segment { name: "expert", work: compute },
            Segment { name: "combine", work: all_to_all(1, 2) },
        ],
    }
}

/// With frames that have kernels.
pub(crate) fn choice(protocol: Protocol) -> Choice {
    let codec = Some("window7".parse().unwrap());
    let layout = (protocol == Protocol::SizeFirst).then_some(Layout::Split);
    Choice { protocol, form: None, layout, order: Order::Rotation, window: None, codec }
}

pub(crate) fn layer(protocol: Protocol) -> Plan {
    plan(&job(), &choice(protocol))
}

pub(crate) fn payload() -> Payload {
    let rows = Arc::new(Rows::gaussian(1.0, 7));
    Payload::new(7, (0..3).map(|_| Arc::clone(&rows)).collect())
}

pub(crate) fn run_with(plan: &Plan, stuck_after: Duration) -> Result<Report, Box<RunFailure>> {
    let devices = devices(RANKS as usize).unwrap();
    let payload = payload();
    let setup = Setup { plan, payload: &payload, iterations: ITERATIONS, stuck_after, devices: &devices };
    run(&setup, &AtomicBool::new(false))
}

pub(crate) fn run_well(plan: &Plan) -> Report {
    run_with(plan, STUCK_AFTER).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Runs something on a device that delays everything, and lets threads of kernels run in any order.
pub(crate) fn with_delays<R>(seed: u64, run: impl FnOnce() -> R) -> R {
    let controls = controls();
    controls.set_seed(seed);
    controls.set_delay_us(300);
    let result = run();
    controls.set_delay_us(0);
    controls.set_seed(0);
    result
}
