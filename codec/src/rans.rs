//! `rans`: exponents at their entropy, at some gigabytes per second. The project's own codec, behind `tiered` in speed and before it in size.
//!
//! Frames are those of `tiered`, with the same bases, masks and offsets of columns, but residuals are coded by rANS with a
//! table of the frame. Blocks to which the table does not fit are coded in tiers.

pub(crate) use crate::blocks::OPTIONS;
use crate::blocks::{self, Coding, MAX_ROW};
use crate::body::Body;
use crate::codec::Sealed;
use crate::options::Value;
use crate::pieces::Pieces;
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout};

/// Tag in frame headers.
pub(crate) const TAG: u8 = CODING.tag();
const CODING: Coding = Coding::Rans;

/// Exponents at their entropy by interleaved rANS: all types. Smaller than [`crate::Tiered`], and slower.
///
/// The spec is `rans`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rans {
    /// Values of a row; 0 if that is not known.
    row: u32,
}

impl Rans {
    /// Rows of unknown length.
    pub const fn new() -> Self {
        Self { row: 0 }
    }

    /// How many values a row (a token, an output channel) has, for offsets of columns, as the option `row` of specs. 0, or
    /// more than 16 777 216: that is not known.
    #[must_use]
    pub const fn row(mut self, values: u32) -> Self {
        self.row = if values <= MAX_ROW { values } else { 0 };
        self
    }
}

/// See [`crate::registry::Entry::build`].
pub(crate) fn build(chosen: &[Value]) -> Box<dyn Codec> {
    Box::new(Rans::new().row(chosen[0].number()))
}

/// See [`crate::registry::Entry::pieces`].
pub(crate) const PIECES: Pieces = blocks::pieces(CODING);

/// See [`crate::registry::Entry::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    blocks::decode(CODING, body, out)
}

impl Sealed for Rans {}

impl Codec for Rans {
    fn id(&self) -> &'static str {
        "rans"
    }

    fn supports(&self, _: DType) -> bool {
        true
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        blocks::static_len(CODING, shape)
    }

    fn bound(&self, shape: FrameShape) -> usize {
        blocks::bound(shape)
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
        let dynamic_out = &mut dynamic_out[..self.bound(shape) - static_out.len()];
        Ok(blocks::encode(CODING, shape, self.row, values, static_out, dynamic_out))
    }
}
