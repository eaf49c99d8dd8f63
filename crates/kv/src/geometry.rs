//! Geometry of the KV cache of one rank.

use std::fmt;

use zipwire_codec::DType;

use crate::KvError;

/// Most tokens of a group, unless [`Geometry::with_group_tokens`] says another number: those of a chunk of LMCache.
pub const GROUP_TOKENS: u32 = 256;
/// Most bytes that a plane of a group can have.
const PLANE_LIMIT: u64 = 1 << 30;

/// Order of the values of a page. Both ends must have the same; values are coded as they lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Token by token, in each head by head (`NHD`).
    #[default]
    Tokens,
    /// Head by head, in each token by token (`HND`).
    Heads,
}

impl Order {
    /// Its name in engines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "NHD",
            Self::Heads => "HND",
        }
    }
}

/// The KV cache that one rank has of a model: layers, and in each so many bytes for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    layers: u32,
    planes: u32,
    /// Heads of one plane.
    heads: u32,
    head_size: u32,
    dtype: DType,
    order: Order,
    group_tokens: u32,
}

impl Geometry {
    /// Keys and values of attention with `heads` heads of them, on this rank, and `head_size` values in each (MHA, GQA, MQA).
    ///
    /// # Errors
    /// [`KvError::Geometry`] if a number is zero, or a group would have more than a GiB of keys.
    pub fn grouped(layers: u32, heads: u32, head_size: u32, dtype: DType) -> Result<Self, KvError> {
        Self::of_planes(2, layers, [heads, head_size], dtype)
    }

    /// One latent of `size` values for each token (MLA: those of the compressed keys and values and of the rotary part, 512 + 64 in DeepSeek-V3).
    ///
    /// # Errors
    /// Errors of [`Self::grouped`].
    pub fn latent(layers: u32, size: u32, dtype: DType) -> Result<Self, KvError> {
        Self::of_planes(1, layers, [1, size], dtype)
    }

    /// With another order of values.
    #[must_use]
    pub fn with_order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// With another number of tokens that a group has at the most.
    ///
    /// # Errors
    /// Errors of [`Self::grouped`].
    pub fn with_group_tokens(self, group_tokens: u32) -> Result<Self, KvError> {
        Self { group_tokens, ..self }.checked()
    }

    /// Layers of the model.
    pub fn layers(&self) -> u32 {
        self.layers
    }

    /// Planes of a group, which are coded apart: two, keys and values, or the one of a latent.
    pub fn planes(&self) -> usize {
        self.planes as usize
    }

    /// Type of the values.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Most tokens of a group.
    pub fn group_tokens(&self) -> u32 {
        self.group_tokens
    }

    /// Values that a token has in a plane.
    pub fn row_values(&self) -> usize {
        self.heads as usize * self.head_size as usize
    }

    /// Bytes that a token has in a plane.
    pub fn row_len(&self) -> usize {
        self.row_values() * self.dtype.width()
    }

    fn of_planes(
        planes: u32,
        layers: u32,
        [heads, head_size]: [u32; 2],
        dtype: DType,
    ) -> Result<Self, KvError> {
        let (order, group_tokens) = (Order::default(), GROUP_TOKENS);
        Self { layers, planes, heads, head_size, dtype, order, group_tokens }.checked()
    }

    fn checked(self) -> Result<Self, KvError> {
        let Self { layers, heads, head_size, group_tokens, .. } = self;
        if [layers, heads, head_size, group_tokens].contains(&0) {
            return Err(KvError::Geometry { geometry: self, what: "a number in it is zero" });
        }
        let row = u64::from(heads) * u64::from(head_size);
        let plane = row.saturating_mul(u64::from(group_tokens) * self.dtype.width() as u64);
        if plane > PLANE_LIMIT {
            return Err(KvError::Geometry { geometry: self, what: "a group has more than 1 GiB of keys" });
        }
        Ok(self)
    }
}

impl fmt::Display for Geometry {
    /// Text that is hashed into the compatibility of both ends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layers, planes, heads, head_size, dtype, order, group_tokens } = self;
        let (dtype, order) = (dtype.name(), order.name());
        write!(
            f,
            "{layers} layers, {planes} planes, {heads} heads of {head_size} {dtype}, {order}, groups of {group_tokens}"
        )
    }
}
