//! Durations of prefill and decode, undisturbed; and how far an instance has come, while codecs and transfers take their part of its GPU.

use std::ops::Range;

use zipwire_cluster::{Progress, Slowdown};

/// Seconds of both phases on one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ComputeTime {
    /// Time of prompts.
    pub prefill: PrefillTime,
    /// Time of generated tokens.
    pub decode: DecodeTime,
}

/// Seconds of reading the weights of a model for some tokens: those that all of them need, and the routed experts that at least one of
/// them chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeightTime {
    /// Time of the weights that every token needs.
    pub common_s: f64,
    /// Time of all routed experts.
    pub experts_s: f64,
    /// Part of a layer's routed experts that one token chooses, from 0 to 1.
    pub chosen: f64,
}

/// Seconds of computing some tokens of a prompt: `step_s` and what is longer, `tokens x token_s + pairs x pair_s` or reading the weights,
/// where a pair is a token and one that it attends to, itself among them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrefillTime {
    /// Time of each chunk, whatever is in it.
    pub step_s: f64,
    /// Time of each token.
    pub token_s: f64,
    /// Time of each pair.
    pub pair_s: f64,
    /// Time of the weights, which are read once for all tokens.
    pub weights: WeightTime,
}

/// Seconds of a step in which each sequence of a batch gets a token: `step_s`, reading the weights, and
/// `sequences x sequence_s + context tokens x context_token_s`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DecodeTime {
    /// Time of each step, whatever is in it.
    pub step_s: f64,
    /// Time of each sequence.
    pub sequence_s: f64,
    /// Time of each token of all sequences, whose keys and values are read.
    pub context_token_s: f64,
    /// Time of the weights, for a token of each sequence.
    pub weights: WeightTime,
}

impl WeightTime {
    /// No time at all: for times that are stated and not computed.
    pub const NONE: Self = Self { common_s: 0.0, experts_s: 0.0, chosen: 0.0 };

    /// Seconds for so many tokens. They choose independently of one another, and every expert is as likely: one is not read with the
    /// probability `(1 - chosen)^tokens`, so this is the mean over what they may choose.
    pub fn seconds(&self, tokens: u32) -> f64 {
        self.common_s + self.experts_s * (1.0 - libm::pow(1.0 - self.chosen, f64::from(tokens)))
    }
}

impl PrefillTime {
    /// Seconds of the tokens of a range; those before it are in the cache.
    pub fn seconds(&self, tokens: &Range<u32>) -> f64 {
        let count = f64::from(tokens.end - tokens.start);
        // Token i attends to i + 1 tokens.
        let pairs = count * f64::from(tokens.start) + count * (count + 1.0) / 2.0;
        let weights_s = self.weights.seconds(tokens.end - tokens.start);
        self.step_s + (count * self.token_s + pairs * self.pair_s).max(weights_s)
    }
}

impl DecodeTime {
    /// Seconds of a step.
    pub fn seconds(&self, sequences: u32, context_tokens: u64) -> f64 {
        self.step_s
            + self.weights.seconds(sequences)
            + f64::from(sequences) * self.sequence_s
            + context_tokens as f64 * self.context_token_s
    }
}

/// Computation of an instance, or of one rank of it, and what disturbs it.
#[derive(Clone, Debug, Default)]
pub struct Computing {
    progress: Option<Progress>,
    /// Groups of layers that are left of a chunk, each with its seconds, the next one last.
    left_s: Vec<f64>,
    coding: u32,
    moving: u32,
    /// Events of earlier versions mean nothing.
    version: u32,
}

impl Computing {
    /// Begins with parts of so many seconds. Returns when the first one ends, and under which version.
    pub fn begin(&mut self, now_s: f64, mut parts_s: Vec<f64>, slowdown: &Slowdown) -> (f64, u32) {
        parts_s.reverse();
        self.left_s = parts_s;
        self.next(now_s, slowdown).expect("there is a part")
    }

    /// Begins with the next part, if there is one.
    pub fn next(&mut self, now_s: f64, slowdown: &Slowdown) -> Option<(f64, u32)> {
        self.version += 1;
        self.progress = None;
        let seconds = self.left_s.pop()?;
        let progress = Progress::begin(now_s, seconds, self.factor(slowdown));
        self.progress = Some(progress);
        Some((progress.end_s(), self.version))
    }

