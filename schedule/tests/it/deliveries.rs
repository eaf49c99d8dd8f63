//! A plan that is valid by itself may still be that of another job: what its ranks wait for is compared.

use std::sync::Arc;

use crate::common::{self, collective as job, layer, uniform};
use ndarray::array;
use zipwire_codec::DType;
use zipwire_schedule::plan::{Local, OpKind, Plan};
use zipwire_schedule::{
    Algorithm, CallKind, Choice, Flow, Job, Pace, PlanError, Protocol, Rank, RankRange, Slot, Sum, TokenMap,
    Work, plan,
};

fn call(kind: CallKind) -> Work {
    common::call(DType::Bf16, kind)
}

fn choice(protocol: Protocol) -> Choice {
    let codec = Some(crate::common::window7());
    Choice { speculative_capacity: Some(0.5), ranks_per_node: 2, ..Choice::of(protocol, codec) }
}

fn plans(job: &Job) -> Vec<(String, Plan)> {
    let work = &job.segments[0].work;
    let mut plans = Vec::new();
    for protocol in Protocol::ALL {
        let fits = |&&algorithm: &&Algorithm| {
            work.algorithm(protocol, Some(algorithm)) == Some(algorithm)
                && (protocol.is_coded() || algorithm != Algorithm::PaddedRing)
        };
        let algorithms: Vec<_> = work.algorithms().iter().filter(fits).copied().map(Some).collect();
        for algorithm in if algorithms.is_empty() { vec![None] } else { algorithms } {
            let name = format!("{protocol:?} {algorithm:?}");
            plans.push((name, plan(job, &Choice { algorithm, ..choice(protocol) })));
        }
    }
    plans
}

/// Plans of the one are valid, and none of the other: rank `rank` waits for more of rank `of`.
#[track_caller]
fn tells_apart(one: &Job, other: &Job, (rank, of): (u32, u32), (more, fewer): (u64, u64)) {
    for (name, plan) in plans(one) {
        assert_eq!(plan.validate_for(one), Ok(()), "{name}");
    }
    for (name, plan) in plans(other) {
        plan.validate().unwrap_or_else(|error| panic!("{name}: {error}"));
        let missing = PlanError::Undelivered {
            rank: Rank(rank),
            segment: "call".to_owned(),
            of: Rank(of),
            expected: more,
            found: fewer,
        };
        assert_eq!(plan.validate_for(one), Err(missing), "{name}");
    }
}

#[test]
fn all_to_all() {
    let of =
        |bytes: ndarray::Array2<u64>| job(3, call(CallKind::AllToAll { bytes: bytes.into(), tokens: None }));
    let whole = array![[6, 600, 0], [2000, 0, 26], [64, 300, 0]];
    let mut left_out = whole.clone();
    left_out[[1, 2]] = 0;
    tells_apart(&of(whole), &of(left_out), (2, 1), (26, 0));
}

#[test]
fn rows_through_gateways() {
    let destinations = |last| vec![0, 1, 2, 3, 3, 0, 1, last];
    let of = |last| {
        let tokens = TokenMap::new(4, 1, 64, destinations(last));
        job(4, call(CallKind::AllToAll { bytes: tokens.bytes().into(), tokens: Some(Arc::new(tokens)) }))
    };
    let (whole, other) = (of(0), of(1));
    for protocol in Protocol::ALL {
        let choice = Choice { dedup: Some(2), ..choice(protocol) };
        assert_eq!(plan(&whole, &choice).validate_for(&whole), Ok(()));
        let error = plan(&other, &choice).validate_for(&whole).unwrap_err();
        assert!(
            matches!(
                error,
                PlanError::Undelivered { rank: Rank(0), of: Rank(3), expected: 64, found: 0, .. }
            ),
            "{protocol:?}: {error}"
        );
    }
}

#[test]
fn shards_and_blocks() {
    let gather = |bytes: [u64; 4]| job(4, call(CallKind::AllGather { bytes: bytes.to_vec() }));
    tells_apart(&gather([512, 2, 40_000, 6]), &gather([512, 2, 39_998, 6]), (0, 2), (40_000, 39_998));
    let broadcast = |bytes, begin| {
        let to = RankRange { begin: Rank(begin), end: Rank(4) };
        job(4, call(CallKind::Broadcast { bytes, root: Rank(1), to }))
    };
    tells_apart(&broadcast(40_000, 0), &broadcast(0, 0), (0, 1), (40_000, 0));
    tells_apart(&broadcast(40_000, 2), &broadcast(40_000, 3), (2, 1), (40_000, 0));
}

#[test]
fn sums() {
    let scatter = |bytes: [u64; 4]| job(4, call(CallKind::ReduceScatter { bytes: bytes.to_vec() }));
    tells_apart(&scatter([512, 2, 40_000, 6]), &scatter([512, 2, 39_998, 6]), (2, 2), (40_000, 39_998));
    let all = |bytes| job(4, call(CallKind::AllReduce { bytes }));
    tells_apart(&all(80_000), &all(79_992), (0, 0), (20_000, 19_998));
}

#[test]
fn explicit_flows() {
    let of = |flows: &[(u32, u32, u64)]| {
        let flow = |&(src, dst, bytes)| Flow { src: Rank(src), dst: Rank(dst), bytes, not_before_s: 0.0 };
        let flows = flows.iter().map(flow).collect();
        job(
            3,
            Work::Transfers { dtype: DType::Bf16, flows, pace: Pace::Burst, input: Slot(0), output: Slot(1) },
        )
    };
    let whole = of(&[(0, 1, 100), (2, 1, 50), (0, 1, 7)]);
    let plan_of = |job| plan(job, &choice(Protocol::Native));
    assert_eq!(plan_of(&whole).validate_for(&whole), Ok(()));
    let error = plan_of(&of(&[(0, 1, 100), (2, 1, 50)])).validate_for(&whole).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rank 1 waits for 107 bytes that are of rank 0 in `call`, and the plan brings it 100 of them"
    );
}

/// A sum that lacks somebody's contribution is no sum of the call.
#[test]
fn sums_of_some() {
    let work = call(CallKind::ReduceScatter { bytes: vec![8; 3] });
    let job = job(3, work);
    let mut plan = plan(&job, &Choice { algorithm: Some(Algorithm::Direct), ..choice(Protocol::Native) });
    let program = Arc::make_mut(&mut plan.programs[1]);
    let Some(OpKind::Local(Local::Reduce(reduce))) = program.ops.last_mut().map(|op| &mut op.kind) else {
        panic!("it adds up last")
    };
    let addition = &mut reduce.additions[0];
    addition.terms.truncate(2);
    addition.chunk.sum = Some(Sum::run(Rank(0), 2, 3, DType::F32));
    plan.validate().unwrap();
    let error = plan.validate_for(&job).unwrap_err();
    assert!(matches!(error, PlanError::Undelivered { rank: Rank(1), found: 0, .. }), "{error}");
}

/// Two calls of a job, of which the plan has one.
#[test]
fn calls_that_a_plan_lacks() {
    let (both, first) = (layer(uniform(3, 64)), layer(uniform(3, 64)));
    let first = Job { segments: first.segments[..2].to_vec(), ..first };
    let error = plan(&first, &choice(Protocol::Native)).validate_for(&both).unwrap_err();
    assert!(matches!(error, PlanError::Undelivered { ref segment, .. } if segment == "combine"), "{error}");
}
