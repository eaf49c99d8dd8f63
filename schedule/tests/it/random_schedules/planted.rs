//! Planted defects: each is found, and by enough schedules that a short run would find it.

use std::panic::catch_unwind;
use std::sync::Arc;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_schedule::OpId;
use zipwire_schedule::plan::{Plan, Region};

use crate::random_schedules::case::Case;
use crate::random_schedules::world::{Conditions, Defect, play};
use crate::random_schedules::{Counts, HEALTHY, of_plan};

/// Plans that are drawn for each defect.
const PLANS: u64 = 200;

/// How many plans find a planted defect; `plant` says whether a plan could have it.
fn found(defect: Defect, plant: impl Fn(&mut Plan, &mut ChaCha8Rng) -> bool) -> (u32, u32) {
    let (mut planted, mut found) = (0, 0);
    for seed in 0..PLANS {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut plan = Case::draw(&mut random).plan;
        let expected = play(&plan, HEALTHY).unwrap().digest;
        if !plant(&mut plan, &mut random) {
            continue;
        }
        planted += 1;
        // Machines panic where a size is missing.
        let is_noticed = |timing| {
            let played = catch_unwind(|| play(&plan, Conditions { timing, defect, ..HEALTHY }));
            !played.is_ok_and(|played| played.is_ok_and(|outcome| outcome.digest == expected))
        };
        found += u32::from((0..20).any(is_noticed));
    }
    println!("{found} of {planted}");
    (found, planted)
}

/// How many plans find a defect among the schedules that a run plays, and what they say of it.
fn complaints(defect: Defect) -> Vec<String> {
    let mut counts = Counts::default();
    let all: Vec<String> = (0..PLANS).filter_map(|seed| of_plan(seed, defect, &mut counts).err()).collect();
    println!("{} of {PLANS}", all.len());
    all
}

/// An op that does not wait for one of those whose results it reads, or whose memory it overwrites.
#[test]
#[cfg_attr(miri, ignore = "hundreds of plans take hours under Miri")]
fn a_dependency_that_is_left_out_is_found() {
    let (found, planted) = found(Defect::None, |plan, random| {
        let rank = random.random_range(0..plan.programs.len());
        let program = Arc::make_mut(&mut plan.programs[rank]);
        let clash = |a: &[Region], b: &[Region]| a.iter().any(|a| b.iter().any(|b| a.overlaps(b)));
        let mut needed = Vec::new();
        for op in &program.ops {
            let (reads, writes) = (op.kind.effects().reads, op.kind.effects().writes);
            let needs = |dep: &&OpId| {
                let kind = &program.ops[dep.index()].kind;
                let others: Vec<Region> = [kind.effects().reads, kind.effects().writes].concat();
                clash(&reads, &kind.effects().writes) || clash(&writes, &others)
            };
            // Without its sizes an op cannot even begin, and ops of a lane wait for one another anyway.
            let uses = op.kind.effects().uses;
            let no_size = |dep: &&OpId| {
                !program.ops[dep.index()].kind.effects().defines.iter().any(|size| uses.contains(size))
            };
            let other_lane = |dep: &&OpId| program.ops[dep.index()].kind.lane() != op.kind.lane();
            needed.extend(
                op.deps.iter().filter(needs).filter(no_size).filter(other_lane).map(|dep| (op.id, *dep)),
            );
        }
        let Some(&(op, dep)) = needed.choose(random) else { return false };
        program.ops[op.index()].deps.retain(|other| *other != dep);
        true
    });
    // Many follow from others that are there.
    assert!(planted > 100 && found * 3 > planted, "{found} of {planted}");
}

/// A transport that tells receivers of bytes that are still on their way.
#[test]
#[cfg_attr(miri, ignore = "hundreds of plans take hours under Miri")]
fn bytes_that_are_announced_too_early_are_found() {
    let (found, planted) = found(Defect::TellsEarly, |plan, _| {
        plan.programs.iter().flat_map(|program| &program.ops).any(|op| {
            op.kind
                .exchange()
                .is_some_and(|exchange| exchange.receives.iter().any(|t| t.content.region().is_some()))
        })
    });
    assert!(planted > 100 && found * 5 > planted * 4, "{found} of {planted}");
}

/// A library that takes the second news of a transfer for the end of another one.
#[test]
#[cfg_attr(miri, ignore = "hundreds of plans take hours under Miri")]
fn a_duplicate_that_counts_twice_is_found() {
    let found = complaints(Defect::CountsTwice).len();
    assert!(found > 50, "{found}");
}

/// Machines whose windows admit one transfer too many.
#[test]
#[cfg_attr(miri, ignore = "hundreds of plans take hours under Miri")]
fn a_window_that_is_exceeded_by_one_is_found() {
    let all = complaints(Defect::WidensWindows);
    assert!(all.len() > 50, "{}", all.len());
    assert!(all.iter().all(|text| text.contains("transfers open in a window of")), "{all:?}");
}

/// Ranks that do not say what they wait for, so that somebody else is blamed.
#[test]
#[cfg_attr(miri, ignore = "hundreds of plans take hours under Miri")]
fn a_wrong_rank_that_is_blamed_is_found() {
    let all = complaints(Defect::ForgetsWaits);
    assert!(all.len() > 50, "{}", all.len());
    assert!(all.iter().all(|text| text.contains("to blame is one of")), "{all:?}");
}

/// A device that carries out a lane in another order than that of issue.
#[test]
#[cfg_attr(miri, ignore = "hundreds of plans take hours under Miri")]
fn a_lane_out_of_order_is_found() {
    let found = complaints(Defect::ReversesLanes).len();
    assert!(found > 5, "{found}");
}

/// A transport that brings other sizes than were sent.
#[test]
#[cfg_attr(miri, ignore = "hundreds of plans take hours under Miri")]
fn sizes_that_are_altered_on_the_way_are_found() {
    let found = complaints(Defect::AltersSizes).len();
    assert!(found > 50, "{found}");
}
