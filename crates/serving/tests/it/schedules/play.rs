//! A driver that lets things happen in any order that may be.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_serving::{Config, Input, Machine, RequestId};

use super::case::Case;
use super::follow::Follower;

/// Plays one schedule to its end.
pub(crate) fn play(seed: u64) {
    let case = Case::new(seed);
    let random = &mut ChaCha8Rng::seed_from_u64(!seed);
    let mut machine = Machine::new(&case.requests, case.config);
    let mut follower = Follower::new(case.config, &case.requests);
    let mut arrived = 0;
    while let Some(input) = next(random, &case, &follower, arrived) {
        match input {
            Input::Arrived(_) => arrived += 1,
            Input::Computed { instance } => computed(&mut follower, &case.config, instance),
            Input::Moved(flow) => follower.flow_moved(flow),
            Input::Stepped { instance } => follower.stepped(instance),
            Input::PrefillLost { instance } => follower.lose_prefill(instance),
            Input::DecodeLost { instance } => follower.lose_decode(instance),
            Input::Cancelled(_) => {}
        }
        machine.handle(input);
        while let Some(step) = machine.poll() {
            follower.step(step);
        }
        check(&machine, &follower, arrived);
    }
    assert_eq!(arrived as usize, case.requests.len());
    assert_eq!(follower.ended(), arrived, "nothing happens any more, and some have not ended");
    assert_eq!(machine.census().in_flight, 0);
    assert!(follower.flows.is_empty());
    let held: u64 = machine.prefill_kv_tokens().chain(machine.decode_kv_tokens()).sum();
    assert_eq!(held, 0, "nothing is held at the end");
}

fn computed(follower: &mut Follower<'_>, config: &Config, instance: u32) {
    let computing = &mut follower.computing[instance as usize];
    let (_, groups) = computing.as_mut().unwrap();
    *groups += 1;
    if *groups == config.layer_groups {
        *computing = None;
    }
}

/// Something that may happen now; `None` when nothing will.
fn next(random: &mut ChaCha8Rng, case: &Case, follower: &Follower<'_>, arrived: u32) -> Option<Input> {
    let computing: Vec<u32> = positions(follower.computing.iter().map(Option::is_some));
    let stepping: Vec<u32> = positions(follower.batches.iter().map(|batch| batch.is_stepping));
    let flows: Vec<_> = follower.flows.keys().copied().collect();
    let is_possible = [
        (arrived as usize) < case.requests.len(),
        !computing.is_empty(),
        !flows.is_empty(),
        !stepping.is_empty(),
    ];
    let weights: Vec<u32> = (0..4).map(|kind| u32::from(is_possible[kind]) * case.weights[kind]).collect();
    let total: u32 = weights.iter().sum();
    if total == 0 {
        return None;
    }
    if random.random_range(0..1000) < case.cancels {
        // Any request: one that has not arrived or has ended is left alone.
        return Some(Input::Cancelled(RequestId(random.random_range(0..case.requests.len() as u32))));
    }
    if random.random_range(0..1000) < case.losses {
        return Some(if random.random() {
            Input::PrefillLost { instance: random.random_range(0..case.config.prefill.instances) }
        } else {
            Input::DecodeLost { instance: random.random_range(0..case.config.decode.instances) }
        });
    }
    let mut drawn = random.random_range(0..total);
    let kind = weights.iter().position(|&weight| {
        let is_here = drawn < weight;
        drawn = drawn.wrapping_sub(weight);
        is_here
    });
    let pick = |random: &mut ChaCha8Rng, of: &[u32]| of[random.random_range(0..of.len())];
    Some(match kind.unwrap() {
        0 => Input::Arrived(RequestId(arrived)),
        1 => Input::Computed { instance: pick(random, &computing) },
        2 => Input::Moved(flows[random.random_range(0..flows.len())]),
        _ => Input::Stepped { instance: pick(random, &stepping) },
    })
}

fn positions(are: impl Iterator<Item = bool>) -> Vec<u32> {
    (0..).zip(are).filter_map(|(index, is)| is.then_some(index)).collect()
}

/// Checks the invariants after every event.
fn check(machine: &Machine<'_>, follower: &Follower<'_>, arrived: u32) {
    let census = machine.census();
    assert_eq!(census.arrived, arrived);
    assert_eq!(census.arrived, census.finished + census.failed + census.in_flight, "{census:?}");
    assert_eq!(census.finished + census.failed, follower.ended());
    assert!(census.unanswered <= census.in_flight);
    let config = machine.config();
    assert!(machine.prefill_kv_tokens().all(|tokens| tokens <= config.prefill.kv_tokens));
    assert!(machine.decode_kv_tokens().all(|tokens| tokens <= config.decode.kv_tokens));
}
