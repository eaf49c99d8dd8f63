//! `dedup+X`: rows that repeat an earlier one are left out, and codec X codes the others.
//!
//! Dispatch sends the same token to several experts, and first layers see the same token again and again. Rows are
//! equal if all their bits are; nearly equal ones are not looked for. Where no row repeats another, and in the split
//! layout, whose lengths must not depend on values, frames are those of X.

mod front;
mod hash;
mod index;

use std::fmt;

use crate::body::Body;
use crate::codec::Sealed;
use crate::frame;
use crate::header::{HEADER_LEN, Header};
use crate::options::{self, Choice, ROW_KEY, Values};
use crate::raw::Raw;
use crate::tile::mask_len;
use crate::{
    Codec, DType, DecodeError, EncodeError, FrameShape, Layout, RowFault, Section, SpecError, checksum,
    levels,
};
use front::{Front, Shape};
pub use index::{RowIndex, RowIndexError};

/// Tag in frame headers.
pub(crate) const TAG: u8 = 4;
/// The prefix of specs.
const ID: &str = "dedup";

/// Values of the longest row that is left out: a frame, with a bit for each row, has at least a byte for every 2^19 values
/// that it asks memory for.
pub(crate) const LONGEST_ROW: u32 = 1 << 16;

/// A codec behind which rows are left out that repeat an earlier one.
///
/// Its bounds are those of the codec: where leaving out rows does not make sure that a frame stays within them, the
/// frame is that of the codec alone. The checksum is that of all values, so an index that was given and does not hold
/// is found out when the frame is decoded.
///
/// ```
/// use zipwire_codec::{DType, Dedup, Raw, compress_with, decompress};
///
/// // 64 rows of 256 values, of which every second one repeats the first.
/// let row = |i: u16| (0..256).flat_map(move |j| (0x3c00 + 7 * j + i).to_le_bytes());
/// let values: Vec<u8> = (0..64).flat_map(|i| row(if i % 2 == 0 { 0 } else { i })).collect();
/// let frame = compress_with(&Dedup::new(Box::new(Raw), 256), &values, DType::Bf16)?;
/// assert!(frame.len() < values.len() * 53 / 100);
/// assert_eq!(decompress(&frame)?, values);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Dedup {
    /// None stands for any: frames are read without knowing the codec.
    codec: Option<Box<dyn Codec>>,
    /// Values of a row; 0 if that is not known, and nothing is left out.
    row: u32,
}

impl Dedup {
    /// To read frames with.
    pub(crate) const ANY: Self = Self { codec: None, row: 0 };

    /// Leaves out repeated rows of `row` values in front of a codec. If that is 0, or more than 65 536, nothing is left
    /// out.
    pub fn new(codec: Box<dyn Codec>, row: u32) -> Self {
        Self { codec: Some(codec), row }
    }

    /// [`Codec::encode`] in the compact layout, with an index that routing gave instead of a search.
    ///
    /// # Errors
    /// As [`Codec::encode`], and [`EncodeError::Rows`] if the index is of another number of rows.
    ///
    /// # Panics
    /// In builds with debug assertions, if rows that the index calls equal are not.
    pub fn encode_indexed(
        &self,
        dtype: DType,
        values: &[u8],
        index: &RowIndex,
        dynamic_out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let shape = frame::check_buffers(self, Layout::Compact, dtype, values, &[], dynamic_out)?;
        let count = shape.count;
        let rows = self.rows(count);
        if index.rows() != rows {
            return Err(EncodeError::Rows { expected: rows, found: index.rows() });
        }
        let row_bytes = self.row as usize * dtype.width();
        let kept_rows = Shape { row: self.row, rows, unique: index.unique() };
        let kept = count - (rows - kept_rows.unique) * self.row as usize;
        let bound = |count| self.codec().bound(FrameShape { count, ..shape });
        let front_len = kept_rows.front_len();
        if kept_rows.unique == rows || front_len.saturating_add(bound(kept)) > bound(count) {
            return self.codec().encode(Layout::Compact, dtype, values, &mut [], dynamic_out);
        }
        debug_assert!(index.holds(values, row_bytes), "rows that the index calls equal differ");
        let unique = index.gather(values, row_bytes);
        let (front, behind) = dynamic_out.split_at_mut(front_len);
        front::write(kept_rows, index, front);
        let len = front_len + self.codec().encode(Layout::Compact, dtype, &unique, &mut [], behind)?;
        let sum = checksum::of_values(levels::active(), values);
        let sum = sum.wrapping_add(checksum::of_front(&front[HEADER_LEN..], HEADER_LEN));
        frame::seal(TAG, shape, 0, len, sum, front);
        Ok(len)
    }