    /// Whether an event of this version is that of the part that is computed.
    pub fn is_current(&self, version: u32) -> bool {
        self.version == version && self.progress.is_some()
    }

    /// Takes in that coding or transfers have begun or ended. Returns the new end of the part, if it has another one.
    pub fn disturb(
        &mut self,
        now_s: f64,
        coding: i32,
        moving: i32,
        slowdown: &Slowdown,
    ) -> Option<(f64, u32)> {
        self.coding = self.coding.checked_add_signed(coding).expect("what ends has begun");
        self.moving = self.moving.checked_add_signed(moving).expect("what ends has begun");
        let factor = self.factor(slowdown);
        let progress = self.progress.as_mut()?;
        let before_s = progress.end_s();
        progress.change(now_s, factor);
        if progress.end_s() == before_s {
            return None;
        }
        self.version += 1;
        Some((progress.end_s(), self.version))
    }

    fn factor(&self, slowdown: &Slowdown) -> f64 {
        slowdown.factor(self.coding > 0, self.moving > 0)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Chunks attend to all that was computed before, so cutting a prompt saves and costs nothing but steps.
    #[test]
    fn chunks_have_the_pairs_of_the_whole() {
        let time = PrefillTime { token_s: 3.0, pair_s: 2.0, ..PrefillTime::default() };
        let whole = time.seconds(&(0..1000));
        assert_eq!(whole, 3000.0 + 2.0 * 500_500.0);
        assert_eq!(time.seconds(&(0..300)) + time.seconds(&(300..1000)), whole);
    }

    #[test]
    fn a_step_of_decoding_is_its_three_parts() {
        let time =
            DecodeTime { step_s: 1.0, sequence_s: 0.5, context_token_s: 0.25, ..DecodeTime::default() };
        assert_eq!(time.seconds(4, 100), 1.0 + 2.0 + 25.0);
    }

    /// Two of four experts: a second token meets those of the first in half of all cases, a third one what is left of that.
    #[test]
    fn experts_are_read_once_for_all_that_choose_them() {
        let weights = WeightTime { common_s: 1.0, experts_s: 8.0, chosen: 0.5 };
        assert_eq!([0, 1, 2, 3].map(|tokens| weights.seconds(tokens)), [1.0, 5.0, 7.0, 8.0]);
        assert_eq!(weights.seconds(10_000), 9.0);
        let all = WeightTime { chosen: 1.0, ..weights };
        assert_eq!(all.seconds(1), 9.0, "a token that goes to all");
    }

    /// Distinct experts of drawn choices, in the mean of many, are what the formula says.
    #[test]
    fn experts_are_as_many_as_tokens_that_are_drawn_choose() {
        let (experts, top_k, draws) = (64_usize, 6_usize, 4000);
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for tokens in [1, 2, 8, 40] {
            let mut chosen = 0;
            for _ in 0..draws {
                let mut is_read = vec![false; experts];
                for _ in 0..tokens {
                    let mut list: Vec<usize> = (0..experts).collect();
                    for place in 0..top_k {
                        list.swap(place, random.random_range(place..experts));
                        is_read[list[place]] = true;
                    }
                }
                chosen += is_read.iter().filter(|&&is_read| is_read).count();
            }
            let share = top_k as f64 / experts as f64;
            let weights = WeightTime { common_s: 0.0, experts_s: experts as f64, chosen: share };
            let mean = f64::from(chosen as u32) / f64::from(draws);
            assert!((mean / weights.seconds(tokens) - 1.0).abs() < 0.01, "{tokens}: {mean}");
        }
    }

    /// A few tokens wait for the weights, many for the operations.
    #[test]
    fn prefill_takes_at_least_as_long_as_reading_the_weights() {
        let weights = WeightTime { common_s: 10.0, experts_s: 6.0, chosen: 0.5 };
        let time = PrefillTime { step_s: 1.0, token_s: 2.0, pair_s: 0.0, weights };
        assert_eq!(time.seconds(&(5..6)), 1.0 + 13.0);
        assert_eq!(time.seconds(&(0..2)), 1.0 + 14.5);
        assert_eq!(time.seconds(&(0..100)), 1.0 + 200.0);
    }
}
