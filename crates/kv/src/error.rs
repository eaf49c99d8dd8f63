//! Errors of groups.

use zipwire_codec::{DType, DecodeError, EncodeError, SpecError};

use crate::{Geometry, VERSION};

/// Why a group is not made, or not decoded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum KvError {
    #[error("a KV cache of {geometry}: {what}")]
    Geometry { geometry: Geometry, what: &'static str },
    #[error("codec `{codec}` does not code `{dtype}`\nhelp: `tiered` and `rans` code all types")]
    Unsupported { codec: String, dtype: DType },
    #[error(
        "codec `{codec}`: {source}\nhelp: groups are coded by codecs that need nothing else, such as `tiered`"
    )]
    Codec { codec: String, source: SpecError },
    #[error("{found} planes, where a group of this cache has {expected}")]
    Planes { found: usize, expected: usize },
    #[error(
        "a plane of {found} bytes: it has {row} bytes for a token, from 1 to {most} tokens, and all planes the same"
    )]
    PlaneLen { found: usize, row: usize, most: u32 },
    #[error("layer {layer} of {layers}")]
    Layer { layer: u32, layers: u32 },
    #[error("a buffer of {found} bytes, where a group of so many tokens can take {needed}")]
    Room { found: usize, needed: usize },
    #[error(
        "the group is of a cache or a codec with the compatibility {found:#018x}, this end has {expected:#018x}\nhelp: compare both when a \
         connection begins"
    )]
    Incompatible { found: u64, expected: u64 },
    #[error(
        "the group has the format version {found}, this build reads version {VERSION}\nhelp: both ends take the same release of zipwire"
    )]
    Version { found: u8 },
    #[error("the group is damaged: {what}")]
    Damaged { what: &'static str },
    /// A frame that does not give the values that were encoded.
    #[error("the group is damaged: plane {plane}: {source}")]
    Decode { plane: usize, source: DecodeError },
    #[error("cannot encode a plane: {0}")]
    Encode(#[from] EncodeError),
}
