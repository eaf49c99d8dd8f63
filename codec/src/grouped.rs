//! `grouped`: byte groups by Huffman, zstd or neither, after ZipNN (arXiv 2411.05239).

use crate::body::Body;
use crate::codec::Sealed;
use crate::groups::{self, Scheme};
use crate::pieces::Pieces;
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout};

const SCHEME: Scheme = Scheme::Grouped;
/// Tag in frame headers.
pub(crate) const TAG: u8 = SCHEME.tag();

/// Bytes of the same significance together, exponents without the sign, each group of each 256 KiB by a Huffman code of its own, by zstd where
/// zeros repeat, or as it is (ZipNN): all types.
///
/// The spec is `grouped`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grouped;

/// See [`crate::registry::Entry::pieces`]: what is static is signs and mantissas.
pub(crate) const PIECES: Pieces = Pieces {
    piece: groups::chunk_values(SCHEME, DType::Bf16),
    front_len: |count| {
        groups::front_len(SCHEME, FrameShape { layout: Layout::Split, dtype: DType::Bf16, count })
    },
    static_body: |count| count,
    rest_at: |_| 0,
    tails: |front, _, count| groups::tails(SCHEME, front, count),
};

/// See [`crate::registry::Entry::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    groups::decode(SCHEME, body, out)
}

impl Sealed for Grouped {}

impl Codec for Grouped {
    fn id(&self) -> &'static str {
        "grouped"
    }

    fn supports(&self, _: DType) -> bool {
        true
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        groups::static_len(SCHEME, shape)
    }

    fn bound(&self, shape: FrameShape) -> usize {
        groups::bound(SCHEME, shape)
    }

    fn encode(
        &self,
        layout: Layout,
        dtype: DType,
        values: &[u8],
        static_out: &mut [u8],
        dynamic_out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let shape = crate::frame::check_buffers(self, layout, dtype, values, static_out, dynamic_out)?;
        Ok(groups::encode(SCHEME, shape, values, static_out, dynamic_out))
    }
}
