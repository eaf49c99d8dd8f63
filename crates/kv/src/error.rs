//! What can go wrong with a group.

use zipwire_codec::{DType, DecodeError, EncodeError, SpecError};

use crate::{Geometry, VERSION};

/// Why a group is not made, or not decoded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    /// There is no such cache.
    #[error("a KV cache of {geometry}: {what}")]
    Geometry {
        /// What was asked for.
        geometry: Geometry,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The codec does not code the type.
    #[error("codec `{codec}` does not code `{dtype}`\nhelp: `tiered` and `rans` code all types")]
    Unsupported {
        /// The codec.
        codec: String,
        /// Type of the cache.
        dtype: DType,
    },
    /// The codec needs something beside the values.
    #[error(
        "codec `{codec}`: {source}\nhelp: groups are coded by codecs that need nothing else, such as `tiered`"
    )]
    Codec {
        /// The codec.
        codec: String,
        /// What it lacks.
        source: SpecError,
    },
    /// Planes that are not those of a group.
    #[error("{found} planes, where a group of this cache has {expected}")]
    Planes {
        /// How many were given.
        found: usize,
        /// How many there are.
        expected: usize,
    },
    /// A plane of no group.
    #[error(
        "a plane of {found} bytes: it has {row} bytes for a token, from 1 to {most} tokens, and all planes the same"
    )]
    PlaneLen {
        /// Its length.
        found: usize,
        /// Bytes of a token.
        row: usize,
        /// Most tokens of a group.
        most: u32,
    },
    /// A layer that the cache does not have.
    #[error("layer {layer} of {layers}")]
    Layer {
        /// Which layer, from 0.
        layer: u32,
        /// How many there are.
        layers: u32,
    },
    /// A buffer that is too short.
    #[error("a buffer of {found} bytes, where a group of so many tokens can take {needed}")]
    Room {
        /// Its length.
        found: usize,
        /// What [`KvCodec::bound`](crate::KvCodec::bound) says.
        needed: usize,
    },
    /// The other end has another cache, or another codec.
    #[error(
        "the group is of a cache or a codec with the compatibility {found:#018x}, this end has {expected:#018x}\nhelp: compare both when a \
         connection begins"
    )]
    Incompatible {
        /// What the group says.
        found: u64,
        /// That of this end.
        expected: u64,
    },
    /// A group of another version.
    #[error(
        "the group has the format version {found}, this build reads version {VERSION}\nhelp: both ends take the same release of zipwire"
    )]
    Version {
        /// Which version.
        found: u8,
    },
    /// A group that nobody has written so.
    #[error("the group is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
    /// A frame that does not give the values that were encoded.
    #[error("the group is damaged: plane {plane}: {source}")]
    Decode {
        /// Which plane.
        plane: usize,
        /// What is wrong.
        source: DecodeError,
    },
    /// The codec refuses the values.
    #[error("cannot encode a plane: {0}")]
    Encode(#[from] EncodeError),
}
