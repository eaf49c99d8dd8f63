//! Random schedules of the machine: whatever order things happen in, nothing is lost, served twice or kept for ever.

mod follow;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_serving::{
    Config, FirstToken, Input, Machine, Move, Placement, Pool, Request, RequestId, Requests,
};

use self::follow::Follower;

/// Runs the schedules of these seeds; the seed of one that fails is printed before its report.
fn play_all(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let played = std::panic::catch_unwind(|| play(seed));
        if let Err(report) = played {
            eprintln!("schedule of seed {seed}: {:?}", Case::new(seed).config);
            std::panic::resume_unwind(report);
        }
    }
}

#[test]
fn all_requests_end_and_nothing_is_held() {
    play_all(0..4000);
}

mod whole {
    #[test]
    #[ignore = "a minute: .ci/run runs it, and the short form is beside it"]
    fn all_requests_end_and_nothing_is_held() {
        super::play_all(4000..40_000);
    }
}

/// Requests, rules, and how likely each kind of event is.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) config: Config,
    pub(crate) requests: Requests,
    /// Weights of an arrival, the end of a group of layers, of a flow and of a step of decoding.
    pub(crate) weights: [u32; 4],
    /// Chance of a cancellation, in thousandths of an event.
    pub(crate) cancels: u32,
    /// Chance of the loss of an instance, in thousandths of an event.
    pub(crate) losses: u32,
}

fn pick<T: Copy>(random: &mut ChaCha8Rng, of: &[T]) -> T {
    of[random.random_range(0..of.len())]
}

impl Case {
    pub(crate) fn new(seed: u64) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let longest = pick(random, &[3, 20, 200]);
        let block_tokens = pick(random, &[1, 4, 16]);
        let list = (0..random.random_range(1..60)).map(|_| {
            let input_tokens = random.random_range(1..=longest);
            let blocks = random.random_range(0..=input_tokens / block_tokens);
            // Few conversations, so that prefixes are shared.
            let conversation = random.random_range(0..3_u64);
            let prefix = (0..blocks).map(|block| 1000 * conversation + u64::from(block)).collect();
            let output_tokens = pick(random, &[1, 2, 3, 10]);
            Request { arrival_s: 0.0, input_tokens, output_tokens, prefix }
        });
        let requests = Requests::new(list.collect(), block_tokens);
        // From less than the longest request to room for many.
        let kv = |random: &mut ChaCha8Rng| u64::from(longest) * pick(random, &[1, 2, 4, 40]) / 2 + 12;
        let config = Config {
            prefill: Pool { instances: random.random_range(1..4), kv_tokens: kv(random), sequences: 0 },
            decode: Pool {
                instances: random.random_range(1..4),
                kv_tokens: kv(random),
                sequences: pick(random, &[1, 2, 100]),
            },
            placement: pick(random, &Placement::ALL),
            moves: pick(random, &Move::ALL),
            first_token: pick(random, &FirstToken::ALL),
            layer_groups: random.random_range(1..4),
            chunk_tokens: pick(random, &[1, 7, 64, u32::MAX]),
            cached_blocks: pick(random, &[0, 5, 1000]),
        };
        let weights = std::array::from_fn(|_| pick(random, &[1, 3, 20]));
        let [cancels, losses] = pick(random, &[[0, 0], [0, 0], [20, 0], [0, 4], [100, 10]]);
        Self { config, requests, weights, cancels, losses }
    }
}

/// Lets things happen in any order that may be.
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
