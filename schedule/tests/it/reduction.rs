//! Plans of Reduce-Scatter and All-Reduce: which ops each algorithm has, what it moves, and that sums are what they say.

use std::sync::Arc;

use crate::common::{self, collective as job};
use zipwire_codec::DType;
use zipwire_schedule::plan::{Addition, Local, OpKind, Plan};
use zipwire_schedule::{
    Algorithm, CallKind, Choice, Job, PlanError, Protocol, Rank, Segment, Slot, Sum, SumType, Work, plan,
    plan_each,
};

const DTYPES: [DType; 2] = [DType::Bf16, DType::F32];

fn reduce_scatter(dtype: DType, values: &[u64]) -> Work {
    let bytes: Vec<u64> = values.iter().map(|count| count * dtype.width() as u64).collect();
    common::reduce_scatter(dtype, &bytes)
}

fn all_reduce(dtype: DType, values: u64) -> Work {
    common::all_reduce(dtype, values * dtype.width() as u64)
}

fn choice(protocol: Protocol, algorithm: Option<Algorithm>) -> Choice {
    let speculative_capacity = (protocol == Protocol::Speculative).then_some(0.8);
    Choice { algorithm, speculative_capacity, ranks_per_node: 2, ..common::choice(protocol, None) }
}

fn planned(rank_count: u32, work: Work, protocol: Protocol, algorithm: Algorithm) -> Plan {
    let plan = plan(&job(rank_count, work), &choice(protocol, Some(algorithm)));
    plan.validate().unwrap_or_else(|error| panic!("{protocol:?} {algorithm:?}: {error}"));
    plan
}

fn ops(plan: &Plan, rank: usize) -> String {
    let ops = plan.programs[rank].ops.iter().map(|op| match &op.kind {
        OpKind::Exchange(exchange) => exchange.stage.name(),
        kind @ (OpKind::Compute(_) | OpKind::Library(_) | OpKind::Local(_)) => kind.name(),
    });
    ops.collect::<Vec<_>>().join(" ")
}

fn additions(plan: &Plan, rank: usize) -> Vec<&Addition> {
    let ops = plan.programs[rank].ops.iter();
    let reductions = ops.filter_map(|op| match &op.kind {
        OpKind::Local(Local::Reduce(reduce)) => Some(&reduce.additions),
        OpKind::Compute(_)
        | OpKind::Library(_)
        | OpKind::Exchange(_)
        | OpKind::Local(Local::GatherRows(_) | Local::Split(_) | Local::Encode(_) | Local::Decode(_)) => None,
    });
    reductions.flatten().collect()
}

#[test]
fn each_form_has_these_ops() {
    let of = |work: Work, protocol, algorithm| ops(&planned(3, work, protocol, algorithm), 1);
    let bf16 = || reduce_scatter(DType::Bf16, &[100; 3]);
    // What travels around a ring is FP32: BF16 values are widened first.
    assert_eq!(of(bf16(), Protocol::Native, Algorithm::Ring), "reduce raw reduce raw reduce");
    let f32 = || reduce_scatter(DType::F32, &[100; 3]);
    assert_eq!(of(f32(), Protocol::Native, Algorithm::Ring), "raw reduce raw reduce");
    assert_eq!(of(bf16(), Protocol::Native, Algorithm::Direct), "raw reduce");
    assert_eq!(
        of(bf16(), Protocol::StaticFirst, Algorithm::Direct),
        "encode static sizes dynamic decode reduce"
    );
    let all = || all_reduce(DType::F32, 300);
    assert_eq!(of(all(), Protocol::Native, Algorithm::Ring), "raw reduce raw reduce raw raw");
    assert_eq!(of(all(), Protocol::Native, Algorithm::Direct), "raw reduce raw");
    assert_eq!(
        of(all(), Protocol::SizeFirst, Algorithm::Direct),
        "encode sizes dynamic decode reduce encode sizes dynamic decode"
    );
}

