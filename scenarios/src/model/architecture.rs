//! The sizes of a decoder-only transformer, its parameters and its operations.

/// A decoder: an embedding, equal layers in a row, and a head.
///
/// Every layer has attention, and behind it either an MLP or experts. MLPs and experts have a gate (SwiGLU), so three
/// matrices each; norms are RMS norms; embedding and head are matrices of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Architecture {
    /// Layers, at least 1.
    pub(crate) layers: u32,
    /// The first of them, which have an MLP; the others have experts.
    pub(crate) dense_layers: u32,
    /// Values per token.
    pub(crate) hidden: u32,
    pub(crate) attention: Attention,
    /// Inner size of the MLP; 0 if no layer has one.
    pub(crate) intermediate: u32,
    /// `None` if no layer has experts.
    pub(crate) experts: Option<Experts>,
    /// Tokens that there are; 0 leaves embedding and head out.
    pub(crate) vocabulary: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    /// Grouped queries; as many groups as heads is plain multi-head attention.
    Grouped {
        /// Heads of queries.
        heads: u32,
        /// Heads of keys, and of values.
        kv_heads: u32,
        /// Values of a head.
        head_size: u32,
        /// Whether queries and keys are normalised, with weights that the heads share.
        has_norms: bool,
    },
    /// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, sec. 2.1).
    Latent {
        heads: u32,
        /// Values of the compressed queries.
        query_rank: u32,
        /// Values of the compressed keys and values.
        kv_rank: u32,
        /// Values of a head's query and key without position.
        head_size: u32,
        /// Values of a head's query and of the shared key with rotary position.
        rotary_size: u32,
        /// Values of a head's value.
        value_size: u32,
    },
}

/// The experts of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Experts {
    pub(crate) count: u32,
    /// Routed experts that each token goes to.
    pub(crate) top_k: u32,
    /// Inner size of each expert.
    pub(crate) intermediate: u32,
    /// Experts besides, which every token goes to where it is.
    pub(crate) shared: u32,
}

impl Architecture {
    /// The experts of a layer, counted from 0; `None` if it has an MLP.
    fn experts_of(&self, layer: u32) -> Option<&Experts> {
        self.experts.as_ref().filter(|_| layer >= self.dense_layers)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerParameters {
    /// Attention with its norms, and the norm behind it.
    pub(crate) attention: u64,
    pub(crate) gate: u64,
    /// The MLP, or the experts that every token goes to.
    pub(crate) mlp: u64,
    pub(crate) experts: u64,
}

impl LayerParameters {
    /// Parameters that every rank has under expert parallelism.
    pub(crate) fn dense(&self) -> u64 {
        self.attention + self.gate + self.mlp
    }

    pub(crate) fn total(&self) -> u64 {
        self.dense() + self.experts
    }
}

/// Matrices of a gated MLP: in, gate and out.
const MLP_MATRICES: u64 = 3;

impl Architecture {
    /// Parameters of a layer, counted from 0.
    pub(crate) fn layer_parameters(&self, layer: u32) -> LayerParameters {
        let hidden = u64::from(self.hidden);
        let attention = self.attention.matrices(hidden) + self.attention.norms() + 2 * hidden;
        match self.experts_of(layer) {
            None => {
                LayerParameters { attention, gate: 0, mlp: self.mlp_matrices(self.intermediate), experts: 0 }
            }
            Some(experts) => LayerParameters {
                attention,
                gate: hidden * u64::from(experts.count),
                mlp: u64::from(experts.shared) * self.mlp_matrices(experts.intermediate),
                experts: u64::from(experts.count) * self.mlp_matrices(experts.intermediate),
            },
        }
    }

    /// Parameters of the embedding and of the head, each; 0 if they are left out.
    pub(crate) fn vocabulary_parameters(&self) -> u64 {
        u64::from(self.vocabulary) * u64::from(self.hidden)
    }

    /// Parameters of the routed experts of all layers.
    pub(crate) fn expert_parameters(&self) -> u128 {
        (0..self.layers).map(|layer| u128::from(self.layer_parameters(layer).experts)).sum()
    }

    pub(crate) fn parameters(&self) -> u128 {
        let layers = (0..self.layers).map(|layer| u128::from(self.layer_parameters(layer).total()));
        layers.sum::<u128>() + u128::from(2 * self.vocabulary_parameters()) + u128::from(self.hidden)
    }

    /// Parameters of a gated MLP of this inner size.
    fn mlp_matrices(&self, intermediate: u32) -> u64 {
        MLP_MATRICES * u64::from(self.hidden) * u64::from(intermediate)
    }
}

impl Attention {
    /// Heads of queries.
    pub(crate) fn heads(&self) -> u32 {
        match *self {
            Self::Grouped { heads, .. } | Self::Latent { heads, .. } => heads,
        }
    }

    /// Parameters of the projections.
    pub(super) fn matrices(&self, hidden: u64) -> u64 {
        match *self {
            Self::Grouped { heads, kv_heads, head_size, .. } => {
                let [heads, kv_heads, head_size] = [heads, kv_heads, head_size].map(u64::from);
                hidden * 2 * (heads + kv_heads) * head_size
            }
            Self::Latent { heads, query_rank, kv_rank, head_size, rotary_size, value_size } => {
                let [heads, query_rank, kv_rank] = [heads, query_rank, kv_rank].map(u64::from);
                let [head_size, rotary_size, value_size] =
                    [head_size, rotary_size, value_size].map(u64::from);
                let queries = hidden * query_rank + query_rank * heads * (head_size + rotary_size);
                let keys_and_values =
                    hidden * (kv_rank + rotary_size) + kv_rank * heads * (head_size + value_size);
                queries + keys_and_values + heads * value_size * hidden
            }
        }
    }

    /// Values of a token's keys and values that other tokens need, of a rank that shares heads with others; each has one of keys and values at least, and all of
    /// what is latent.
    pub(crate) fn cached_values(&self, ranks: u32) -> u64 {
        match *self {
            Self::Grouped { kv_heads, head_size, .. } => {
                2 * u64::from(kv_heads.div_ceil(ranks)) * u64::from(head_size)
            }
            Self::Latent { kv_rank, rotary_size, .. } => u64::from(kv_rank) + u64::from(rotary_size),
        }
    }

    fn norms(&self) -> u64 {
        match *self {
            Self::Grouped { head_size, has_norms, .. } => 2 * u64::from(head_size) * u64::from(has_norms),
            Self::Latent { query_rank, kv_rank, .. } => u64::from(query_rank) + u64::from(kv_rank),
        }
    }
}

// Only matrix products count: two operations per multiplication and addition. Norms, activations, softmax and routing are
// bound by memory; what they cost is a matter of floors (`[compute] floor_forward`). A backward pass takes twice the
// operations of the forward pass: gradients of inputs and of weights.

/// Tokens of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// Tokens of a sequence.
    pub(crate) sequence: u64,
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

    pub(crate) fn head_flops(&self, tokens: Tokens) -> f64 {
        PER_WEIGHT * tokens.total() as f64 * self.vocabulary_parameters() as f64
    }
}

impl Attention {
    /// Queries times keys and weights times values of one sequence. Causal: each token looks at half of them, on average.
    pub(crate) fn score_flops(&self, sequence: f64) -> f64 {
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
    use super::*;
    use crate::model::read::find;

    fn preset(name: &str) -> &'static Architecture {
        find(name).unwrap()
    }

