//! Rings in channels, slices, chains, trees and levels on the executor `threads`: every byte of every iteration is compared.

use std::sync::Arc;

use zipwire_codec::DType;
use zipwire_schedule::plan::{Addition, Local, OpKind, Plan};
use zipwire_schedule::{
    Algorithm, CallKind, Choice, FailureKind, Protocol, Rank, RankRange, Slot, Sum, SumType, Work,
};

use crate::common::{run_sums, twice};

/// Nodes and ranks of each.
const CLUSTERS: [(u32, u32); 3] = [(1, 4), (2, 3), (3, 2)];
/// Values of a shard that has several parts on every channel, which begin at multiples of 16 KiB.
const LONG: u64 = 20_000;

/// Rings: one within a node, and up to one for each rank of a node between several.
fn channels(nodes: u32, size: u32) -> std::ops::RangeInclusive<u32> {
    1..=if nodes == 1 { 1 } else { size }
}

/// All protocols on one of the clusters, and on the others one of each kind.
fn protocols(nodes: u32) -> &'static [Protocol] {
    if nodes == 2 { &Protocol::ALL } else { &[Protocol::Native, Protocol::SizeFirst] }
}

/// The plan of a call is valid, and a run of it compares as much as it must.
#[track_caller]
fn delivers(rank_count: u32, work: &Work, choice: &Choice) {
    let plan = twice(rank_count, work, choice);
    plan.validate().unwrap_or_else(|error| panic!("{work:?} {choice:?}: {error}"));
    let report = run_sums(&plan).unwrap_or_else(|error| panic!("{work:?} {choice:?}: {error}"));
    assert_eq!(report.bytes_verified, 2 * plan.bytes_verified(), "{work:?} {choice:?}");
    assert!(report.bytes_verified > 0);
}

/// Values of the shards: long ones, and uneven ones, of which one is empty and one is shorter than a part.
fn shapes(ranks: u32) -> [Vec<u64>; 2] {
    let uneven = [LONG, 0, 13, LONG / 3].into_iter().cycle().take(ranks as usize).collect();
    [vec![LONG; ranks as usize], uneven]
}

fn choice(algorithm: Algorithm, protocol: Protocol, ranks_per_node: u32) -> Choice {
    let slot = (protocol == Protocol::Speculative).then_some(0.7);
    let choice = Choice::of(protocol, Some("tiered".parse().unwrap()));
    Choice { algorithm: Some(algorithm), speculative_capacity: slot, ranks_per_node, ..choice }
}

/// On all clusters; the short forms have one of two nodes.
mod whole {
    use super::{CLUSTERS, gathers_deliver, reductions_add_up};

    #[test]
    #[ignore = "some seconds: .ci/run runs it, and the short form is beside it"]
    fn gathers_deliver_on_all_channels() {
        gathers_deliver(&CLUSTERS);
    }

    #[test]
    #[ignore = "some seconds: .ci/run runs it, and the short form is beside it"]
    fn reductions_add_up_on_all_channels_and_in_slices() {
        reductions_add_up(&CLUSTERS);
    }
}

#[test]
fn gathers_deliver_on_all_channels() {
    gathers_deliver(&CLUSTERS[1..2]);
}

