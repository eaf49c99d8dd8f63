//! Plans that call a communication library's own collectives: which calls there are, and what makes a plan of them wrong.

use std::sync::Arc;

use crate::common::{all_gather, all_reduce, choice, reduce_scatter};
use zipwire_codec::DType;
use zipwire_schedule::plan::{Content, Library, OpKind, Plan};
use zipwire_schedule::{
    Algorithm, Choice, Collective, Job, OpId, PlanError, Protocol, Rank, Segment, Selection, Stage, Sum,
    Work, plan, plan_each,
};

fn job(work: Work) -> Job {
    let segments = vec![Segment::new("call", work.clone()), Segment::new("again", work)];
    Job { name: "collective", rank_count: 3, slots: vec!["input", "output"], segments }
}

fn library_choice(protocol: Protocol) -> Choice {
    Choice { algorithm: Some(Algorithm::Library), ..choice(protocol, None) }
}

fn planned_in(work: Work, protocol: Protocol, parts: u32) -> Plan {
    let plan = plan(&job(work), &Choice { parts, ..library_choice(protocol) });
    plan.validate().unwrap_or_else(|error| panic!("{protocol:?}: {error}"));
    plan
}

fn planned(work: Work, protocol: Protocol) -> Plan {
    planned_in(work, protocol, 1)
}

/// Ops of rank 1 in the first segment: calls by what they carry.
fn ops(plan: &Plan) -> Vec<String> {
    let ops = plan.programs[1].ops.iter().filter(|op| op.segment.0 == 0);
    let name = |kind: &OpKind| match kind.library() {
        Some(library) => format!("{} {}", library.collective.name(), library.stage.name()),
        None => kind.stage().map_or(kind.name(), Stage::name).to_owned(),
    };
    ops.map(|op| name(&op.kind)).collect()
}

fn library(plan: &mut Plan, rank: usize, op: usize) -> &mut Library {
    match &mut Arc::make_mut(&mut plan.programs[rank]).ops[op].kind {
        OpKind::Library(library) => library,
        other => panic!("{other:?} calls no library"),
    }
}

/// Sizes go straight; each stage of frames is one call. Nothing is handed on.
#[test]
fn a_stage_is_a_call() {
    let gather = || all_gather(&[40_000, 600, 0]);
    assert_eq!(ops(&planned(gather(), Protocol::Native)), ["all-gather raw"]);
    assert_eq!(
        ops(&planned(gather(), Protocol::SizeFirst)),
        ["encode", "sizes", "all-gather dynamic", "decode"]
    );
    assert_eq!(
        ops(&planned(gather(), Protocol::StaticFirst)),
        ["encode", "all-gather static", "sizes", "all-gather dynamic", "decode"]
    );
    assert_eq!(
        ops(&planned(gather(), Protocol::InBand)),
        ["encode", "all-gather static", "all-gather dynamic", "decode"]
    );
    // Padding makes all pieces equal: either all are coded or none.
    let job = job(gather());
    let selection = Selection { least_bytes: 40_001, ranks_per_node: None };
    let uncoded = plan(&job, &Choice { selection, ..library_choice(Protocol::StaticFirst) });
    uncoded.validate().unwrap();
    assert_eq!(ops(&uncoded), ["all-gather raw"]);
    let sum = |dtype| ops(&planned(reduce_scatter(dtype, &[40, 600, 0]), Protocol::Native));
    assert_eq!(sum(DType::F32), ["reduce-scatter raw"]);
    assert_eq!(sum(DType::Bf16), ["reduce", "reduce-scatter raw"], "the library adds up FP32");
    assert_eq!(ops(&planned(all_reduce(DType::Bf16, 1000), Protocol::Native)), ["all-reduce raw"]);
}

/// A call has its channel for itself, also where parts of exchanges would be open together.
#[test]
fn the_exchanges_of_the_next_part_wait_for_the_call() {
    let plan = planned_in(all_gather(&[40_000, 20_000, 40_000]), Protocol::SizeFirst, 2);
    let ops = &plan.programs[0].ops;
    let sizes: Vec<_> = ops.iter().filter_map(|op| Some((op, op.kind.exchange()?))).take(2).collect();
    assert!(sizes.iter().all(|(_, exchange)| exchange.stage == Stage::Sizes && !exchange.joins_previous));
    let first = ops.iter().find(|op| op.kind.library().is_some()).unwrap();
    assert!(sizes[1].0.deps.contains(&first.id), "{:?}", sizes[1].0.deps);
    assert_eq!(ops.iter().filter_map(|op| op.kind.library()).map(|call| call.part).max(), Some(1));
}

