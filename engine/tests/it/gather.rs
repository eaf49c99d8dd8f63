//! All-Gather and broadcast on the executor `threads`: what is handed on is compared with what its origin had.

use std::sync::Arc;

use zipwire_codec::DType;
use zipwire_schedule::plan::{Content, Exchange, OpKind, Plan};
use zipwire_schedule::{
    Algorithm, CallKind, Choice, FailureKind, Protocol, Rank, RankRange, RunFailure, Slot, Work,
};

use crate::common::{run_gaussian, twice};

const RANKS: u32 = 4;
const SHARD: u64 = 20_000;

fn planned(work: &Work, protocol: Protocol, algorithm: Algorithm) -> Plan {
    let codec = Some("tiered".parse().unwrap());
    let choice = Choice::of(protocol, codec);
    twice(RANKS, work, &Choice { algorithm: Some(algorithm), speculative_capacity: Some(0.5), ..choice })
}

fn all_gather(bytes: [u64; RANKS as usize]) -> Work {
    Work::of_call(DType::Bf16, [Slot(0), Slot(1)], CallKind::AllGather { bytes: bytes.to_vec() })
}

fn broadcast(root: u32) -> Work {
    let root = Rank(root);
    Work::of_call(
        DType::Bf16,
        [Slot(0), Slot(1)],
        CallKind::Broadcast { bytes: SHARD, root, to: RankRange::all(RANKS) },
    )
}

#[test]
fn every_algorithm_delivers() {
    let gather = all_gather([SHARD, 0, 26, SHARD / 2]);
    let cast = broadcast(2);
    for (work, algorithm) in gather
        .algorithms()
        .iter()
        .map(|algorithm| (&gather, algorithm))
        .chain(cast.algorithms().iter().map(|algorithm| (&cast, algorithm)))
    {
        for protocol in Protocol::ALL {
            if *algorithm == Algorithm::PaddedRing && !protocol.is_coded() {
                continue;
            }
            let plan = planned(work, protocol, *algorithm);
            plan.validate().unwrap();
            let report =
                run_gaussian(&plan).unwrap_or_else(|error| panic!("{algorithm:?} {protocol:?}: {error}"));
            assert_eq!(report.bytes_verified, 2 * plan.bytes_raw(), "every byte of every iteration");
            assert!(report.bytes_verified > 0);
        }
    }
}

/// Changes the `nth` exchange of data of rank 1 in the second call behind the planner's back, and runs the plan.
fn failure(
    work: &Work,
    protocol: Protocol,
    algorithm: Algorithm,
    nth: usize,
    change: fn(&mut Exchange),
) -> Box<RunFailure> {
    let mut plan = planned(work, protocol, algorithm);
    let program = Arc::make_mut(&mut plan.programs[1]);
    let exchanges =
        program.ops.iter_mut().filter(|op| op.segment.0 == 3).filter_map(|op| match &mut op.kind {
            OpKind::Exchange(exchange) if matches!(exchange.stage.name(), "raw" | "dynamic") => {
                Some(exchange)
            }
            OpKind::Exchange(_) | OpKind::Compute(_) | OpKind::Library(_) | OpKind::Local(_) => None,
        });
    change(exchanges.collect::<Vec<_>>().remove(nth));
    let error = run_gaussian(&plan).unwrap_err();
    assert_eq!(error.first.kind, FailureKind::Corrupt, "{error}");
    error
}

/// Sends what lies elsewhere in the same buffer.
fn misplace(exchange: &mut Exchange) {
    match &mut exchange.sends[0].content {
        Content::Values(region) | Content::Prefix(region, _) => region.offset += 2,
        content => panic!("nothing to tamper with in {content:?}"),
    }
}

#[test]
fn a_block_that_is_handed_on_wrongly_is_noticed() {
    // Rank 1 hands on the shard of rank 0 in its second step.
    let error = failure(&all_gather([SHARD; 4]), Protocol::Native, Algorithm::Ring, 1, misplace);
    assert!(error.to_string().contains("of the second chunk from rank 0 is not what was sent"), "{error}");
    // Frames are found out when they are decoded, also behind the next rank.
    for algorithm in [Algorithm::Ring, Algorithm::PaddedRing] {
        let error = failure(&all_gather([SHARD; 4]), Protocol::SizeFirst, algorithm, 1, misplace);
        assert!(error.to_string().contains("the frame from rank 0"), "{error}");
    }
}

#[test]
fn a_block_that_takes_the_place_of_another_is_noticed() {
    // In its third step rank 1 hands on the shard of rank 0 once more instead of that of rank 3.
    let error = failure(&all_gather([SHARD; 4]), Protocol::Native, Algorithm::Ring, 2, |exchange| {
        let Content::Values(region) = &mut exchange.sends[0].content else { panic!("raw shards are whole") };
        region.offset = 0;
    });
    assert!(error.to_string().contains("of the second chunk from rank 3 is not what was sent"), "{error}");
}

#[test]
fn a_broken_branch_of_a_tree_is_noticed() {
    // From root 3, rank 1 is at distance 2: it receives, and then hands on to rank 2.
    let error = failure(&broadcast(3), Protocol::SizeFirst, Algorithm::Tree, 1, misplace);
    assert!(error.to_string().contains("the frame from rank 3"), "{error}");
    assert_eq!(error.first.rank, Rank(2));
}