    /// Parameters that a token meets.
    fn active(model: &Architecture) -> u128 {
        let idle = |layer| match model.experts_of(layer) {
            Some(experts) => {
                u64::from(experts.count - experts.top_k) * model.mlp_matrices(experts.intermediate)
            }
            None => 0,
        };
        model.parameters() - (0..model.layers).map(|layer| u128::from(idle(layer))).sum::<u128>()
    }

    /// The counts of the published checkpoints, value by value.
    #[test]
    fn counts_are_those_of_the_checkpoints() {
        assert_eq!(preset("llama3-8b").parameters(), 8_030_261_248);
        assert_eq!(preset("llama3-70b").parameters(), 70_553_706_496);
        assert_eq!(preset("llama3-405b").parameters(), 405_853_388_800);
        assert_eq!(preset("mixtral-8x7b").parameters(), 46_702_792_704);
        assert_eq!(preset("qwen3-235b-a22b").parameters(), 235_093_634_560);
    }

    /// Sizes that the models' papers state, to the last digit that they give.
    #[test]
    fn sizes_are_those_of_the_papers() {
        for (name, total_e9, active_e9, digit) in [
            ("deepseek-v3", 671.0, 37.0, 1.0),
            ("qwen3-235b-a22b", 235.0, 22.0, 1.0),
            ("qwen3-32b", 32.8, 32.8, 0.1),
            ("mixtral-8x7b", 46.7, 12.9, 0.1),
            ("llama3-8b", 8.03, 8.03, 0.01),
            ("llama3-70b", 70.6, 70.6, 0.1),
        ] {
            let model = preset(name);
            let billions = |count: u128| count as f64 / 1e9;
            let (total, active) = (billions(model.parameters()), billions(active(model)));
            assert!((total - total_e9).abs() <= 0.5 * digit, "{name}: {total}");
            // Papers round, and do not say whether an embedding, which is only looked up, is active.
            assert!((active - active_e9).abs() <= digit, "{name}: {active}");
        }
    }

    #[test]
    fn a_layer_of_llama_gathers_what_zipccl_reports() {
        let layer = preset("llama3-8b").layer_parameters(7);
        assert_eq!(layer.total(), 218_112_000);
        assert_eq!(layer.dense(), layer.total());
    }

    #[test]
    fn the_first_layers_of_deepseek_have_no_experts() {
        let model = preset("deepseek-v3");
        assert_eq!(model.layer_parameters(2).experts, 0);
        assert_eq!(model.layer_parameters(2).mlp, 3 * 7168 * 18432);
        assert_eq!(model.layer_parameters(3).mlp, 3 * 7168 * 2048, "one shared expert");
        assert_eq!(model.layer_parameters(3).experts, 256 * 3 * 7168 * 2048);
        // The projections of latent attention, written out: down, up, down with the rotary key, up, out.
        let projections = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168;
        assert_eq!(model.layer_parameters(0).attention, projections + 1536 + 512 + 2 * 7168);
    }

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
