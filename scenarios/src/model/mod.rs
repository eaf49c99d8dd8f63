//! `model`: how large a model is, what its layers compute, and what of it a rank holds.
//!
//! [`Layer`] is one mixture-of-experts layer, as far as its All-to-Alls are concerned: all that workload `moe` needs.
//! [`Architecture`] is a whole decoder, for workloads that describe a training iteration. Both take published sizes from
//! the same presets.

mod architecture;
mod fit;
mod moe_layer;
mod read;

pub(crate) use architecture::{Architecture, Attention, Experts, Tokens};
pub(crate) use fit::{check_heads, check_memory};
pub(crate) use moe_layer::Layer;
pub(crate) use read::{Needs, read, schema};

/// Names of the published models that `model` knows; with `with_experts_only`, of those with mixture-of-experts layers.
pub fn model_presets(with_experts_only: bool) -> impl Iterator<Item = &'static str> + Clone {
    read::presets(with_experts_only)
}

/// Bytes of a BF16 value.
pub(crate) const VALUE_BYTES: u64 = 2;
/// Most experts: counts are kept for each pair of rank and expert, 512 MiB at this size and the most ranks.
pub(crate) const EXPERT_LIMIT: u32 = 4096;
/// Most values per token.
const HIDDEN_LIMIT: u32 = 1 << 20;
/// Most tokens per rank.
pub(crate) const TOKEN_LIMIT: u64 = 1 << 24;
