//! Reduce-Scatter and All-Reduce on the executor `threads`: bits of sums, and how far they are from the exact ones.

use std::sync::Arc;

use zipwire_codec::DType;
use zipwire_payload::{ChunkId, Payload};
use zipwire_schedule::plan::{Addition, Chunk, Local, OpKind, Plan, Region};
use zipwire_schedule::{
    Algorithm, CallKind, Choice, FailureKind, Job, Protocol, Rank, Segment, SegmentId, Slot, Work, plan,
};

use crate::common::{run_sums, values_of_many_sizes};

const RANKS: u32 = 4;
const VALUES: u64 = 10_000;

fn reduce_scatter(dtype: DType) -> Work {
    let bytes = [VALUES, 0, 13, VALUES / 2].map(|count| count * dtype.width() as u64).to_vec();
    Work::of_call(dtype, [Slot(0), Slot(1)], CallKind::ReduceScatter { bytes })
}

fn all_reduce(dtype: DType) -> Work {
    Work::of_call(dtype, [Slot(0), Slot(1)], CallKind::AllReduce { bytes: 30_003 * dtype.width() as u64 })
}

/// The call, the call in the background during a phase, and the call once more over the same memory.
fn thrice(work: &Work, protocol: Protocol, algorithm: Algorithm) -> Plan {
    let phase = || Work::Compute { phase: "phase", reads: vec![Slot(1)], writes: vec![Slot(0), Slot(1)] };
    let background = match work.clone() {
        Work::Call { dtype, kind: CallKind::ReduceScatter { bytes }, .. } => {
            Work::of_call(dtype, [Slot(2), Slot(3)], CallKind::ReduceScatter { bytes })
        }
        Work::Call { dtype, kind: CallKind::AllReduce { bytes }, .. } => {
            Work::of_call(dtype, [Slot(2), Slot(3)], CallKind::AllReduce { bytes })
        }
        other => panic!("{other:?} is no reduction"),
    };
    let segments = vec![
        Segment::new("before", phase()),
        Segment::new("first", work.clone()),
        Segment::new("gradients", background).in_background(),
        Segment::new("between", phase()),
        Segment::new("second", work.clone()),
    ];
    let slots = vec!["input", "output", "gradients", "sums"];
    let job = Job { name: "thrice", rank_count: RANKS, slots, segments };
    let slot = (protocol == Protocol::Speculative).then_some(0.7);
    let parts = if protocol.is_coded() { 2 } else { 1 };
    let choice = Choice::of(protocol, Some("tiered".parse().unwrap()));
    plan(
        &job,
        &Choice {
            algorithm: Some(algorithm),
            speculative_capacity: slot,
            parts,
            ranks_per_node: 2,
            ..choice
        },
    )
}

/// Every work in every algorithm under every protocol that goes with it.
fn cases() -> impl Iterator<Item = (Work, Protocol, Algorithm)> {
    let dtypes = [DType::Bf16, DType::F32].into_iter();
    let works = dtypes.flat_map(|dtype| [reduce_scatter(dtype), all_reduce(dtype)]);
    works.flat_map(|work| {
        work.clone().algorithms().iter().flat_map(move |&algorithm| {
            let protocols =
                Protocol::ALL.into_iter().filter(move |p| !p.is_coded() || algorithm.takes_frames(true));
            let work = work.clone();
            protocols.map(move |protocol| (work.clone(), protocol, algorithm))
        })
    })
}

#[test]
fn every_form_delivers() {
    for (work, protocol, algorithm) in cases() {
        let plan = thrice(&work, protocol, algorithm);
        plan.validate().unwrap();
        let report = run_sums(&plan).unwrap_or_else(|error| panic!("{algorithm:?} {protocol:?}: {error}"));
        assert_eq!(report.bytes_verified, 2 * plan.bytes_verified(), "{algorithm:?} {protocol:?}");
        assert!(plan.bytes_reduced() > 0);
    }
}

fn additions(plan: &mut Plan, rank: usize, segment: u32) -> Vec<&mut Addition> {
    let ops = Arc::make_mut(&mut plan.programs[rank]).ops.iter_mut();
    let of_segment = ops.filter(|op| op.segment.0 == segment).filter_map(|op| match &mut op.kind {
        OpKind::Local(Local::Reduce(reduce)) => Some(&mut reduce.additions),
        OpKind::Compute(_)
        | OpKind::Library(_)
        | OpKind::Exchange(_)
        | OpKind::Local(Local::GatherRows(_) | Local::Split(_) | Local::Encode(_) | Local::Decode(_)) => None,
    });
    of_segment.flatten().collect()
}

