//! Calls have memory of their own for what they code and add up, so one call does not wait for another one's frames.

use std::collections::BTreeSet;

use crate::common::choice;
use zipwire_codec::DType;
use zipwire_schedule::plan::{Local, OpKind, Plan, Program};
use zipwire_schedule::{
    Algorithm, CallKind, Choice, Job, OpId, Protocol, Segment, SegmentId, Slot, Work, plan,
};

const LAYERS: u32 = 4;
const RANKS: u32 = 3;

/// Weights of layers, gathered ahead of the layer that computes with them, as in FSDP: no call needs what another one brings.
fn prefetched(call: impl Fn(Slot, Slot) -> Work) -> Job {
    let call = |layer: u32| Segment::new(format!("call {layer}"), call(Slot(layer), Slot(LAYERS + layer)));
    let compute = |layer: u32| {
        let slots = vec![Slot(LAYERS + layer)];
        let work = Work::Compute { phase: "forward", reads: slots.clone(), writes: Vec::new() };
        Segment::new(format!("forward {layer}"), work)
    };
    let segments = (0..LAYERS).flat_map(|layer| [call(layer), compute(layer)]).collect();
    let slots = vec!["shard 0", "shard 1", "shard 2", "shard 3", "layer 0", "layer 1", "layer 2", "layer 3"];
    Job { name: "prefetched", rank_count: RANKS, slots, segments }
}

fn gathers() -> Job {
    prefetched(|input, output| {
        let bytes = vec![40_000; RANKS as usize];
        Work::of_call(DType::Bf16, [input, output], CallKind::AllGather { bytes })
    })
}

fn reductions() -> Job {
    prefetched(|input, output| {
        let bytes = vec![40_000; RANKS as usize];
        Work::of_call(DType::Bf16, [input, output], CallKind::ReduceScatter { bytes })
    })
}

/// All that an op waits for, directly or not.
fn ancestors(program: &Program, op: OpId) -> BTreeSet<OpId> {
    let mut found = BTreeSet::new();
    let mut open = vec![op];
    while let Some(op) = open.pop() {
        open.extend(program.ops[op.index()].deps.iter().filter(|dep| found.insert(**dep)));
    }
    found
}

/// The segments whose exchanges, decodes or sums the first op of a kind in `segment` waits for, on any rank.
fn waited_for(plan: &Plan, segment: u32, kind: fn(&OpKind) -> bool) -> BTreeSet<u32> {
    let mut segments = BTreeSet::new();
    for program in &plan.programs {
        let first = program.ops.iter().find(|op| op.segment == SegmentId(segment) && kind(&op.kind));
        let first = first.expect("each rank has such an op in each call");
        let ops = ancestors(program, first.id);
        let ops = ops.iter().map(|op| &program.ops[op.index()]).filter(|op| op.segment != first.segment);
        let late = ops.filter(|op| {
            !matches!(op.kind, OpKind::Compute(_) | OpKind::Local(Local::Encode(_) | Local::Split(_)))
        });
        segments.extend(late.map(|op| op.segment.0));
    }
    segments
}

fn is_encode(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Local(Local::Encode(_)))
}

fn is_exchange(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Exchange(_))
}

/// Calls are the even segments.
fn calls(of: &[u32]) -> BTreeSet<u32> {
    of.iter().map(|call| 2 * call).collect()
}

#[test]
fn coding_of_a_call_waits_for_nothing_of_the_one_before() {
    for protocol in Protocol::ALL.into_iter().filter(|protocol| protocol.is_coded()) {
        for parts in [1, 3] {
            let with = |arenas| Choice { arenas, parts, ..choice(protocol, None) };
            let two = plan(&gathers(), &with(2));
            two.validate().expect("it is valid");
            for (call, expected) in [(1, &[][..]), (2, &[0]), (3, &[0, 1])] {
                assert_eq!(
                    waited_for(&two, 2 * call, is_encode),
                    calls(expected),
                    "{protocol:?}, call {call}"
                );
            }
            let four = plan(&gathers(), &with(4));
            assert_eq!(waited_for(&four, 6, is_encode), calls(&[]), "{protocol:?}");
            let one = plan(&gathers(), &with(1));
            one.validate().expect("it is valid");
            assert_eq!(
                waited_for(&one, 2, is_encode),
                calls(&[0]),
                "{protocol:?}: with one arena it must wait"
            );
        }
    }
}

/// An exchange follows the exchanges of its channel, and neither a decode nor a sum of the call before.
#[test]
fn exchanges_wait_for_no_decode_and_no_sum_of_the_call_before() {
    let cases = [
        (gathers(), Protocol::StaticFirst, Algorithm::Ring),
        (reductions(), Protocol::StaticFirst, Algorithm::Direct),
        (reductions(), Protocol::Native, Algorithm::Direct),
    ];
    for (job, protocol, algorithm) in cases {
        let direct = |arenas| {
            let plan = plan(&job, &Choice { arenas, algorithm: Some(algorithm), ..choice(protocol, None) });
            let program = &plan.programs[0];
            let first = program.ops.iter().find(|op| op.segment == SegmentId(2) && is_exchange(&op.kind));
            let deps = first.expect("the call moves something").deps.iter();
            let deps = deps.map(|dep| &program.ops[dep.index()]).filter(|op| op.segment == SegmentId(0));
            deps.filter(|op| !is_exchange(&op.kind)).map(|op| op.kind.name()).collect::<Vec<_>>()
        };
        assert_eq!(direct(2), [] as [&str; 0], "{protocol:?} {algorithm:?}");
        assert!(!direct(1).is_empty(), "{protocol:?} {algorithm:?}: with one arena it must wait");
    }
}

/// A plan has no more buffers than its calls take, and its digest tells numbers of arenas apart where that makes a difference.
#[test]
fn arenas_are_in_text_and_digest() {
    let planned = |arenas| plan(&gathers(), &Choice { arenas, ..choice(Protocol::InBand, None) });
    let text = planned(3).text(None);
    for arena in 0..3 {
        assert!(text.contains(&format!("frames-out-{arena} ")), "{text}");
    }
    assert!(!text.contains("frames-out-3"), "{text}");
    assert!(!text.contains("summands"), "{text}");
    let digests: BTreeSet<_> = [1, 2, 3, 4].map(|arenas| planned(arenas).digest()).into();
    assert_eq!(digests.len(), 4);
    assert_eq!(planned(4).digest(), planned(64).digest(), "four calls take four");
}
