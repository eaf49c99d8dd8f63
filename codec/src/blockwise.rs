//! `blockwise`: byte groups in blocks by Huffman or as runs, after LMC (arXiv 2505.09810).

use crate::body::Body;
use crate::codec::Sealed;
use crate::groups::{self, Scheme};
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout};

const SCHEME: Scheme = Scheme::Blockwise;
/// Tag in frame headers.
pub(crate) const TAG: u8 = SCHEME.tag();

/// Bytes of the same significance together, each block of 64 KiB of them by a Huffman code of its own, as runs of equal bytes, or as it is
/// (LMC): all types.
///
/// The spec is `blockwise`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blockwise;

/// See [`crate::registry::Entry::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    groups::decode(SCHEME, body, out)
}

impl Sealed for Blockwise {}

impl Codec for Blockwise {
    fn id(&self) -> &'static str {
        "blockwise"
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