fn gathers_deliver(clusters: &[(u32, u32)]) {
    for &(nodes, size) in clusters {
        let ranks = nodes * size;
        for values in shapes(ranks) {
            let bytes = values.iter().map(|count| 2 * count).collect();
            let work = Work::of_call(DType::Bf16, [Slot(0), Slot(1)], CallKind::AllGather { bytes });
            for algorithm in [Algorithm::Ring, Algorithm::PaddedRing, Algorithm::Hierarchical] {
                for &protocol in protocols(nodes) {
                    if algorithm == Algorithm::PaddedRing && !protocol.is_coded() {
                        continue;
                    }
                    let all =
                        if algorithm == Algorithm::Hierarchical { 1..=1 } else { channels(nodes, size) };
                    for channels in all {
                        for parts in if protocol.is_coded() { 1..=2 } else { 1..=1 } {
                            let choice = choice(algorithm, protocol, size);
                            delivers(ranks, &work, &Choice { channels, parts, ..choice });
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn chains_deliver_in_slices_from_any_root() {
    for (nodes, size) in CLUSTERS {
        let ranks = nodes * size;
        // The short one has fewer slices than are asked for, on the last channels none.
        for (bytes, root) in [(6 * LONG, 0), (6 * LONG, ranks - 1), (40_000, 1)] {
            let (dtype, input, output) = (DType::Bf16, Slot(0), Slot(1));
            let kind = CallKind::Broadcast { bytes, root: Rank(root), to: RankRange::all(ranks) };
            let work = Work::of_call(dtype, [input, output], kind);
            for &protocol in protocols(nodes) {
                for channels in channels(nodes, size) {
                    for slices in [1, 4] {
                        let parts = if protocol.is_coded() { slices.min(2) } else { 1 };
                        let choice = choice(Algorithm::Ring, protocol, size);
                        delivers(ranks, &work, &Choice { channels, slices, parts, ..choice });
                    }
                }
            }
        }
    }
}

fn reductions(values: &[u64]) -> impl Iterator<Item = Work> {
    [DType::Bf16, DType::F32].into_iter().flat_map(move |dtype| {
        let width = dtype.width() as u64;
        let bytes: Vec<u64> = values.iter().map(|count| count * width).collect();
        // One value more than shards of equal lengths have.
        let total = bytes.iter().sum::<u64>() + width;
        let (input, output) = (Slot(0), Slot(1));
        let scatter = Work::of_call(dtype, [input, output], CallKind::ReduceScatter { bytes });
        [scatter, Work::of_call(dtype, [input, output], CallKind::AllReduce { bytes: total })]
    })
}

fn sum_types(work: &Work) -> &'static [SumType] {
    match work {
        Work::Call { dtype: DType::Bf16, kind: CallKind::ReduceScatter { .. }, .. }
        | Work::Call { dtype: DType::Bf16, kind: CallKind::AllReduce { .. }, .. } => &SumType::ALL,
        _ => &[SumType::Fp32],
    }
}

#[test]
fn reductions_add_up_on_all_channels_and_in_slices() {
    reductions_add_up(&CLUSTERS[1..2]);
}

fn reductions_add_up(clusters: &[(u32, u32)]) {
    for &(nodes, size) in clusters {
        let ranks = nodes * size;
        for work in shapes(ranks).iter().flat_map(|values| reductions(values)) {
            for &sums in sum_types(&work) {
                for channels in channels(nodes, size) {
                    for slices in [1, 3] {
                        let of = |algorithm| {
                            let choice = choice(algorithm, Protocol::Native, size);
                            Choice { channels, slices, sums, ..choice }
                        };
                        delivers(ranks, &work, &of(Algorithm::Ring));
                        if matches!(work, Work::Call { kind: CallKind::AllReduce { .. }, .. }) {
                            delivers(ranks, &work, &of(Algorithm::Tree));
                        }
                    }
                }
                for protocol in [Protocol::Native, Protocol::SizeFirst] {
                    let choice = choice(Algorithm::Hierarchical, protocol, size);
                    let parts = if protocol.is_coded() { 2 } else { 1 };
                    delivers(ranks, &work, &Choice { sums, parts, ..choice });
                }
            }
        }
    }
}

/// Shards so long that every channel has all its slices.
#[test]
fn long_shards_have_all_parts() {
    let (ranks, size, slices) = (6, 3, 3);
    let part_values = 16 * 1024 / 2;
    for work in reductions(&vec![u64::from(size * slices) * part_values; ranks as usize]) {
        for &sums in sum_types(&work) {
            let choice = choice(Algorithm::Ring, Protocol::Native, size);
            delivers(ranks, &work, &Choice { channels: size, slices, sums, ..choice });
        }
    }
}

/// Some ranks have no shard, and some trees none either.
#[test]
fn reductions_of_fewer_values_than_ranks_add_up() {
    for (nodes, size) in CLUSTERS {
        for values in 1..=3 {
            for algorithm in [Algorithm::Ring, Algorithm::Tree, Algorithm::Hierarchical] {
                let (dtype, bytes) = (DType::Bf16, 2 * values);
                let work = Work::of_call(dtype, [Slot(0), Slot(1)], CallKind::AllReduce { bytes });
                let choice = choice(algorithm, Protocol::Native, size);
                let choice = Choice { channels: size, slices: 2, sums: SumType::Sent, ..choice };
                delivers(nodes * size, &work, &choice);
            }
        }
    }
}

fn additions(plan: &mut Plan, rank: usize) -> Vec<&mut Addition> {
    let ops = Arc::make_mut(&mut plan.programs[rank]).ops.iter_mut();
    let sums = ops.filter_map(|op| match &mut op.kind {
        OpKind::Local(Local::Reduce(reduce)) => Some(&mut reduce.additions),
        _ => None,
    });
    sums.flatten().collect()
}

#[track_caller]
fn is_noticed(plan: &Plan, origin: u32) {
    plan.validate().unwrap_err();
    let Err(error) = run_sums(plan) else { panic!("nothing was noticed") };
    assert_eq!(error.first.kind, FailureKind::Corrupt, "{error}");
    // Whoever has it compares it: the rank that made it, or one that got it.
    let text = error.to_string();
    assert!(text.contains(&format!("chunk from rank {origin} is not what was sent")), "{text}");
}

/// Sums of BF16 values that every rank rounds: other bits in another order, and if they are rounded once.
#[test]
fn another_order_of_a_stepwise_sum_is_noticed() {
    let (ranks, dtype) = (4, DType::Bf16);
    let bytes = vec![2 * LONG; ranks as usize];
    let work = Work::of_call(dtype, [Slot(0), Slot(1)], CallKind::ReduceScatter { bytes });
    let planned = |algorithm| {
        let choice = choice(algorithm, Protocol::Native, 2);
        twice(ranks, &work, &Choice { channels: 2, sums: SumType::Sent, ..choice })
    };
    run_sums(&planned(Algorithm::Ring)).unwrap();
    // Rank 0 says that its sum began with another rank than it did.
    let mut plan = planned(Algorithm::Ring);
    let last = additions(&mut plan, 0).pop().unwrap();
    let stepwise = last.chunk.sum.unwrap();
    let origins: Vec<Rank> = stepwise.origins().collect();
    let other = Sum::run(Rank(0), ranks, ranks, dtype).with_partials(dtype);
    assert!(origins.len() == 4 && !other.origins().eq(origins), "it is a sum of all in another order");
    last.chunk = last.chunk.with_sum(other);
    is_noticed(&plan, 0);
    // All terms are added up in FP32 and rounded once, which is not what the sum says.
    let mut plan = planned(Algorithm::Direct);
    let last = additions(&mut plan, 1).pop().unwrap();
    assert!(last.terms.len() == 4 && last.chunk.sum == Some(Sum::all(ranks, dtype)));
    last.chunk = last.chunk.with_sum(other);
    is_noticed(&plan, 1);
}

/// A rank of a tree that adds its own before, and not between, what its children have.
#[test]
fn another_order_in_a_tree_is_noticed() {
    for sums in SumType::ALL {
        // A total in BF16 would hide most orders of three terms.
        let work = Work::of_call(DType::F32, [Slot(0), Slot(1)], CallKind::AllReduce { bytes: 4 * LONG });
        let choice = choice(Algorithm::Tree, Protocol::Native, 1);
        let mut plan = twice(3, &work, &Choice { sums, ..choice });
        run_sums(&plan).unwrap();
        let sum = additions(&mut plan, 1).into_iter().find(|sum| sum.terms.len() == 3).unwrap();
        sum.terms.rotate_left(1);
        is_noticed(&plan, 1);
    }
}
