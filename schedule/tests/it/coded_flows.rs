//! Plans of explicit flows that are coded: what they hold, in which order, and that they wait for no more than uncoded ones.

use crate::common::{flow, transfers};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_schedule::plan::{OpKind, Plan};
use zipwire_schedule::{Choice, Flow, Job, Pace, Protocol, Rank, Selection, Stage, plan};

const PACES: [Pace; 3] = [Pace::Burst, Pace::Chain, Pace::SendReceive];

fn choice(protocol: Protocol) -> Choice {
    let speculative_capacity = (protocol == Protocol::Speculative).then_some(0.5);
    Choice { speculative_capacity, ..Choice::of(protocol, Some(crate::common::window7())) }
}

fn planned(flows: &[Flow], pace: Pace, choice: &Choice) -> (Job, Plan) {
    let job = transfers(4, flows, pace);
    let plan = plan(&job, choice);
    (job, plan)
}

#[test]
fn a_plan_of_coded_flows_reads_as_written() {
    let flows = [flow(0, 1, 2000, 2e-6), flow(1, 0, 64, 0.0), flow(0, 2, 600, 0.0)];
    let (job, steps) = planned(&flows, Pace::SendReceive, &choice(Protocol::SizeFirst));
    steps.validate_for(&job).unwrap();
    insta::assert_snapshot!(steps.text(Some(Rank(0))), @r#"
    plan transfers, size-first, 4 ranks, codec window7
    segment 0 transfers
    digest ee76a8853daeaaf5cfce8fba31784eb8

    rank 0
      b0 sent 2648 bytes
      b1 received 64 bytes
      b2 frames-out-0 2686 bytes
      b3 frames-in-0 102 bytes
      %0 [0] encode compact BF16, not before 2e-6 s
        to 1: values b0[0..2000] dynamic b2[0..2038] s0
      %1 [0] exchange sizes, rotation window 1/1, exchange of flow 0 step 0, after %0
        to 1: size s0
      %2 [0] exchange dynamic, rotation window 1/1, exchange of flow 0 step 0, after %0 %1
        to 1: s0 bytes of b2[0..2038]
      %3 [0] exchange sizes, rotation window 1/1, exchange of flow 1 step 0
        from 1: size s1 flow 1
      %4 [0] exchange dynamic, rotation window 1/1, exchange of flow 1 step 0, after %3
        from 1: s1 bytes of b3[0..102] flow 1
      %5 [0] decode compact BF16, after %3 %4
        from 1: values b1[0..64] dynamic b3[0..102] s1
      %6 [0] encode compact BF16
        to 2: values b0[2048..2648] dynamic b2[2048..2686] s2
      %7 [0] exchange sizes, rotation window 1/1, exchange of flow 2 step 1, after %1 %2 %3 %4 %6
        to 2: size s2 flow 2
      %8 [0] exchange dynamic, rotation window 1/1, exchange of flow 2 step 1, after %1 %2 %3 %4 %6 %7
        to 2: s2 bytes of b2[2048..2686] flow 2
    "#);
    // The same flows without steps wait for nothing but their own coding and sizes.
    let (_, burst) = planned(&flows, Pace::Burst, &choice(Protocol::SizeFirst));
    let ops = &burst.programs[0].ops;
    let opened: Vec<_> = ops.iter().filter(|op| op.kind.stage() == Some(Stage::Sizes)).collect();
    let deps: Vec<Vec<&str>> =
        opened.iter().map(|op| op.deps.iter().map(|dep| ops[dep.index()].kind.name()).collect()).collect();
    assert_eq!(
        deps,
        [vec![], vec!["encode"], vec!["encode"]],
        "what arrives, and what leaves, ready ones first"
    );
}

#[test]
fn flows_that_are_not_selected_travel_as_they_are_when_they_are_ready() {
    let flows = [flow(0, 1, 40_000, 2e-6), flow(0, 1, 64, 3e-6)];
    let selection = Selection { least_bytes: 1000, ..Selection::default() };
    let choice = Choice { selection, parts: 2, ..choice(Protocol::InBand) };
    let (job, plan) = planned(&flows, Pace::Burst, &choice);
    plan.validate_for(&job).unwrap();
    let ops = &plan.programs[0].ops;
    let encodes = ops.iter().filter(|op| op.kind.encoded().is_some());
    assert_eq!(encodes.map(|op| op.not_before_s).collect::<Vec<_>>(), [2e-6, 2e-6], "a part each");
    let raw = ops.iter().filter_map(|op| op.kind.exchange()).find(|exchange| exchange.stage == Stage::Raw);
    assert_eq!(raw.map(|exchange| (exchange.sends.len(), exchange.sends[0].not_before_s)), Some((1, 3e-6)));
}

/// Whatever stands still or gets to its end as values does as frames, at every pace and in every protocol.
#[test]
fn coded_flows_stand_still_only_where_uncoded_ones_do() {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let (mut stuck, mut fine) = (0, 0);
    for _ in 0..if cfg!(miri) { 4 } else { 300 } {
        let flows: Vec<Flow> = (0..random.random_range(1..14))
            .map(|_| {
                let src = random.random_range(0..4);
                flow(src, (src + random.random_range(1..4)) % 4, 2 * random.random_range(0..200), 0.0)
            })
            .collect();
        for pace in PACES {
            let is_fine = planned(&flows, pace, &choice(Protocol::Native)).1.validate().is_ok();
            *(if is_fine { &mut fine } else { &mut stuck }) += 1;
            for protocol in Protocol::ALL.into_iter().filter(|protocol| protocol.is_coded()) {
                let choice = Choice { parts: random.random_range(1..=3), ..choice(protocol) };
                let (job, plan) = planned(&flows, pace, &choice);
                let result = plan.validate_for(&job);
                assert_eq!(result.is_ok(), is_fine, "{pace:?} {protocol:?} {flows:?}: {result:?}");
            }
        }
    }
    assert!(cfg!(miri) || (stuck > 10 && fine > 600), "{stuck} stand still, and {fine} end");
}

#[test]
fn what_is_not_coded_is_planned_as_it_always_was() {
    let flows = [flow(0, 1, 1001, 2e-6), flow(1, 0, 7, 0.0)];
    for pace in PACES {
        let (job, plan) = planned(&flows, pace, &choice(Protocol::Native));
        plan.validate_for(&job).unwrap();
        assert_eq!((plan.protocols.as_slice(), plan.codec), (&[None][..], None));
        let mut ops = plan.programs.iter().flat_map(|program| &program.ops);
        assert!(ops.all(|op| matches!(op.kind, OpKind::Exchange(_)) && op.not_before_s == 0.0));
    }
}
