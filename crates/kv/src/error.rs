//! Errors of groups.

use zipwire_codec::{DType, DecodeError, EncodeError, SpecError};

use crate::{Geometry, VERSION};

/// Why a group is not made, or not decoded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum KvError {
    /// There is no such cache.
    #[error("a KV cache of {geometry}: {what}")]
    Geometry { geometry: Geometry, what: &'static str },
    /// The codec does not code the type.
    #[error("codec `{codec}` does not code `{dtype}`\nhelp: `tiered` and `rans` code all types")]
    Unsupported { codec: String, dtype: DType },
    /// The codec needs something beside the values.
    #[error(
        "codec `{codec}`: {source}\nhelp: groups are coded by codecs that need nothing else, such as `tiered`"
    )]
    Codec { codec: String, source: SpecError },
    /// Planes that are not those of a group.
    #[error("{found} planes, where a group of this cache has {expected}")]
    Planes { found: usize, expected: usize },
    /// A plane of no group.
    #[error(
        "a plane of {found} bytes: it has {row} bytes for a token, from 1 to {most} tokens, and all planes the same"
    )]
    PlaneLen { found: usize, row: usize, most: u32 },
    /// A layer that the cache does not have.
    #[error("layer {layer} of {layers}")]
    Layer { layer: u32, layers: u32 },
    /// A buffer that is too short.
    #[error("a buffer of {found} bytes, where a group of so many tokens can take {needed}")]
    Room { found: usize, needed: usize },
    /// The other end has another cache, or another codec.
    #[error(
        "the group is of a cache or a codec with the compatibility {found:#018x}, this end has {expected:#018x}\nhelp: compare both when a \
         connection begins"
    )]
    Incompatible { found: u64, expected: u64 },
    /// A group of another version.
    #[error(
        "the group has the format version {found}, this build reads version {VERSION}\nhelp: both ends take the same release of zipwire"
    )]
    Version { found: u8 },
    /// A group that nobody has written so.
    #[error("the group is damaged: {what}")]
    Damaged { what: &'static str },
    /// A frame that does not give the values that were encoded.
    #[error("the group is damaged: plane {plane}: {source}")]
    Decode { plane: usize, source: DecodeError },
    /// The codec refuses the values.
    #[error("cannot encode a plane: {0}")]
    Encode(#[from] EncodeError),
}
