//! Calls of groups of ranks on the executor `threads`: every byte is compared, and every sum is of the group's ranks alone.

use ndarray::Array2;
use zipwire_codec::DType;
use zipwire_schedule::{
    Algorithm, CallKind, Choice, Dimension, Groups, Job, Layout, Protocol, Rank, RankRange, Segment, Slot,
    Work, plan_each,
};

use crate::common::run_sums;

const VALUES: u64 = 9_000;

fn layout() -> Layout {
    let of = |(name, size)| Dimension { name, size, is_alike: true };
    Layout::new([("a", 2), ("b", 3), ("c", 2)].map(of).to_vec())
}

fn works(ranks: u64) -> Vec<Work> {
    let uneven: Vec<u64> = (0..ranks).map(|rank| 2 * (VALUES - 1000 * rank)).collect();
    let pairs = Array2::from_shape_fn((ranks as usize, ranks as usize), |(src, dst)| {
        2 * (VALUES - (src * 300 + dst * 70) as u64)
    });
    let of = |kind| Work::of_call(DType::Bf16, [Slot(0), Slot(1)], kind);
    let last = Rank(ranks as u32 - 1);
    vec![
        of(CallKind::AllGather { bytes: uneven.clone() }),
        of(CallKind::ReduceScatter { bytes: uneven }),
        of(CallKind::AllReduce { bytes: 2 * VALUES * ranks + 10 }),
        of(CallKind::AllToAll { bytes: pairs.into(), tokens: None }),
        of(CallKind::Broadcast { bytes: 2 * VALUES, root: last, to: RankRange::all(ranks as u32) }),
    ]
}

/// A phase, a call of each group, and beside it one of all ranks.
fn job(groups: Groups, work: &Work) -> Job {
    let phase =
        Work::Compute { phase: "phase", reads: vec![], writes: vec![Slot(0), Slot(1), Slot(2), Slot(3)] };
    let beside = CallKind::AllGather { bytes: vec![1000; 12] };
    let beside = Work::of_call(DType::Bf16, [Slot(2), Slot(3)], beside);
    let segments = vec![
        Segment::new("phase", phase),
        Segment::new("call", work.clone()).among(groups, "dimension"),
        Segment::new("beside", beside).in_background(),
    ];
    Job { name: "groups", rank_count: 12, slots: vec!["in", "out", "beside in", "beside out"], segments }
}

fn runs(job: &Job, choice: &Choice) {
    let plain = Choice::of(Protocol::Native, choice.codec.clone());
    let plan = plan_each(job, &[&plain, choice, &plain]);
    plan.validate_for(job).unwrap_or_else(|error| panic!("{choice:?}: {error}"));
    let report = run_sums(&plan).unwrap_or_else(|error| panic!("{:?} {choice:?}: {error}", job.segments));
    assert_eq!(report.bytes_verified, 2 * plan.bytes_verified(), "{choice:?}");
}

#[test]
fn groups_deliver_in_all_algorithms() {
    let layout = layout();
    for (along, fixed) in [(&["a"][..], None), (&["b"], None), (&["c"], Some(("b", 1))), (&["b", "c"], None)]
    {
        let groups = layout.groups(along, fixed);
        for work in works(groups.size().into()) {
            let job = job(groups, &work);
            let algorithms: Vec<Option<Algorithm>> = match work.algorithms() {
                [] => vec![None],
                all => all.iter().copied().map(Some).collect(),
            };
            for protocol in [Protocol::Native, Protocol::SizeFirst, Protocol::InBand] {
                for &algorithm in &algorithms {
                    let pads_values = algorithm == Some(Algorithm::PaddedRing) && !protocol.is_coded();
                    if algorithm != work.algorithm(protocol, algorithm) || pads_values {
                        continue;
                    }
                    let codec = Some("tiered".parse().unwrap());
                    runs(&job, &Choice { algorithm, ..Choice::of(protocol, codec) });
                }
            }
        }
    }
}

/// Sends in both directions between the same ranks are open together, and wait for no other call.
#[test]
fn sends_of_pairs_deliver() {
    let layout = layout();
    for protocol in Protocol::ALL {
        let of = |from| CallKind::Send { bytes: 2 * VALUES, from: Rank(from) };
        let mut job = job(layout.pairs("b", [2, 0]), &Work::of_call(DType::Bf16, [Slot(0), Slot(1)], of(1)));
        job.slots.extend(["back in", "back out"]);
        let back = Work::of_call(DType::Bf16, [Slot(4), Slot(5)], of(0));
        job.segments.push(Segment::new("back", back).among(layout.pairs("b", [0, 2]), "dimension"));
        let codec = Some("tiered".parse().unwrap());
        let slot = (protocol == Protocol::Speculative).then_some(0.7);
        let choice = Choice { speculative_capacity: slot, ..Choice::of(protocol, codec.clone()) };
        let plain = Choice::of(Protocol::Native, codec);
        let plan = plan_each(&job, &[&plain, &choice, &plain, &choice]);
        plan.validate_for(&job).unwrap_or_else(|error| panic!("{protocol:?}: {error}"));
        let report = run_sums(&plan).unwrap_or_else(|error| panic!("{protocol:?}: {error}"));
        assert_eq!(report.bytes_verified, 2 * plan.bytes_verified(), "{protocol:?}");
    }
}
