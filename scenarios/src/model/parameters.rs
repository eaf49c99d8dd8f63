//! How many parameters a model has.

use super::{Architecture, Attention};

/// Parameters of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerParameters {
    /// Attention with its norms, and the norm behind it.
    pub(crate) attention: u64,
    /// The router of the experts.
    pub(crate) gate: u64,
    /// The MLP, or the experts that every token goes to.
    pub(crate) mlp: u64,
    /// All routed experts.
    pub(crate) experts: u64,
}

impl LayerParameters {
    /// Parameters that every rank has under expert parallelism.
    pub(crate) fn dense(&self) -> u64 {
        self.attention + self.gate + self.mlp
    }

    /// All of them.
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

    /// All parameters.
    pub(crate) fn parameters(&self) -> u128 {
        let layers = (0..self.layers).map(|layer| u128::from(self.layer_parameters(layer).total()));
        layers.sum::<u128>() + u128::from(2 * self.vocabulary_parameters()) + u128::from(self.hidden)
    }

    /// Parameters of a gated MLP of this inner size.
    pub(super) fn mlp_matrices(&self, intermediate: u32) -> u64 {
        MLP_MATRICES * u64::from(self.hidden) * u64::from(intermediate)
    }
}

impl Attention {
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

    fn norms(&self) -> u64 {
        match *self {
            Self::Grouped { head_size, has_norms, .. } => 2 * u64::from(head_size) * u64::from(has_norms),
            Self::Latent { query_rank, kv_rank, .. } => u64::from(query_rank) + u64::from(kv_rank),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets::find;
    use super::*;

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
}