#[test]
fn two_levels_add_up_twice_and_each_node_sends_its_sums_only() {
    let counts = [100; 6];
    let two = |work, protocol| planned(6, work, protocol, Algorithm::Hierarchical);
    let native = two(reduce_scatter(DType::Bf16, &counts), Protocol::Native);
    assert_eq!(ops(&native, 1), "raw reduce raw reduce");
    let coded = two(reduce_scatter(DType::Bf16, &counts), Protocol::SizeFirst);
    assert_eq!(ops(&coded, 1), "encode sizes dynamic decode reduce encode sizes dynamic decode reduce");
    let all = two(all_reduce(DType::Bf16, 600), Protocol::Native);
    assert_eq!(ops(&all, 1), "raw reduce raw reduce raw raw");
    let last = additions(&native, 3).last().unwrap().chunk.sum.unwrap();
    assert_eq!(last, Sum::all(6, DType::F32).in_groups_of(2));
    // Each pair of nodes: two shards in each direction, each once, as FP32; an All-to-All sends each twice, as BF16.
    let between = |plan: &Plan| -> u64 {
        let receives = plan.programs.iter().flat_map(|program| {
            let exchanges = program.ops.iter().filter_map(|op| match &op.kind {
                OpKind::Exchange(exchange) => Some(&exchange.receives),
                OpKind::Compute(_) | OpKind::Library(_) | OpKind::Local(_) => None,
            });
            exchanges.flatten().filter(|t| t.peer.0 / 2 != program.rank.0 / 2)
        });
        receives.filter_map(|t| t.content.region()).map(|region| region.len).sum()
    };
    assert_eq!(between(&native), 3 * 2 * 2 * 400);
    let one = planned(6, reduce_scatter(DType::F32, &counts), Protocol::Native, Algorithm::Direct);
    assert_eq!(between(&one), 2 * 3 * 2 * 2 * 400);
}

