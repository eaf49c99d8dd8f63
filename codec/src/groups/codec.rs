//! The two codecs of byte groups, which are the same but for their [`Scheme`].

use super::{Scheme, bound, chunk_values, decode, encode, front_len, static_len, tails};
use crate::body::Body;
use crate::codec::Sealed;
use crate::pieces::Pieces;
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, frame};

/// Bytes of the same significance together, exponents without the sign, each group of each 256 KiB by a Huffman code of its own, by zstd where
/// zeros repeat, or as it is (ZipNN): all types.
///
/// The spec is `grouped`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grouped;

/// Bytes of the same significance together, each block of 64 KiB of them by a Huffman code of its own, as runs of equal bytes, or as it is
/// (LMC): all types.
///
/// The spec is `blockwise`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blockwise;

/// See [`crate::registry::Entry::pieces`]: what is static in frames of `grouped` is signs and mantissas.
pub(crate) const GROUPED_PIECES: Pieces = Pieces {
    piece: chunk_values(Scheme::Grouped, DType::Bf16),
    front_len: |count| {
        front_len(Scheme::Grouped, FrameShape { layout: Layout::Split, dtype: DType::Bf16, count })
    },
    static_body: |count| count,
    rest_at: |_| 0,
    tails: |front, _, count| tails(Scheme::Grouped, front, count),
};

/// See [`crate::registry::Entry::decode`].
pub(crate) fn decode_grouped(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    decode(Scheme::Grouped, body, out)
}

/// See [`crate::registry::Entry::decode`].
pub(crate) fn decode_blockwise(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    decode(Scheme::Blockwise, body, out)
}

/// A codec is what its scheme says. A blanket implementation would be in the way of that for boxes.
macro_rules! codec_of {
    ($codec:ident) => {
        impl Sealed for $codec {}

        impl Codec for $codec {
            fn id(&self) -> &'static str {
                Scheme::$codec.id()
            }

            fn supports(&self, _: DType) -> bool {
                true
            }

            fn static_len(&self, shape: FrameShape) -> usize {
                static_len(Scheme::$codec, shape)
            }

            fn bound(&self, shape: FrameShape) -> usize {
                bound(Scheme::$codec, shape)
            }

            fn encode(
                &self,
                layout: Layout,
                dtype: DType,
                values: &[u8],
                static_out: &mut [u8],
                dynamic_out: &mut [u8],
            ) -> Result<usize, EncodeError> {
                let shape = frame::check_buffers(self, layout, dtype, values, static_out, dynamic_out)?;
                Ok(encode(Scheme::$codec, shape, values, static_out, dynamic_out))
            }
        }
    };
}

codec_of!(Grouped);
codec_of!(Blockwise);
