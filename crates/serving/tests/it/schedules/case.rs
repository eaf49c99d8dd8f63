//! Parameters of a random schedule.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_serving::{Config, FirstToken, Move, Placement, Pool, Request, Requests};

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