    fn codec(&self) -> &dyn Codec {
        self.codec.as_deref().unwrap_or(&Raw)
    }

    /// Number of whole rows among `count` values; none if rows are too long.
    fn rows(&self, count: usize) -> usize {
        if self.row > LONGEST_ROW { 0 } else { count.checked_div(self.row as usize).unwrap_or(0) }
    }
}

impl Sealed for Dedup {}

impl Codec for Dedup {
    fn id(&self) -> &'static str {
        ID
    }

    fn supports(&self, dtype: DType) -> bool {
        self.codec().supports(dtype)
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        self.codec().static_len(shape)
    }

    fn bound(&self, shape: FrameShape) -> usize {
        self.codec().bound(shape)
    }

    fn min_len(&self, shape: FrameShape) -> usize {
        let all = self.codec().min_len(shape);
        match shape.layout {
            Layout::Split => all,
            Layout::Compact => all.min(front::MASK + mask_len(shape.count / LONGEST_ROW as usize)),
        }
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
        if layout == Layout::Compact && self.rows(shape.count) > 1 {
            // Rows that cannot even be numbered are left as they are.
            if let Ok(index) = RowIndex::find(values, self.row as usize * dtype.width()) {
                return self.encode_indexed(dtype, values, &index, dynamic_out);
            }
        }
        self.codec().encode(layout, dtype, values, static_out, dynamic_out)
    }
}

/// See [`crate::registry::Entry::decode`]. Nothing is allocated: unique rows are decoded to the front of `out`.
pub(crate) fn decode_rows(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let (dtype, width) = (body.dtype, body.dtype.width());
    let fault = |fault| DecodeError::Rows { fault };
    if body.layout != Layout::Compact {
        return Err(fault(RowFault::Layout));
    }
    let section = body.dynamic_section;
    let (front, behind) = Front::read(section, out.len() / width)?;
    let Shape { row, rows, unique } = front.shape;
    let row_bytes = row as usize * width;
    let (kept, _) = out.split_at_mut(out.len() - (rows - unique) * row_bytes);
    let within = |source| DecodeError::UniqueRows { source: Box::new(source) };
    if Header::read(behind, Section::Dynamic).map_err(within)?.codec == TAG {
        return Err(fault(RowFault::Nested));
    }
    (body.decode_inner)(body.tables, dtype, behind, kept).map_err(within)?;
    index::expand(out, row_bytes, unique, front.sources()).map_err(fault)?;
    let front = &section[HEADER_LEN..section.len() - behind.len()];
    Ok(checksum::of_values(levels::active(), out).wrapping_add(checksum::of_front(front, HEADER_LEN)))
}

const OPTIONS: &[Choice] = &[Choice { key: ROW_KEY, values: Values::UpTo(LONGEST_ROW) }];

/// The `dedup` prefix of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Prefix {
    /// Values of a row; 0 if the caller that has the values gives it.
    pub(crate) row: u32,
}

impl Prefix {
    /// Its id.
    pub(crate) const ID: &str = ID;

    /// Reads what is before the `+`, if it begins with the id.
    pub(crate) fn parse(text: &str) -> Result<Self, SpecError> {
        let (_, options) = options::split(text);
        Ok(Self { row: options::choose(ID, OPTIONS, options)?[0].number() })
    }

    /// The codec with this in front of it.
    pub(crate) fn before(self, codec: Box<dyn Codec>) -> Box<dyn Codec> {
        Box::new(Dedup::new(codec, self.row))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ID)?;
        if self.row > 0 { write!(f, ":{ROW_KEY}={}+", self.row) } else { f.write_str("+") }
    }
}
