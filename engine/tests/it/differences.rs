//! Codecs of differences on the executor `threads`: both ends take them from what they have of a chunk already.

use std::sync::Arc;

use zipwire_codec::DType;
use zipwire_engine::host::base_bytes;
use zipwire_payload::{Payload, Rows};
use zipwire_schedule::plan::Plan;
use zipwire_schedule::{Algorithm, CallKind, Choice, Protocol, Rank, Slot, Work};

use crate::common::{run_plan, twice};

const RANKS: u32 = 4;
const SHARD: u64 = 40_000;

fn planned(kind: CallKind, protocol: Protocol, codec: &str) -> Plan {
    let work = Work::of_call(DType::Bf16, [Slot(0), Slot(1)], kind);
    let codec = Some(codec.parse().unwrap());
    let algorithm = Some(Algorithm::Direct).filter(|direct| work.algorithms().contains(direct));
    let choice = Choice::of(protocol, codec);
    let plan = twice(RANKS, &work, &Choice { algorithm, speculative_capacity: Some(0.1), ..choice });
    plan.validate().unwrap();
    plan
}

fn all_gather() -> CallKind {
    CallKind::AllGather { bytes: vec![SHARD; RANKS as usize] }
}

/// Rows, and the same rows with the last bit of every third value flipped.
fn payload(plan: &Plan, has_base: bool) -> Payload {
    let before = Rows::gaussian(0.02, 3);
    let mut after = before.as_bytes().to_vec();
    after.chunks_mut(2).step_by(3).for_each(|value| value[0] ^= 1);
    let count = plan.segments.len();
    let after = Arc::new(Rows::new(after, before.row_bytes()));
    let payload = Payload::new(7, vec![after; count]);
    if has_base { payload.with_bases(vec![Some(Arc::new(before)); count]) } else { payload }
}

/// Bytes of all frames of a run in which every byte arrives, over those of their values.
fn coded(plan: &Plan, payload: &Payload) -> f64 {
    let report = run_plan(plan, payload).unwrap();
    // Sums are compared beside what is received.
    assert!(report.bytes_verified >= 2 * plan.bytes_raw());
    let encoded = || report.timeline.spans.iter().filter(|span| span.name == "encode");
    let bytes: u64 = encoded().map(|span| span.bytes_coded.unwrap()).sum();
    bytes as f64 / encoded().map(|span| span.bytes).sum::<u64>() as f64
}

#[test]
fn frames_are_differences_where_ranks_have_a_base() {
    for protocol in [Protocol::SizeFirst, Protocol::Speculative] {
        for codec in ["delta+rans", "delta+tiered"] {
            let plan = planned(all_gather(), protocol, codec);
            let (with, without) = (coded(&plan, &payload(&plan, true)), coded(&plan, &payload(&plan, false)));
            assert!(
                with < 0.2 && without > 0.6,
                "{protocol:?} {codec}: {with} with a base, {without} without"
            );
        }
    }
}

#[test]
fn frames_in_split_and_of_sums_are_those_of_the_codec_behind() {
    for (kind, protocol) in [
        (all_gather(), Protocol::StaticFirst),
        (CallKind::ReduceScatter { bytes: vec![SHARD; RANKS as usize] }, Protocol::SizeFirst),
    ] {
        let of = |codec| {
            let plan = planned(kind.clone(), protocol, codec);
            assert!((0..RANKS).all(|rank| base_bytes(&plan, Rank(rank)) == 0));
            coded(&plan, &payload(&plan, true))
        };
        assert_eq!(of("delta+rans"), of("rans"));
    }
}

#[test]
fn a_rank_holds_a_base_for_each_chunk_that_it_codes() {
    let bytes = |codec| base_bytes(&planned(all_gather(), Protocol::SizeFirst, codec), Rank(1));
    // Its own shard and those of the others, in two calls.
    assert_eq!(bytes("delta+rans"), 2 * u64::from(RANKS) * SHARD);
    assert_eq!(bytes("rans"), 0);
}

#[test]
fn gpus_refuse_differences() {
    let plan = planned(all_gather(), Protocol::StaticFirst, "delta+tiered");
    let error = zipwire_engine::cuda::check(&plan).unwrap_err().to_string();
    assert!(error.contains("no GPU kernels for codec `delta+tiered`"), "{error}");
}
