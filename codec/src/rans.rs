//! `rans`: exponents at their entropy, at some gigabytes per second. The project's own codec, behind `tiered` in speed and before it in size.
//!
//! Frames are those of `tiered`, with the same bases, masks and offsets of columns, but residuals are coded by rANS with a
//! table of the frame. Blocks to which the table does not fit are coded in tiers.

use crate::blocks::{self, Coding, How, MAX_ROW};
use crate::body::Body;
use crate::codec::Sealed;
use crate::options::{Choice, Value, Values};
use crate::pieces::Pieces;
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout};

/// Tag in frame headers.
pub(crate) const TAG: u8 = CODING.tag();
const CODING: Coding = Coding::Rans;

/// Exponents at their entropy by interleaved rANS: all types. Smaller than [`crate::Tiered`], and slower.
///
/// The specs are `rans` and `rans:mantissa=2`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rans {
    /// Values of a row; 0 if that is not known.
    row: u32,
    /// Whether exponents are coded together with the two highest bits of mantissas.
    mantissa: bool,
}

impl Rans {
    /// Rows of unknown length.
    pub const fn new() -> Self {
        Self { row: 0, mantissa: false }
    }

    /// How many values a row (a token, an output channel) has, for offsets of columns, as the option `row` of specs. 0, or
    /// more than 16 777 216: that is not known.
    #[must_use]
    pub const fn row(mut self, values: u32) -> Self {
        self.row = if values <= MAX_ROW { values } else { 0 };
        self
    }

    /// Codes exponents together with the two highest bits of mantissas, as the option `mantissa=2` of specs: these are not uniform, and less
    /// so in some octaves than in others. Smaller, by half a point with BF16 and more with F16, and slower. FP8 is always coded so. It
    /// makes no difference in the split layout, where lengths must not depend on values, and with F32.
    #[must_use]
    pub const fn with_mantissa(mut self, together: bool) -> Self {
        self.mantissa = together;
        self
    }
}

/// Names of bits of mantissas that are coded together with exponents.
const MANTISSA_BITS: &[&str] = &["0", "2"];

/// `row`, as with `tiered`, and `mantissa`: how many bits of mantissas are coded together with exponents.
pub(crate) const OPTIONS: &[Choice] =
    &[blocks::ROW_CHOICE, Choice { key: "mantissa", values: Values::Names(MANTISSA_BITS) }];

/// See [`crate::registry::Entry::build`].
pub(crate) fn build(chosen: &[Value]) -> Box<dyn Codec> {
    Box::new(Rans::new().row(chosen[0].number()).with_mantissa(chosen[1].name() == MANTISSA_BITS[1]))
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
        let how = How { row: self.row, mantissa: self.mantissa };
        Ok(blocks::encode(CODING, shape, how, values, static_out, dynamic_out))
    }
}
