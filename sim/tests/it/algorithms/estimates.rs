//! Predictions of each way against its simulation, and the loss of going the way that is predicted to be best.

use zipwire_cluster::{CrossRail, Fabric, FatTree, Rail, Topology, Uplink};
use zipwire_codec::DType;
use zipwire_schedule::estimate::Way;
use zipwire_schedule::{Algorithm, CallKind, Rank, RankRange, SumType, Work};

use crate::algorithms::call::{
    Call, GPU, all_gather, all_reduce, broadcast, broadcast_to, nodes, reduce_scatter,
};

/// Bytes of a call: of all shards, or of a broadcast.
const SIZES: [u64; 4] = [4 << 10, 256 << 10, 4 << 20, 64 << 20];
/// Most that a predicted time may be off, of the simulated one.
const CRUDE: f64 = 0.10;
/// The same where all links that limit are equal and frames are not rounded to bytes.
const EXACT: f64 = 1e-6;
/// The same with frames of a stated ratio, whose lengths are whole bytes and which travel with sizes of 8 bytes each.
const ROUNDED: f64 = 1e-4;
/// Most that the chosen way may be slower than the best one.
const LOSS: f64 = 0.05;

fn clusters() -> Vec<Topology> {
    let shapes = [(1, 4, 1), (2, 2, 1), (2, 4, 1), (2, 4, 2), (2, 4, 4), (3, 4, 4), (4, 1, 1)];
    let plain = shapes.map(|(count, gpus, nics)| nodes(count, gpus, nics));
    let rail = |cross_rail| Fabric::Rail(Rail { uplink: Uplink::Oversubscribed(2.0), cross_rail });
    let tree = FatTree { nodes_per_leaf: 2, uplink: Uplink::Oversubscribed(2.0), pods: None };
    let others = [
        Topology { fabric: Fabric::Host { bandwidth: 1.5 * GPU }, ..nodes(2, 4, 2) },
        Topology { fabric: rail(CrossRail::Spine), ..nodes(2, 4, 4) },
        Topology { fabric: rail(CrossRail::Pxn), ..nodes(2, 4, 4) },
        Topology { fabric: Fabric::FatTree(tree), ..nodes(4, 2, 2) },
    ];
    plain.into_iter().chain(others).collect()
}

fn works(ranks: u32, bytes: u64) -> [Work; 5] {
    // Whole values in each shard.
    let shard = bytes / u64::from(ranks) / 2 * 2;
    [
        all_gather(ranks, shard),
        broadcast(ranks, bytes, 0),
        broadcast_to(RankRange { begin: Rank(ranks / 2), end: Rank(ranks) }, bytes, 0),
        reduce_scatter(ranks, DType::Bf16, shard),
        all_reduce(ranks, DType::Bf16, shard),
    ]
}

pub(crate) fn is_planned(work: &Work, algorithm: Algorithm, is_coded: bool) -> bool {
    match algorithm {
        Algorithm::Library => false,
        Algorithm::PaddedRing => is_coded,
        _ => !is_coded || algorithm.takes_frames(work.is_reduction()),
    }
}

/// How exact the prediction of a way is.
fn tolerance(work: &Work, algorithm: Algorithm, is_coded: bool) -> f64 {
    let is_broadcast = matches!(work, Work::Call { kind: CallKind::Broadcast { .. }, .. });
    match algorithm {
        // Where latencies differ, some flows begin while others move; chains and trees have steps of both kinds.
        Algorithm::Direct if !is_broadcast => CRUDE,
        _ if is_broadcast && algorithm != Algorithm::Direct => CRUDE,
        Algorithm::Tree => CRUDE,
        _ if is_coded => ROUNDED,
        _ => EXACT,
    }
}

/// Every way of a call: what was predicted is near, and the way that `best` takes is nearly the best.
fn check(base: &Call) {
    let is_coded = base.choice.protocol.is_coded();
    let mut simulated: Vec<(Way, f64)> = Vec::new();
    let algorithms = base.work.algorithms().iter().copied();
    for algorithm in algorithms.filter(|&algorithm| is_planned(&base.work, algorithm, is_coded)) {
        for slices in [1, 2, 4, 8, 16] {
            let (way, predicted) = base.best(Some(algorithm), Some(slices)).unwrap();
            if way.slices != slices {
                continue;
            }
            let call = base.clone().way(way);
            let seconds = call.seconds();
            let error = (predicted - seconds).abs() / seconds;
            let limit = tolerance(&base.work, algorithm, is_coded);
            assert!(error <= limit, "predicted {predicted}, simulated {seconds}, off by {error}: {call:?}");
            simulated.push((way, seconds));
        }
    }
    let (chosen, _) = base.best(None, None).unwrap();
    let (_, seconds) = *simulated.iter().find(|(way, _)| *way == chosen).unwrap();
    let (best, least) = *simulated.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let loss = seconds / least - 1.0;
    assert!(loss <= LOSS, "{chosen:?} takes {loss} more than {best:?}: {base:?}");
}

#[track_caller]
fn check_all(is_coded: bool, sums: SumType) {
    for topology in clusters() {
        for bytes in SIZES {
            for work in works(topology.ranks(), bytes) {
                if sums == SumType::Fp32 && !work.is_reduction() {
                    continue;
                }
                let call = Call::new(topology.clone(), work, Algorithm::Direct).launched().sums(sums);
                check(&if is_coded { call.coded() } else { call });
            }
        }
    }
}

#[test]
fn native_calls_are_predicted() {
    check_all(false, SumType::Sent);
}

#[test]
fn reductions_with_wider_sums_are_predicted() {
    check_all(false, SumType::Fp32);
}

#[test]
fn coded_calls_are_predicted() {
    check_all(true, SumType::Sent);
}