#[test]
fn a_call_counts_what_all_have() {
    let ring_bytes = |work, op: usize| {
        let mut plan = planned(work, Protocol::Native);
        let calls = [0, 1, 2].map(|rank| library(&mut plan, rank, op).ring_bytes(|_| unreachable!()));
        assert!(calls.iter().all(|bytes| *bytes == calls[0]), "{calls:?}");
        (calls[0], plan.bytes_raw(), plan.bytes_reduced())
    };
    // Equal counts: all are padded to the longest. What is delivered is not. Both segments count.
    assert_eq!(ring_bytes(all_gather(&[400, 60, 0]), 0), (2 * 400, 2 * 2 * 460, 0));
    let scatter = reduce_scatter(DType::F32, &[400, 60, 0]);
    assert_eq!(ring_bytes(scatter, 0), (2 * 400, 2 * 2 * 460, 2 * 460));
    // BF16 is widened: a sum of one term for each value of each rank, and twice the bytes.
    let scatter = reduce_scatter(DType::Bf16, &[400, 60, 0]);
    assert_eq!(ring_bytes(scatter, 1), (2 * 800, 2 * 2 * 920, 2 * (3 * 920 + 920)));
    // Every rank gets all sums.
    assert_eq!(ring_bytes(all_reduce(DType::Bf16, 600), 0), (800, 2 * 3 * 800, 2 * 3 * 600));
}

