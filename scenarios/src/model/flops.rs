//! How many floating-point operations a model takes.
//!
//! Only matrix products count: two operations per multiplication and addition. Norms, activations, softmax and routing are
//! bound by memory; what they cost is a matter of floors (`[compute] floor_forward`). A backward pass takes twice the
//! operations of the forward pass: gradients of inputs and of weights.

use super::{Architecture, Attention};

/// Tokens of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// Tokens of a sequence.
    pub(crate) sequence: u64,
    /// Sequences at a time.
    pub(crate) sequences: u64,
}

impl Tokens {
    pub(crate) fn total(self) -> u64 {
        self.sequence * self.sequences
    }
}

/// Operations of the forward pass of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LayerFlops {
    pub(crate) attention: f64,
    /// The router of the experts.
    pub(crate) gate: f64,
    /// The MLP, or the experts that every token goes to.
    pub(crate) mlp: f64,
    /// Routed experts: all copies of all tokens.
    pub(crate) experts: f64,
}

impl LayerFlops {
    /// FLOPs of a rank for its own tokens under expert parallelism.
    pub(crate) fn dense(&self) -> f64 {
        self.attention + self.gate + self.mlp
    }

    /// All of them.
    pub(crate) fn total(&self) -> f64 {
        self.dense() + self.experts
    }
}

/// FLOPs of serving one token: see [`Architecture::token_flops`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TokenFlops {
    pub(crate) token: f64,
    pub(crate) pair: f64,
}

/// A multiplication and an addition.
const PER_WEIGHT: f64 = 2.0;

impl Architecture {
    /// Operations of a layer, counted from 0.
    pub(crate) fn layer_flops(&self, layer: u32, tokens: Tokens) -> LayerFlops {
        let count = tokens.total() as f64;
        let product = |weights: u64| PER_WEIGHT * count * weights as f64;
        let scores = tokens.sequences as f64 * self.attention.score_flops(tokens.sequence as f64);
        let attention = product(self.attention.matrices(self.hidden.into())) + scores;
        match self.experts_of(layer) {
            None => LayerFlops {
                attention,
                gate: 0.0,
                mlp: product(self.mlp_matrices(self.intermediate)),
                experts: 0.0,
            },
            Some(experts) => {
                let expert = self.mlp_matrices(experts.intermediate);
                LayerFlops {
                    attention,
                    gate: product(u64::from(self.hidden) * u64::from(experts.count)),
                    mlp: product(u64::from(experts.shared) * expert),
                    experts: product(u64::from(experts.top_k) * expert),
                }
            }
        }
    }

    /// Operations of all layers for each token without scores, and for each pair of a token and one that it attends to. The head is
    /// left out: in serving, only the last token of a prompt needs it.
    pub(crate) fn token_flops(&self) -> TokenFlops {
        let one = Tokens { sequence: 1, sequences: 1 };
        // By the formula of scores one token has half a pair.
        let pair = 2.0 * f64::from(self.layers) * self.attention.score_flops(1.0);
        let all: f64 = (0..self.layers).map(|layer| self.layer_flops(layer, one).total()).sum();
        TokenFlops { token: all - pair / 2.0, pair }
    }

    /// Operations of the head.
    pub(crate) fn head_flops(&self, tokens: Tokens) -> f64 {
        PER_WEIGHT * tokens.total() as f64 * self.vocabulary_parameters() as f64
    }
}

impl Attention {
    /// Queries times keys and weights times values of one sequence. Causal: each token looks at half of them, on average.
    fn score_flops(&self, sequence: f64) -> f64 {
        let per_pair = match *self {
            Self::Grouped { heads, head_size, .. } => f64::from(heads) * 2.0 * f64::from(head_size),
            Self::Latent { heads, head_size, rotary_size, value_size, .. } => {
                f64::from(heads) * (f64::from(head_size) + f64::from(rotary_size) + f64::from(value_size))
            }
        };
        PER_WEIGHT * per_pair * sequence * sequence / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets::find;
    use super::*;

    const TOKENS: Tokens = Tokens { sequence: 1024, sequences: 1 };

    /// Two operations per token and parameter, the usual estimate, without what is only looked up, added or attended to.
    #[test]
    fn a_token_costs_twice_the_parameters_that_it_meets() {
        let model = find("llama3-8b").unwrap();
        let layers: f64 = (0..32).map(|layer| model.layer_flops(layer, TOKENS).total()).sum();
        let flops = layers + model.head_flops(TOKENS);
        let parameters = model.parameters() as f64 - model.vocabulary_parameters() as f64;
        let ratio = flops / (2.0 * 1024.0 * parameters);
        // Scores add 2 x 4096 x 512 x 2 operations per token and layer, 1.8 % of the model.
        assert!((ratio - 1.018).abs() < 0.001, "{ratio}");
    }

    /// Four operations for each value of the heads of a pair, and two for each parameter of a matrix.
    #[test]
    fn tokens_and_pairs_are_apart() {
        let flops = find("llama3-8b").unwrap().token_flops();
        assert_eq!(flops.pair, 32.0 * 4.0 * 4096.0);
        assert_eq!(flops.token, 32.0 * 2.0 * (218_112_000.0 - 2.0 * 4096.0));
    }

    #[test]
    fn experts_cost_what_their_copies_cost() {
        let layer = find("deepseek-v3").unwrap().layer_flops(30, TOKENS);
        assert_eq!(layer.experts, 2.0 * 1024.0 * 8.0 * 3.0 * 7168.0 * 2048.0);
        assert_eq!(layer.mlp * 8.0, layer.experts, "one shared expert beside eight routed ones");
        assert_eq!(layer.gate, 2.0 * 1024.0 * 7168.0 * 256.0);
    }

    #[test]
    fn scores_grow_with_the_square_of_a_sequence_and_products_with_the_tokens() {
        let model = find("mixtral-8x7b").unwrap();
        let flops = |sequence, sequences| model.layer_flops(0, Tokens { sequence, sequences });
        let (short, long) = (flops(1024, 2), flops(2048, 1));
        assert_eq!(short.experts, long.experts);
        // 32 heads of 128 values: scores of 2048 tokens, less two times those of 1024.
        let scores = |n: f64| 2.0 * 32.0 * 256.0 * n * n / 2.0;
        assert_eq!(long.attention - short.attention, scores(2048.0) - 2.0 * scores(1024.0));
    }

    /// Latent attention has heads of 192 values for scores and of 128 for values.
    #[test]
    fn latent_attention_counts_both_widths() {
        let model = find("deepseek-v3").unwrap();
        let flops = |sequence, sequences| model.layer_flops(0, Tokens { sequence, sequences }).attention;
        let scores = |n: f64| 2.0 * 128.0 * (192.0 + 128.0) * n * n / 2.0;
        assert_eq!(flops(4, 1) - flops(2, 2), scores(4.0) - 2.0 * scores(2.0));
    }
}