#[test]
fn a_ring_reads_as_written() {
    let plan = planned(3, reduce_scatter(DType::Bf16, &[100, 0, 7]), Protocol::Native, Algorithm::Ring);
    insta::assert_snapshot!(plan.text(Some(Rank(0))), @"
    plan collective, native, 3 ranks
    segment 0 call
    digest fe888e16f63df45742fb43d6ea03d028

    rank 0
      b0 input 270 bytes
      b1 output 400 bytes
      b2 summands-0 528 bytes
      %0 [0] reduce
        b2[0..28] = b0[256..270], shard 2, F32 of 1 from rank 0
      %1 [0] exchange raw, rotation window 1/1, after %0
        to 1: b2[0..28] of rank 0 for rank 2, shard 2, F32 of 1 from rank 0
      %2 [0] exchange raw, rotation window 1/1, fused, after %1
        from 2: b2[128..528], shard 0, F32 of 2 from rank 1
      %3 [0] reduce, fused, after %2
        b1[0..400] = b2[128..528] + b0[0..200], shard 0, F32 of 3 from rank 1
    ");
}

#[test]
fn sums_begin_and_end_where_the_form_says() {
    let ranks = 5;
    for dtype in DTYPES {
        let work = || reduce_scatter(dtype, &[10; 5]);
        for rank in 0..ranks as usize {
            let ring = planned(ranks, work(), Protocol::Native, Algorithm::Ring);
            let last = additions(&ring, rank).last().unwrap().chunk;
            let origins: Vec<usize> = last.sum.unwrap().origins().map(Rank::index).collect();
            assert_eq!(origins, (1..=5).map(|step| (rank + step) % 5).collect::<Vec<_>>());
            let whole = planned(ranks, work(), Protocol::Native, Algorithm::Direct);
            let [sum] = additions(&whole, rank)[..] else { panic!("one sum") };
            assert_eq!((sum.chunk.sum.unwrap(), sum.terms.len()), (Sum::all(ranks, DType::F32), 5));
            assert_eq!(sum.values.len, 40, "sums of ten values are FP32");
        }
    }
}

/// Bytes that move, natively and in both types: a ring moves FP32 and the rest what is contributed.
#[test]
fn what_moves() {
    let counts = [1000, 0, 26, 500];
    let total: u64 = counts.iter().sum();
    for dtype in DTYPES {
        let width = dtype.width() as u64;
        let raw = |work, algorithm| planned(4, work, Protocol::Native, algorithm).bytes_raw();
        assert_eq!(raw(reduce_scatter(dtype, &counts), Algorithm::Ring), 3 * 4 * total);
        assert_eq!(raw(reduce_scatter(dtype, &counts), Algorithm::Direct), 3 * width * total);
        assert_eq!(raw(all_reduce(dtype, total), Algorithm::Ring), 3 * (4 + width) * total);
        assert_eq!(raw(all_reduce(dtype, total), Algorithm::Direct), 2 * 3 * width * total);
        let reduced =
            |algorithm| planned(4, all_reduce(dtype, total), Protocol::Native, algorithm).bytes_reduced();
        assert_eq!(reduced(Algorithm::Direct), width * total, "an All-Reduce gives what it takes");
    }
}

/// Every algorithm under every protocol, for any number of ranks, on both channels, several times over the same memory.
#[test]
fn all_plans_are_valid() {
    for rank_count in 2..8_u32 {
        let counts: Vec<u64> = (0..u64::from(rank_count)).map(|rank| rank * 5003 % 20_011).collect();
        for dtype in DTYPES {
            for protocol in Protocol::ALL {
                for (&algorithm, sums) in
                    Algorithm::OF_ALL_REDUCE.iter().flat_map(|of| SumType::ALL.map(|sums| (of, sums)))
                {
                    if protocol.is_coded() && !algorithm.takes_frames(true) {
                        continue;
                    }
                    let phase = Work::Compute {
                        phase: "phase",
                        reads: vec![Slot(1)],
                        writes: vec![Slot(0), Slot(1)],
                    };
                    let background = match reduce_scatter(dtype, &counts) {
                        Work::Call { dtype, kind: CallKind::ReduceScatter { bytes }, .. } => {
                            Work::of_call(dtype, [Slot(2), Slot(3)], CallKind::ReduceScatter { bytes })
                        }
                        _ => unreachable!(),
                    };
                    let segments = vec![
                        Segment::new("scatter", reduce_scatter(dtype, &counts)),
                        Segment::new("gradients", background).in_background(),
                        Segment::new("phase", phase),
                        Segment::new("reduce", all_reduce(dtype, 30_001)),
                    ];
                    let slots = vec!["input", "output", "gradients", "sums"];
                    let job = Job { name: "several", rank_count, slots, segments };
                    let mut choice = choice(protocol, Some(algorithm));
                    choice.ranks_per_node =
                        if rank_count.is_multiple_of(3) { 3 } else { rank_count.div_ceil(2) };
                    if !rank_count.is_multiple_of(choice.ranks_per_node) {
                        choice.ranks_per_node = rank_count;
                    }
                    choice.parts = if protocol.is_coded() { 2 } else { 1 };
                    // More than a small node has places, and more than small shards have tiles.
                    (choice.channels, choice.slices, choice.sums) =
                        (1 + rank_count % 3, 1 + rank_count % 2, sums);
                    let plan = plan_each(&job, &[&choice; 4]);
                    plan.validate().unwrap_or_else(|error| {
                        panic!("{rank_count} ranks, {dtype}, {protocol:?}, {algorithm:?}: {error}")
                    });
                }
            }
        }
    }
}

#[test]
fn a_sum_that_is_not_that_of_its_terms_is_found() {
    type Change = fn(&mut Addition);
    let changes: [(&str, Change); 5] = [
        ("another order", |sum| sum.terms.swap(0, 1)),
        ("a term twice", |sum| sum.terms[0] = sum.terms[1]),
        ("a term less", |sum| sum.terms.truncate(2)),
        ("another length", |sum| sum.terms[0].values.len -= 2),
        ("another shard", |sum| sum.terms[0].chunk.destination = Some(Rank(2))),
    ];
    for (what, change) in changes {
        let mut plan =
            planned(3, reduce_scatter(DType::Bf16, &[100; 3]), Protocol::Native, Algorithm::Direct);
        let program = Arc::make_mut(&mut plan.programs[1]);
        let OpKind::Local(Local::Reduce(reduce)) = &mut program.ops[1].kind else { panic!("a sum") };
        change(&mut reduce.additions[0]);
        let error = plan.validate().unwrap_err();
        assert!(matches!(error, PlanError::BadLocal { rank: Rank(1), .. }), "{what}: {error}");
    }
}

#[test]
fn shards_of_an_all_reduce_differ_by_a_value_at_most() {
    assert_eq!(all_reduce(DType::Bf16, 11).shards(4), [6, 6, 6, 4]);
    assert_eq!(all_reduce(DType::F32, 2).shards(3), [4, 4, 0]);
}

#[test]
fn what_adds_up_on_the_way_is_the_default_of_values_only() {
    let work = all_reduce(DType::Bf16, 11);
    assert_eq!(work.algorithm(Protocol::Native, None), Some(Algorithm::Ring));
    assert_eq!(work.algorithm(Protocol::StaticFirst, None), Some(Algorithm::Direct));
    assert_eq!(work.algorithm(Protocol::Native, Some(Algorithm::Direct)), Some(Algorithm::Direct));
}
