//! What prefill and decode take, undisturbed.

use std::ops::Range;

/// Seconds of both phases on one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ComputeTime {
    /// Of prompts.
    pub prefill: PrefillTime,
    /// Of generated tokens.
    pub decode: DecodeTime,
}

/// Seconds of computing some tokens of a prompt: `step_s + tokens x token_s + pairs x pair_s`, where a pair is a token and one that it
/// attends to, itself among them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrefillTime {
    /// Of each chunk, whatever is in it.
    pub step_s: f64,
    /// Of each token.
    pub token_s: f64,
    /// Of each pair.
    pub pair_s: f64,
}

/// Seconds of a step in which each sequence of a batch gets a token:
/// `step_s + sequences x sequence_s + context tokens x context_token_s`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DecodeTime {
    /// Of each step: the weights are read.
    pub step_s: f64,
    /// Of each sequence.
    pub sequence_s: f64,
    /// Of each token of all sequences, whose keys and values are read.
    pub context_token_s: f64,
}

impl PrefillTime {
    /// Seconds of the tokens of a range; those before it are in the cache.
    pub fn seconds(&self, tokens: &Range<u32>) -> f64 {
        let count = f64::from(tokens.end - tokens.start);
        // Token i attends to i + 1 tokens.
        let pairs = count * f64::from(tokens.start) + count * (count + 1.0) / 2.0;
        self.step_s + count * self.token_s + pairs * self.pair_s
    }
}

impl DecodeTime {
    /// Seconds of a step.
    pub fn seconds(&self, sequences: u32, context_tokens: u64) -> f64 {
        self.step_s + f64::from(sequences) * self.sequence_s + context_tokens as f64 * self.context_token_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks attend to all that was computed before, so cutting a prompt saves and costs nothing but steps.
    #[test]
    fn chunks_have_the_pairs_of_the_whole() {
        let time = PrefillTime { step_s: 0.0, token_s: 3.0, pair_s: 2.0 };
        let whole = time.seconds(&(0..1000));
        assert_eq!(whole, 3000.0 + 2.0 * 500_500.0);
        assert_eq!(time.seconds(&(0..300)) + time.seconds(&(300..1000)), whole);
    }

    #[test]
    fn a_step_of_decoding_is_its_three_parts() {
        let time = DecodeTime { step_s: 1.0, sequence_s: 0.5, context_token_s: 0.25 };
        assert_eq!(time.seconds(4, 100), 1.0 + 2.0 + 25.0);
    }
}
