//! Reduce-Scatter and All-Reduce: frames are decoded by kernels, sums added up by one, and all of it compared with what the
//! payload of all ranks adds up to.

use std::process::ExitCode;
use std::time::Duration;

use zipwire_codec::DType;
use zipwire_emulation::Scene;
use zipwire_engine::cuda::STUCK_AFTER;
use zipwire_schedule::plan::Plan;
use zipwire_schedule::{Algorithm, CallKind, Choice, Protocol, RunFailure, Slot, SumType, Work};

use crate::Test;
use crate::common::{RANKS, twice, values_of_many_sizes};
use crate::jobs::{ITERATIONS, choice, run_payload, scene_with, source_of, with_delays};

pub(crate) const TESTS: &[Test] = &[
    ("sums::every_algorithm_delivers", || {
        every_form_delivers(&TYPES[1..2], &[Protocol::Native, Protocol::StaticFirst]);
    }),
    ("sums::whole::every_form_delivers", || {
        every_form_delivers(&TYPES, &[Protocol::Native, Protocol::StaticFirst, Protocol::Speculative]);
    }),
    ("sums::another_order_of_terms_is_noticed", another_order_of_terms_is_noticed),
    ("sums::sums_that_are_not_rounded_are_noticed", sums_that_are_not_rounded_are_noticed),
];

pub(crate) const SCENES: &[Scene] = &[Scene { name: "adding", run: adding }];

fn reduce_scatter(dtype: DType) -> Work {
    let bytes = [10_000, 0, 13, 5000].map(|count| count * dtype.width() as u64).to_vec();
    Work::Call { dtype, input: Slot(0), output: Slot(1), kind: CallKind::ReduceScatter { bytes } }
}

fn all_reduce(dtype: DType) -> Work {
    let bytes = 30_003 * dtype.width() as u64;
    Work::Call { dtype, input: Slot(0), output: Slot(1), kind: CallKind::AllReduce { bytes } }
}

fn planned(work: &Work, sums: SumType, protocol: Protocol, algorithm: Algorithm) -> Plan {
    let codec = Some("tiered".parse().unwrap());
    let choice = Choice { codec, algorithm: Some(algorithm), ranks_per_node: 2, sums, ..choice(protocol) };
    twice(RANKS, work, &choice)
}

/// Types of the values, and of their sums on the way.
const TYPES: [(DType, SumType); 3] =
    [(DType::Bf16, SumType::Sent), (DType::Bf16, SumType::Fp32), (DType::F32, SumType::Sent)];

/// Every algorithm that plans have, under delays: in all types raw values and frames, with and without overflow.
fn every_form_delivers(types: &[(DType, SumType)], protocols: &[Protocol]) {
    let mut plans = 0;
    for (seed, &(dtype, sums)) in (1..).zip(types) {
        for work in [reduce_scatter(dtype), all_reduce(dtype)] {
            for &algorithm in work.algorithms().iter().filter(|&&algorithm| algorithm != Algorithm::Library) {
                for &protocol in protocols {
                    if protocol.is_coded() && !algorithm.takes_frames(true) {
                        continue;
                    }
                    let plan = planned(&work, sums, protocol, algorithm);
                    let payload = values_of_many_sizes(&plan);
                    let run = with_delays(seed, || run_payload(&plan, &payload, STUCK_AFTER));
                    let report =
                        run.unwrap_or_else(|failure| panic!("{algorithm:?} {protocol:?}: {failure}"));
                    let verified = u64::from(ITERATIONS) * plan.bytes_verified();
                    assert_eq!(report.bytes_verified, verified, "{algorithm:?} {protocol:?}");
                    assert!(plan.bytes_reduced() > 0, "{algorithm:?}");
                    plans += 1;
                }
            }
        }
    }
    // Algorithms of two collectives, by protocol; some take no frames.
    let expected: usize = protocols.iter().map(|protocol| if protocol.is_coded() { 4 } else { 7 }).sum();
    assert_eq!(plans, types.len() * expected);
}

/// Prints what becomes of a Reduce-Scatter of FP32 values and of one of BF16 values, a line each.
fn adding() -> ExitCode {
    for dtype in [DType::F32, DType::Bf16] {
        let plan = planned(&reduce_scatter(dtype), SumType::Sent, Protocol::Native, Algorithm::Direct);
        let run = run_payload(&plan, &values_of_many_sizes(&plan), Duration::from_secs(5));
        let first = |failure: Box<RunFailure>| format!("{:?} in {:?}", failure.first.kind, failure.first.op);
        println!("{}", run.map_or_else(first, |_| "delivered".to_owned()));
    }
    ExitCode::SUCCESS
}

/// Lines that the scene prints with a changed kernel.
fn with_kernel(from: &str, to: &str, variant: &str) -> [String; 2] {
    let source = source_of("sum");
    assert!(source.contains(from), "the kernel has changed");
    let said = scene_with("adding", &source.replace(from, to), variant);
    said.lines().map(str::to_owned).collect::<Vec<_>>().try_into().unwrap()
}

fn another_order_of_terms_is_noticed() {
    let backwards = "= terms[addition.term_count - 1 - number]";
    let [of_f32, _] = with_kernel("= terms[number]", backwards, "backwards");
    assert!(of_f32.starts_with("Corrupt"), "{of_f32}");
}

fn sums_that_are_not_rounded_are_noticed() {
    let function = "rounded_bits(float value) {";
    let truncated = format!("{function}\n    return __float_as_uint(value) >> 16;");
    let [of_f32, of_bf16] = with_kernel(function, &truncated, "truncated");
    assert_eq!(of_f32, "delivered");
    assert!(of_bf16.starts_with("Corrupt"), "{of_bf16}");
}