#[test]
fn calls_read_as_written() {
    let plan = planned(all_reduce(DType::Bf16, 14), Protocol::Native);
    insta::assert_snapshot!(plan.text(Some(Rank(1))), @"
    plan collective, native, 3 ranks
    segment 0 call
    segment 1 again
    digest 293e47573fa88bea510fc34b2030d892

    rank 1
      b0 input 260 bytes
      b1 output 260 bytes
      b2 summands-0 0 bytes
      b3 summands-1 0 bytes
      %0 [0] library all-reduce, raw
        gives b0[0..260] of 6, 2 x 4 bytes, BF16 of 1 from rank 1
        gets b1[0..260] of 6, 2 x 4 bytes, BF16 of 3 from rank 0
      %1 [1] library all-reduce, raw, after %0
        gives b0[0..260] of 6, 2 x 4 bytes, BF16 of 1 from rank 1
        gets b1[0..260] of 6, 2 x 4 bytes, BF16 of 3 from rank 0
    ");
}

#[test]
fn what_is_no_collective_is_found() {
    type Change = fn(&mut Library);
    let changes: [(&str, Work, Change); 7] = [
        ("a rank twice", all_gather(&[40; 3]), |call| {
            call.outputs.list()[0].chunk = call.outputs.list()[1].chunk;
        }),
        ("its own", all_gather(&[40; 3]), |call| call.outputs.list()[0].chunk.origin = Rank(1)),
        ("another's", all_gather(&[40; 3]), |call| call.inputs.list()[0].chunk.origin = Rank(2)),
        ("another order", reduce_scatter(DType::F32, &[40; 3]), |call| {
            call.outputs.list()[0].chunk.sum = Some(Sum::run(Rank(1), 3, 3, DType::F32));
        }),
        ("another shard", reduce_scatter(DType::F32, &[40; 3]), |call| {
            call.outputs.list()[0].chunk.destination = Some(Rank(2));
        }),
        ("a sum less", all_reduce(DType::F32, 120), |call| call.outputs.list().truncate(2)),
        ("another length", all_reduce(DType::F32, 120), |call| {
            let Content::Values(region) = &mut call.outputs.list()[0].content else { panic!("values") };
            region.len -= 4;
        }),
    ];
    for (what, work, change) in changes {
        let mut plan = planned(work, Protocol::Native);
        change(library(&mut plan, 1, 0));
        let error = plan.validate().unwrap_err();
        assert_eq!(error, PlanError::BadCall { rank: Rank(1), op: OpId(0) }, "{what}");
    }
}

#[test]
fn ranks_that_call_otherwise_are_found() {
    let unmatched = |plan: &Plan| match plan.validate().unwrap_err() {
        PlanError::UnmatchedCall { key, rank } => (key.segment.0, rank),
        other => panic!("{other}"),
    };
    // Rank 2 has less to add up than the others.
    let mut plan = planned(reduce_scatter(DType::F32, &[40, 80, 40]), Protocol::Native);
    library(&mut plan, 2, 0).inputs.list().remove(1);
    assert_eq!(unmatched(&plan), (0, Rank(2)));
    // Rank 1 calls once.
    let mut plan = planned(all_gather(&[40; 3]), Protocol::Native);
    Arc::make_mut(&mut plan.programs[1]).ops.truncate(1);
    assert_eq!(unmatched(&plan), (1, Rank(1)));
    // Rank 1 waits for more of rank 2 than rank 2 gives.
    for work in [all_gather as fn(&[u64]) -> Work, |bytes: &[u64]| reduce_scatter(DType::F32, bytes)] {
        let mut plan = planned(work(&[40; 3]), Protocol::Native);
        let other = library(&mut planned(work(&[40, 40, 44]), Protocol::Native), 1, 0).clone();
        *library(&mut plan, 1, 0) = other;
        let Err(PlanError::OutOfBuffer { .. }) = plan.validate() else { panic!("buffers are as planned") };
        Arc::make_mut(&mut plan.programs[1]).buffers.iter_mut().for_each(|buffer| buffer.capacity *= 2);
        assert_eq!(unmatched(&plan), (0, Rank(1)));
    }
    // Rank 1 gets more of rank 0 than rank 0 gives.
    let mut plan = planned(all_gather(&[40; 3]), Protocol::Native);
    let Content::Values(region) = &mut library(&mut plan, 0, 0).inputs.list()[0].content else {
        panic!("values")
    };
    region.len = 38;
    assert_eq!(unmatched(&plan), (0, Rank(1)));
}

/// A plan that brings other bytes than the job says, from one rank too few or too many.
#[test]
fn rows_of_other_lengths_are_undelivered() {
    let works: [fn(u64) -> Work; 2] =
        [|bytes| all_gather(&[40, bytes, 0]), |bytes| all_reduce(DType::F32, bytes)];
    for work in works {
        let plan = planned(work(120), Protocol::Native);
        assert_eq!(plan.validate_for(&job(work(120))), Ok(()));
        let error = plan.validate_for(&job(work(132))).unwrap_err();
        assert!(matches!(error, PlanError::Undelivered { .. }), "{error}");
    }
    // As many bytes of another type.
    for [planned_in, wanted] in [[DType::F32, DType::Bf16], [DType::Bf16, DType::F32]] {
        let plan = planned(all_reduce(planned_in, 600), Protocol::Native);
        let error = plan.validate_for(&job(all_reduce(wanted, 600))).unwrap_err();
        assert!(matches!(error, PlanError::Undelivered { .. }), "{error}");
    }
}

/// One rank calls in another order: each waits for the other for ever.
#[test]
fn calls_in_another_order_are_a_circle() {
    let mut plan = planned(all_gather(&[40; 3]), Protocol::Native);
    let program = Arc::make_mut(&mut plan.programs[2]);
    let [first, second] = &mut program.ops[..] else { panic!("two calls") };
    std::mem::swap(&mut first.segment, &mut second.segment);
    let error = plan.validate().unwrap_err().to_string();
    insta::assert_snapshot!(
        error,
        @"ranks wait for one another for ever, in a circle: `%0` of rank 1, `%1` of rank 1, `%0` of rank 2, `%1` of rank 2"
    );
}

#[test]
fn libraries_add_up_values_only() {
    let work = all_reduce(DType::Bf16, 600);
    assert_eq!(work.algorithm(Protocol::Native, Some(Algorithm::Library)), Some(Algorithm::Library));
    assert_eq!(work.algorithm(Protocol::SizeFirst, Some(Algorithm::Library)), Some(Algorithm::Direct));
    assert_eq!(work.collective(4), Some(Collective::AllReduce));
    assert_eq!(
        all_gather(&[1]).algorithm(Protocol::SizeFirst, Some(Algorithm::Library)),
        Some(Algorithm::Library)
    );
}

/// An exchange that joins the transfers before it shares their window; a call of a library stands between the signs and mantissas
/// of `split-send` and the next segment, so nothing joins.
#[test]
fn nothing_joins_what_was_before_a_call() {
    let work = all_gather(&[64, 0, 128]);
    let segments = vec![Segment::new("call", work.clone()), Segment::new("sent", work)];
    let job = Job { name: "collective", rank_count: 3, slots: vec!["input", "output"], segments };
    let codec = || Some("tiered".parse().unwrap());
    let called = Choice { codec: codec(), ..library_choice(Protocol::SplitSend) };
    let sent =
        Choice { algorithm: Some(Algorithm::Direct), codec: codec(), ..choice(Protocol::Native, None) };
    let plan = plan_each(&job, &[&called, &sent]);
    plan.validate().unwrap();
    let exchanges = plan.programs.iter().flat_map(|program| &program.ops).filter_map(|op| op.kind.exchange());
    assert!(exchanges.clone().count() > 0 && exchanges.clone().all(|exchange| !exchange.joins_previous));
}
