//! Random schedules of random plans: whatever takes how long, every op reads what it should, nothing is overwritten that is in use, no
//! window is exceeded, all ranks end, and who is blamed for a loss is to blame.
//!
//! `ZIPWIRE_SCHEDULES` is the number of schedules (a short run by default), and `ZIPWIRE_SEED` the first seed. A schedule that fails
//! names its seed; with that seed and one schedule it is played again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod case;
mod memory;
mod world;

use std::sync::Arc;

use case::Case;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use world::{Fault, Outcome, play};
use zipwire_schedule::plan::{Plan, Region};
use zipwire_schedule::{Capabilities, Deadlines, OpId, Readiness, Slack, TransferOrder};

/// Schedules of each plan: planning takes as long as some of them.
const OF_A_PLAN: u64 = 8;
/// Schedules of a short run.
const SHORT: u64 = 4_000;

const ORDERED: Capabilities =
    Capabilities { readiness: Readiness::Completed, transfer_order: TransferOrder::Machine, timed: true };
const BY_LIBRARY: Capabilities = Capabilities { transfer_order: TransferOrder::Library, ..ORDERED };
const ON_DEVICES: Capabilities = Capabilities { readiness: Readiness::Issued, ..BY_LIBRARY };

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    schedules: u64,
    lost: u64,
    killed: u64,
    survived: u64,
    transfers: u64,
}

/// All schedules of the plan of a seed.
fn of_plan(seed: u64, seen: &mut Seen) -> Result<(), String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let Case { plan, fits_libraries, fits_devices } = Case::draw(&mut random);
    plan.validate().map_err(|error| format!("{error}: {}", plan.text(None)))?;
    let mut kinds = vec![ORDERED];
    kinds.extend(fits_libraries.then_some(BY_LIBRARY));
    kinds.extend(fits_devices.then_some(ON_DEVICES));
    let mut expected = None;
    let mut healthy: Option<Outcome> = None;
    for number in 0..OF_A_PLAN {
        let capabilities = kinds[random.random_range(0..kinds.len())];
        let timing = random.random();
        let fault = match (&healthy, random.random_range(0..4)) {
            (Some(known), 0) if known.begun > 0 => Fault::Loses(random.random_range(0..known.begun)),
            (Some(known), 1) => {
                Fault::Kills(random.random_range(0..plan.programs.len()), random.random_range(0..=known.now))
            }
            _ => Fault::None,
        };
        // Later than anything takes.
        let slack = Slack { factor: 1.0, floor_s: 1.0 };
        let expected_s =
            healthy.iter().flat_map(|known| &known.ends_s).map(|&(rank, op, end_s)| (0, rank, op, end_s));
        let deadlines = Deadlines::new(&plan, 1, slack, expected_s);
        let deadlines = (fault != Fault::None).then_some(&deadlines);
        let outcome = play(&plan, capabilities, timing, fault, deadlines).map_err(|error| {
            format!("schedule {number} ({capabilities:?}, {fault:?}): {error}\n{}", plan.text(None))
        })?;
        seen.schedules += 1;
        seen.transfers += outcome.begun;
        match &outcome.failure {
            None => {
                seen.survived += u64::from(fault != Fault::None);
                if *expected.get_or_insert(outcome.digest) != outcome.digest {
                    return Err(format!(
                        "schedule {number} ({capabilities:?}): other results\n{}",
                        plan.text(None)
                    ));
                }
                if fault == Fault::None {
                    healthy.get_or_insert(outcome);
                }
            }
            Some((failure, culprit)) => {
                match fault {
                    Fault::Loses(_) => seen.lost += 1,
                    _ => seen.killed += 1,
                }
                if culprit.is_some_and(|culprit| culprit != failure.blame.rank) {
                    let text = plan.text(None);
                    return Err(format!(
                        "schedule {number} ({capabilities:?}, {fault:?}): {failure}\n{text}"
                    ));
                }
            }
        }
    }
    Ok(())
}

#[allow(
    clippy::disallowed_methods,
    reason = "how much to play is up to whoever runs the test, and changes no result"
)]
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn all_schedules_of_all_plans_are_alike() {
    let (first, count) = (number("ZIPWIRE_SEED", 0), number("ZIPWIRE_SCHEDULES", SHORT));
    let mut seen = Seen::default();
    let mut seed = first;
    while seen.schedules < count {
        if let Err(error) = of_plan(seed, &mut seen) {
            panic!("ZIPWIRE_SEED={seed} ZIPWIRE_SCHEDULES=1: {error}");
        }
        seed += 1;
    }
    println!("{} plans: {seen:?}", seed - first);
    if count >= SHORT {
        assert!(seen.lost > 500 && seen.killed > 500 && seen.transfers > 50 * seen.schedules, "{seen:?}");
    }
}

/// How many schedules of how many plans find a planted defect; `plant` says whether a plan could have it.
fn found(fault: Fault, plant: impl Fn(&mut Plan, &mut ChaCha8Rng) -> bool) -> (u32, u32) {
    let (mut planted, mut found) = (0, 0);
    for seed in 0..200 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut plan = Case::draw(&mut random).plan;
        let expected = play(&plan, ORDERED, 0, Fault::None, None).unwrap().digest;
        if !plant(&mut plan, &mut random) {
            continue;
        }
        planted += 1;
        let is_noticed = |timing| {
            let played = play(&plan, ORDERED, timing, fault, None);
            !played.is_ok_and(|outcome| outcome.digest == expected)
        };
        found += u32::from((0..20).any(is_noticed));
    }
    (found, planted)
}

/// An op that does not wait for one of those whose results it reads, or whose memory it overwrites.
#[test]
fn a_dependency_that_is_left_out_is_found() {
    let (found, planted) = found(Fault::None, |plan, random| {
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
    println!("{found} of {planted}");
    // Many follow from others that are there.
    assert!(planted > 100 && found * 3 > planted, "{found} of {planted}");
}

/// A transport that tells receivers of bytes that are still on their way.
#[test]
fn bytes_that_are_announced_too_early_are_found() {
    let (found, planted) = found(Fault::TellsEarly, |plan, _| {
        plan.programs.iter().flat_map(|program| &program.ops).any(|op| {
            op.kind
                .exchange()
                .is_some_and(|exchange| exchange.receives.iter().any(|t| t.content.region().is_some()))
        })
    });
    println!("{found} of {planted}");
    assert!(planted > 100 && found * 10 > planted * 9, "{found} of {planted}");
}
