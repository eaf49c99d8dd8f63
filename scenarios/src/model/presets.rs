//! Published sizes of models.

use super::{Architecture, Attention, Experts};

/// Names and sizes. Sources: the papers, and the `config.json` that its authors publish with each model.
///
/// - DeepSeek-V3: arXiv:2412.19437, sec. 4.2. Its multi-token prediction module is not part of it here.
/// - Qwen3-235B-A22B: arXiv:2505.09388, table 2.
/// - Qwen3-32B: arXiv:2505.09388, table 1.
/// - Mixtral 8x7B: arXiv:2401.04088, table 1.
/// - Llama 3 8B and 70B: arXiv:2407.21783, table 3; the vocabulary with its special tokens.
pub(super) const PRESETS: [(&str, Architecture); 6] = [
    (
        "deepseek-v3",
        Architecture {
            layers: 61,
            dense_layers: 3,
            hidden: 7168,
            attention: Attention::Latent {
                heads: 128,
                query_rank: 1536,
                kv_rank: 512,
                head_size: 128,
                rotary_size: 64,
                value_size: 128,
            },
            intermediate: 18432,
            experts: Some(Experts { count: 256, top_k: 8, intermediate: 2048, shared: 1 }),
            vocabulary: 129_280,
        },
    ),
    (
        "qwen3-235b-a22b",
        Architecture {
            layers: 94,
            dense_layers: 0,
            hidden: 4096,
            attention: Attention::Grouped { heads: 64, kv_heads: 4, head_size: 128, has_norms: true },
            intermediate: 0,
            experts: Some(Experts { count: 128, top_k: 8, intermediate: 1536, shared: 0 }),
            vocabulary: 151_936,
        },
    ),
    (
        "qwen3-32b",
        Architecture {
            layers: 64,
            dense_layers: 64,
            hidden: 5120,
            attention: Attention::Grouped { heads: 64, kv_heads: 8, head_size: 128, has_norms: true },
            intermediate: 25600,
            experts: None,
            vocabulary: 151_936,
        },
    ),
    (
        "mixtral-8x7b",
        Architecture {
            layers: 32,
            dense_layers: 0,
            hidden: 4096,
            attention: Attention::Grouped { heads: 32, kv_heads: 8, head_size: 128, has_norms: false },
            intermediate: 0,
            experts: Some(Experts { count: 8, top_k: 2, intermediate: 14336, shared: 0 }),
            vocabulary: 32_000,
        },
    ),
    (
        "llama3-8b",
        Architecture {
            layers: 32,
            dense_layers: 32,
            hidden: 4096,
            attention: Attention::Grouped { heads: 32, kv_heads: 8, head_size: 128, has_norms: false },
            intermediate: 14336,
            experts: None,
            vocabulary: 128_256,
        },
    ),
    (
        "llama3-70b",
        Architecture {
            layers: 80,
            dense_layers: 80,
            hidden: 8192,
            attention: Attention::Grouped { heads: 64, kv_heads: 8, head_size: 128, has_norms: false },
            intermediate: 28672,
            experts: None,
            vocabulary: 128_256,
        },
    ),
];

/// The names of those that have experts, or of all.
pub(super) fn names(with_experts_only: bool) -> impl Iterator<Item = &'static str> {
    let fits = move |(_, model): &&(&str, Architecture)| model.experts.is_some() || !with_experts_only;
    PRESETS.iter().filter(fits).map(|(name, _)| *name)
}

/// The sizes of a name.
pub(super) fn find(name: &str) -> Option<&'static Architecture> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, model)| model)
}
