//! `rans`: exponents at their entropy, at some gigabytes per second. The project's own codec, behind `tiered` in speed and before it in size.
//!
//! Frames are those of `tiered`, with the same bases, masks and offsets of columns, but residuals are coded by rANS with a
//! table of the frame. Blocks to which the table does not fit are coded in tiers.

use crate::blocks::{self, Coding, How, MAX_ROW, Shared};
use crate::codec::{Checked, EncodeChecked};
use crate::options::{self, Choice, Value, Values};
use crate::sections::{Body, Pieces, TableFns};
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, Table, TableUsage};

/// Tag in frame headers.
pub(crate) const TAG: u8 = CODING.tag();
const CODING: Coding = Coding::Rans;

/// Exponents at their entropy by interleaved rANS: all types. Smaller than [`crate::Tiered`], and slower.
///
/// The specs are `rans`, `rans:mantissa=2` and, with a table that many frames share, `rans:table=ID`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rans {
    /// Values of a row; 0 if that is not known.
    row: u32,
    /// Whether exponents are coded together with the two highest bits of mantissas.
    mantissa: bool,
    /// The table of all frames; none if each has its own.
    shared: Option<Shared>,
}

impl Rans {
    /// Rows of unknown length.
    pub const fn new() -> Self {
        Self { row: 0, mantissa: false, shared: None }
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

    /// One table for all frames ([`crate::Spec::train`]), which name it by its id instead of carrying theirs: they are read by a
    /// [`crate::Decoder`] that has it. The codec then supports the type of the table only.
    ///
    /// Frames are shorter by the 56 or 104 bytes of a table, no sample is taken of their values, and those that are too short for a table of their own are
    /// coded by this one. A frame whose blocks are all shorter without it carries its own, or none, as does each in the split layout if the table is one of
    /// exponents with bits of mantissas.
    ///
    /// # Errors
    /// [`DecodeError::Table`] if it is no table of this codec.
    pub fn shared_table(mut self, table: &Table) -> Result<Self, DecodeError> {
        self.shared = Some(Shared::read(table)?);
        Ok(self)
    }
}

/// Names of bits of mantissas that are coded together with exponents.
const MANTISSA_BITS: &[&str] = &["0", "2"];

/// `row`, as with `tiered`; `mantissa`: how many bits of mantissas are coded together with exponents; and `table`.
pub(crate) const OPTIONS: &[Choice] =
    &[blocks::ROW_CHOICE, Choice { key: "mantissa", values: Values::Names(MANTISSA_BITS) }, options::TABLE];

/// See [`crate::registry::Of::build`].
pub(crate) fn build(chosen: &[Value]) -> Box<dyn Codec> {
    Box::new(plain(chosen))
}

/// Without a table that is shared.
fn plain(chosen: &[Value]) -> Rans {
    Rans::new().row(chosen[0].number()).with_mantissa(chosen[1].name() == MANTISSA_BITS[1])
}

/// See [`crate::registry::Entry::tables`].
pub(crate) const TABLES: TableFns = TableFns { train, build: build_with, usage };

fn build_with(chosen: &[Value], table: &Table) -> Result<Box<dyn Codec>, DecodeError> {
    Ok(Box::new(plain(chosen).shared_table(table)?))
}

fn train(
    chosen: &[Value],
    layout: Layout,
    dtype: DType,
    samples: &[&[u8]],
) -> Result<Option<Table>, EncodeError> {
    let Rans { mantissa, .. } = plain(chosen);
    Ok(Shared::train(layout, dtype, mantissa, samples).map(|shared| shared.table()))
}

/// See [`crate::registry::Entry::pieces`].
pub(crate) const PIECES: Pieces = blocks::pieces(CODING);

/// See [`crate::registry::Of::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    blocks::decode(CODING, body, out)
}

fn usage(body: &Body<'_>, count: usize) -> Result<TableUsage, DecodeError> {
    blocks::usage(CODING, body, count)
}

impl EncodeChecked for Rans {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        let Checked { shape, values, static_out, dynamic_out } = frame;
        let dynamic_out = &mut dynamic_out[..self.bound(shape) - static_out.len()];
        let how = How { row: self.row, mantissa: self.mantissa, shared: self.shared };
        Ok(blocks::encode(CODING, shape, how, values, static_out, dynamic_out))
    }
}

impl Codec for Rans {
    fn id(&self) -> &'static str {
        "rans"
    }

    fn supports(&self, dtype: DType) -> bool {
        self.shared.is_none_or(|shared| shared.dtype == dtype)
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        blocks::static_len(CODING, shape)
    }

    fn bound(&self, shape: FrameShape) -> usize {
        blocks::bound(shape)
    }
}
