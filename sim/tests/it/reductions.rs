//! Reduce-Scatter and All-Reduce in virtual time against closed forms.

use crate::common::{self, assert_close, flat, job, setup};
use zipwire_cluster::{CodecCost, HostCost};
use zipwire_codec::DType;
use zipwire_schedule::switcher::{LinearModel, Prior};
use zipwire_schedule::{Algorithm, CallKind, Choice, CostModel, Durations, Protocol, Slot, Work, plan};
use zipwire_sim::{FrameSizes, SimSetup};

const LATENCY_S: f64 = 5e-6;
const BANDWIDTH: f64 = 1e9;
const REDUCE: f64 = 8e9;
const CODEC: CodecCost = CodecCost { encode_bytes_per_s: 2e9, decode_bytes_per_s: 4e9, launch_s: 3e-6 };
const RATIO: f64 = 1.25;
/// Bytes of a shard of BF16 values.
const SHARD: u64 = 1_000_000;

fn reduce_scatter(ranks: u32, dtype: DType, shard: u64) -> Work {
    Work::of_call(dtype, [Slot(0), Slot(1)], CallKind::ReduceScatter { bytes: vec![shard; ranks as usize] })
}

fn seconds(ranks: u32, work: Work, protocol: Protocol, algorithm: Algorithm, launch_s: f64) -> f64 {
    let choice = Choice { algorithm: Some(algorithm), ..Choice::of(protocol, Some(crate::window7())) };
    let plan = plan(&job(ranks, [("call", work)]), &choice);
    plan.validate().unwrap();
    let (topology, durations) = (flat(ranks, BANDWIDTH, LATENCY_S), Durations::zeros(1, 1, ranks));
    let setup = SimSetup {
        costs: CostModel {
            host: HostCost { launch_s, reduce_bytes_per_s: REDUCE, ..HostCost::default() },
            codec: Some(CODEC),
        },
        sizes: FrameSizes::Ratio(RATIO),
        ..setup(&plan, &topology, &durations)
    };
    common::seconds(&setup)
}

#[test]
fn a_ring_of_fp32_takes_a_latency_a_shard_and_a_sum_per_step() {
    let (ranks, n, s) = (5, 5.0, SHARD as f64);
    let got =
        seconds(ranks, reduce_scatter(ranks, DType::F32, SHARD), Protocol::Native, Algorithm::Ring, 0.0);
    // A sum reads what came and what is there.
    assert_close(got, (n - 1.0) * (LATENCY_S + s / BANDWIDTH + 2.0 * s / REDUCE));
    let launched =
        seconds(ranks, reduce_scatter(ranks, DType::F32, SHARD), Protocol::Native, Algorithm::Ring, 1e-6);
    // All steps and sums are one kernel.
    assert_close(launched, got + 1e-6);
}

#[test]
fn a_ring_moves_bf16_as_fp32() {
    let (ranks, n, s) = (4, 4.0, SHARD as f64);
    let got =
        seconds(ranks, reduce_scatter(ranks, DType::Bf16, SHARD), Protocol::Native, Algorithm::Ring, 0.0);
    // Before the first step values are widened; a sum reads four bytes that came and two that are there.
    let step_s = LATENCY_S + 2.0 * s / BANDWIDTH + 3.0 * s / REDUCE;
    assert_close(got, s / REDUCE + (n - 1.0) * step_s);
}

#[test]
fn the_all_to_all_form_is_a_burst_and_one_sum() {
    for dtype in [DType::Bf16, DType::F32] {
        let (ranks, n, s) = (6, 6.0, SHARD as f64);
        let work = reduce_scatter(ranks, dtype, SHARD);
        let got = seconds(ranks, work, Protocol::Native, Algorithm::Direct, 0.0);
        assert_close(got, LATENCY_S + (n - 1.0) * s / BANDWIDTH + n * s / REDUCE);
    }
}

#[test]
fn a_zipped_reduce_scatter_adds_codec_and_sizes() {
    let (ranks, n, s) = (4, 4.0, SHARD as f64);
    let work = reduce_scatter(ranks, DType::Bf16, SHARD);
    let got = seconds(ranks, work, Protocol::SizeFirst, Algorithm::Direct, 0.0);
    let raw = (n - 1.0) * s;
    let codec_s = 2.0 * CODEC.launch_s + raw / CODEC.encode_bytes_per_s + raw / CODEC.decode_bytes_per_s;
    let sizes_s = LATENCY_S + (n - 1.0) * 8.0 / BANDWIDTH;
    let data_s = LATENCY_S + raw / RATIO / BANDWIDTH;
    assert_close(got, codec_s + sizes_s + data_s + n * s / REDUCE);
}

#[test]
fn an_all_reduce_is_a_reduce_scatter_and_an_all_gather() {
    let (ranks, n, s) = (4, 4.0, SHARD as f64);
    let work = || Work::of_call(DType::F32, [Slot(0), Slot(1)], CallKind::AllReduce { bytes: 4 * SHARD });
    let scatter = reduce_scatter(ranks, DType::F32, SHARD);
    let of = |work, algorithm| seconds(ranks, work, Protocol::Native, algorithm, 0.0);
    let gather_s = (n - 1.0) * (LATENCY_S + s / BANDWIDTH);
    assert_close(of(work(), Algorithm::Ring), of(scatter.clone(), Algorithm::Ring) + gather_s);
    let gather_s = LATENCY_S + (n - 1.0) * s / BANDWIDTH;
    assert_close(of(work(), Algorithm::Direct), of(scatter, Algorithm::Direct) + gather_s);
}

/// Formulas (6) and (7) of ZipCCL, the second one corrected, are what the simulator says: exactly, as all is linear on a
/// flat network. Without the term for codec and sums they are not.
#[test]
fn the_cost_model_of_a_switcher_is_linear_and_complete() {
    let (ranks, n) = (4, 4.0);
    let share = (n - 1.0) / n;
    // d is what a rank contributes, in FP32. A ring moves (N-1)/N of it, and its sums read twice that.
    let native = Prior {
        fixed_s: (n - 1.0) * LATENCY_S,
        codec_s_per_byte: share * 2.0 / REDUCE,
        wire_fraction: share,
        library_s_per_byte: None,
    };
    let model = LinearModel {
        alpha_s: LATENCY_S,
        gamma_s_per_byte: share * (1.0 / CODEC.encode_bytes_per_s + 1.0 / CODEC.decode_bytes_per_s)
            + 1.0 / REDUCE,
        coded_s: 2.0 * CODEC.launch_s + (n - 1.0) * 8.0 / BANDWIDTH,
    };
    let zipped = model.coded(2, share / RATIO);
    for shard in [1_000_000_u64, 10_000_000] {
        let contributed = 4.0 * shard as f64;
        let ring = reduce_scatter(ranks, DType::F32, shard);
        assert_close(
            seconds(ranks, ring, Protocol::Native, Algorithm::Ring, 0.0),
            native.seconds(contributed, 1.0 / BANDWIDTH),
        );
        let zip = reduce_scatter(ranks, DType::Bf16, shard / 2);
        let got = seconds(ranks, zip, Protocol::SizeFirst, Algorithm::Direct, 0.0);
        // BF16 has half the bytes.
        assert_close(got, zipped.seconds(contributed / 2.0, 1.0 / BANDWIDTH));
        let incomplete = Prior { codec_s_per_byte: 0.0, ..zipped };
        assert!(
            incomplete.seconds(contributed / 2.0, 1.0 / BANDWIDTH) < 0.7 * got,
            "as printed, (7) leaves out what codecs take here"
        );
    }
}