/// Such a sum has other bits, and is noticed where it is made.
#[test]
fn a_sum_of_other_terms_or_in_another_order_is_noticed() {
    // Of the sums of a library the terms are not in the plan.
    for &algorithm in
        Algorithm::OF_REDUCE_SCATTER.iter().filter(|algorithm| **algorithm != Algorithm::Library)
    {
        for dtype in [DType::Bf16, DType::F32] {
            let mut plan = thrice(&reduce_scatter(dtype), Protocol::Native, algorithm);
            let mut sums = additions(&mut plan, 0, 4);
            let last = sums.last_mut().unwrap();
            assert_eq!(last.chunk.destination, Some(Rank(0)));
            if algorithm == Algorithm::Direct {
                last.terms.rotate_left(1);
            } else {
                // Addition commutes: of two terms, only another one makes a difference.
                last.terms[1] = last.terms[0];
            }
            let Err(error) = run_sums(&plan) else { panic!("{algorithm:?} {dtype}: nothing was noticed") };
            assert_eq!(error.first.kind, FailureKind::Corrupt, "{error}");
            assert_eq!(error.first.rank, Rank(0));
        }
    }
}

/// The last sum that a rank makes in a segment, whether as an op or in a call of a library.
fn last_sum(plan: &Plan, rank: usize, segment: u32) -> Option<(Chunk, Region)> {
    let of_segment = plan.programs[rank].ops.iter().filter(|op| op.segment.0 == segment);
    of_segment.flat_map(|op| op.kind.values().sums).last()
}

fn bytes(payload: &Payload, segment: SegmentId, chunk: Chunk, len: u64) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(len).unwrap()];
    payload.fill(ChunkId { segment, chunk }, &mut out);
    out
}

/// Sums, which runs have compared bit for bit, against sums in FP64: `|error| <= gamma_(N-1) sum |x|`, with half a unit in the
/// last place more where they are rounded to BF16 (`docs/reduction.md`).
#[test]
fn sums_are_as_near_to_the_exact_ones_as_they_must_be() {
    let unit = f64::from(2.0_f32.powi(-24));
    let additions_of = f64::from(RANKS - 1);
    let gamma = additions_of * unit / (1.0 - additions_of * unit);
    let mut checked = 0;
    for (work, protocol, algorithm) in cases().filter(|(_, protocol, _)| *protocol == Protocol::Native) {
        let plan = thrice(&work, protocol, algorithm);
        run_sums(&plan).unwrap();
        let payload = values_of_many_sizes(&plan);
        for rank in 0..RANKS as usize {
            if let Some((chunk, values)) = last_sum(&plan, rank, 1) {
                let of = chunk.sum.unwrap();
                if of.count() < RANKS as usize {
                    continue;
                }
                let segment = SegmentId(1);
                let got = bytes(&payload, segment, chunk, values.len);
                let got: Vec<f64> = match of.dtype() {
                    DType::F32 => {
                        got.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into()).collect()
                    }
                    _ => got.chunks(2).map(|b| f32::from_le_bytes([0, 0, b[0], b[1]]).into()).collect(),
                };
                let contributions: Vec<Vec<f64>> = (0..RANKS)
                    .map(|origin| {
                        let chunk = Chunk::between(Rank(origin), chunk.shard());
                        let rows = bytes(&payload, segment, chunk, 2 * got.len() as u64);
                        rows.chunks(2).map(|b| f32::from_le_bytes([0, 0, b[0], b[1]]).into()).collect()
                    })
                    .collect();
                for (index, got) in got.iter().enumerate() {
                    let exact: f64 = contributions.iter().map(|x| x[index]).sum();
                    let magnitude: f64 = contributions.iter().map(|x| x[index].abs()).sum();
                    let rounding = if of.dtype() == DType::Bf16 { 2.0_f64.powi(-8) } else { 0.0 };
                    let bound = gamma * magnitude;
                    let bound = bound + rounding * (exact.abs() + bound);
                    assert!(
                        (got - exact).abs() <= bound,
                        "{algorithm:?}: {got} is not {exact} within {bound:e}"
                    );
                    checked += usize::from(*got != exact);
                }
            }
        }
    }
    assert!(checked > 1000, "sums that are all exact test nothing");
}

/// GPUs have a kernel for sums, and call no library.
#[test]
fn gpus_add_up_what_no_library_does() {
    for (work, protocol, algorithm) in cases() {
        let is_called = algorithm == Algorithm::Library;
        let has_kernels = matches!(protocol, Protocol::Native | Protocol::StaticFirst);
        if !is_called && !has_kernels {
            continue;
        }
        let checked = zipwire_engine::cuda::check(&thrice(&work, protocol, algorithm));
        match (checked, is_called) {
            (Ok(()), false) => {}
            (Err(error), true) => {
                assert!(
                    error.to_string().starts_with("segment 1 calls a collective of a library"),
                    "{error}"
                );
            }
            (checked, _) => panic!("{algorithm:?} {protocol:?}: {checked:?}"),
        }
    }
}
