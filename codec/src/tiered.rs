//! `tiered`: exponents in tiers of two bits, near entropy at the speed of memory. The project's own codec.
//!
//! Residuals are coded in one fixed order of distances: two bits name the three most
//! frequent ones or pass the value on to the next tier, four tiers in all, then a byte. Codes are kept as bit planes, and
//! where a value's codes are follows from counting bits: nothing in a block is serial but a prefix sum.
//!
//! It is not an entropy coder: on Gaussian values it takes 2.65 bits per exponent, where entropy allows 2.55.

pub(crate) use crate::blocks::OPTIONS;

use crate::blocks::{self, Coding, How, MAX_ROW};
use crate::codec::{Checked, EncodeChecked};
use crate::options::Value;
use crate::sections::{Body, Pieces};
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape};

/// Tag in frame headers.
pub(crate) const TAG: u8 = CODING.tag();
const CODING: Coding = Coding::Tiers;

/// Exponents in tiers of two bits, near their entropy at the speed of memory: all types. The default of
/// [`crate::compress`].
///
/// The spec is `tiered`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tiered {
    /// Values of a row; 0 if that is not known.
    row: u32,
}

impl Tiered {
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

/// See [`crate::registry::Of::build`].
pub(crate) fn build(chosen: &[Value]) -> Box<dyn Codec> {
    Box::new(Tiered::new().row(chosen[0].number()))
}

/// See [`crate::registry::Entry::pieces`].
pub(crate) const PIECES: Pieces = blocks::pieces(CODING);

/// See [`crate::registry::Of::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    blocks::decode(CODING, body, out)
}

impl EncodeChecked for Tiered {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        let Checked { shape, values, static_out, dynamic_out } = frame;
        let dynamic_out = &mut dynamic_out[..self.bound(shape) - static_out.len()];
        Ok(blocks::encode(
            CODING,
            shape,
            How { row: self.row, ..How::default() },
            values,
            static_out,
            dynamic_out,
        ))
    }
}

impl Codec for Tiered {
    fn id(&self) -> &'static str {
        "tiered"
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
}
