//! Plans, payloads and settings of the fake driver for the tests.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zipwire_codec::{DType, Layout};
use zipwire_emulation::{Controls, Emulation, scene};
use zipwire_engine::cuda::{CudaSetup, STUCK_AFTER, devices, kernels};
use zipwire_engine::host::RunReport;
use zipwire_payload::Payload;
use zipwire_schedule::plan::Plan;
use zipwire_schedule::{Choice, Protocol, RunFailure, plan};

use crate::common::{RANKS, job, payload};
use crate::run_on;

pub(crate) const ITERATIONS: u32 = 2;

pub(crate) fn controls() -> Controls {
    Controls::find().expect("the harness has started this below the emulation")
}

/// With frames that have kernels.
pub(crate) fn choice(protocol: Protocol) -> Choice {
    let codec = Some("window7".parse().unwrap());
    let layout = protocol.takes_layout().then_some(Layout::Split);
    let speculative_capacity = (protocol == Protocol::Speculative).then_some(0.7);
    Choice { layout, speculative_capacity, ..Choice::of(protocol, codec) }
}

pub(crate) fn layer(protocol: Protocol) -> Plan {
    plan(&job(), &choice(protocol))
}

pub(crate) fn run_with(plan: &Plan, stuck_after: Duration) -> Result<RunReport, Box<RunFailure>> {
    run_payload(plan, &payload(), stuck_after)
}

pub(crate) fn run_payload(
    plan: &Plan,
    payload: &Payload,
    stuck_after: Duration,
) -> Result<RunReport, Box<RunFailure>> {
    let devices = devices(RANKS as usize).unwrap();
    let setup = CudaSetup { plan, payload, iterations: 0..ITERATIONS, stuck_after, devices: &devices };
    run_on(&setup, &AtomicBool::new(false))
}

pub(crate) fn run_well(plan: &Plan) -> RunReport {
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

/// Output of a scene with one kernel replaced.
pub(crate) fn scene_with(name: &str, source: &str, variant: &str) -> String {
    let emulation = Emulation::build(&[source], variant).unwrap();
    let output = scene(name).envs(emulation.environment()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The source of a codec's kernels for BF16, or of sums.
pub(crate) fn source_of(name: &str) -> String {
    kernels::sources()
        .into_iter()
        .find(|source| source.name == name && source.dtype.is_none_or(|dtype| dtype == DType::Bf16))
        .unwrap()
        .text
}
