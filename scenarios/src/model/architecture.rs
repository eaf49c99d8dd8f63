//! The sizes of a decoder-only transformer.

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

/// Attention of one layer.
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
        /// Heads.
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
    /// Routed experts.
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
    pub(crate) fn experts_of(&self, layer: u32) -> Option<&Experts> {
        self.experts.as_ref().filter(|_| layer >= self.dense_layers)
    }
}
