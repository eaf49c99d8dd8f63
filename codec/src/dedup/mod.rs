//! `dedup+X`: rows that repeat an earlier one are left out, and codec X codes the others.
//!
//! Dispatch sends the same token to several experts, and first layers see the same token again and again. Rows are
//! equal if all their bits are; nearly equal ones are not looked for. Where no row repeats another, and in the split
//! layout, whose lengths must not depend on values, frames are those of X.

mod index;

pub use index::{RowIndex, RowIndexError};

use std::fmt;

use crate::codec::{self, Checked, EncodeChecked};
use crate::frame::{self, HEADER_LEN, Header};
use crate::kernel::bits::{marked, mask_len};
use crate::options::{self, Choice, ROW_KEY, Values};
use crate::raw::Raw;
use crate::sections::Body;
use crate::{
    Codec, DType, DecodeError, EncodeError, FrameShape, Layout, RowFault, Section, SpecError, checksum,
    levels,
};

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
/// use zipwire_codec::{Codec, DType, Dedup, Layout, Raw, decompress};
///
/// // 64 rows of 256 values, of which every second one repeats the first.
/// let row = |i: u16| (0..256).flat_map(move |j| (0x3c00 + 7 * j + i).to_le_bytes());
/// let values: Vec<u8> = (0..64).flat_map(|i| row(if i % 2 == 0 { 0 } else { i })).collect();
/// let frame = Dedup::new(Box::new(Raw), 256).encode_to_vec(Layout::Compact, DType::Bf16, &values)?;
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
    /// Errors of [`Codec::encode`], and [`EncodeError::Rows`] if the index is of another number of rows.
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
        let shape = codec::check_buffers(self, Layout::Compact, dtype, values, &[], dynamic_out)?;
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
        write_front(kept_rows, index, front);
        let len = front_len + self.codec().encode(Layout::Compact, dtype, &unique, &mut [], behind)?;
        let sum = checksum::of_values(levels::active(), values);
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

impl EncodeChecked for Dedup {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        let Checked { shape, values, static_out, dynamic_out } = frame;
        let FrameShape { layout, dtype, .. } = shape;
        if layout == Layout::Compact && self.rows(shape.count) > 1 {
            // Rows that cannot even be numbered are left as they are.
            if let Ok(index) = RowIndex::find(values, self.row as usize * dtype.width()) {
                return self.encode_indexed(dtype, values, &index, dynamic_out);
            }
        }
        self.codec().encode(layout, dtype, values, static_out, dynamic_out)
    }
}

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
            Layout::Compact => all.min(MASK + mask_len(shape.count / LONGEST_ROW as usize)),
        }
    }
}

/// See [`crate::registry::Of::decode`]. Nothing is allocated: unique rows are decoded to the front of `out`.
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

/// Offset of the mask: behind the header, the row length and the number of unique rows.
const MASK: usize = HEADER_LEN + 8;
/// Front matter is filled up to a multiple of this.
const ALIGN: u64 = 8;

/// Numbers that the lengths of front matter follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Values of a row.
    row: u32,
    /// Number of rows.
    rows: usize,
    /// Number of rows that are not left out.
    unique: usize,
}

impl Shape {
    /// Bits that the number of a unique row takes.
    fn number_bits(self) -> u32 {
        usize::BITS - self.unique.saturating_sub(1).leading_zeros()
    }

    /// Bits of the numbers of all rows that are left out.
    fn all_bits(self) -> u64 {
        (self.rows - self.unique) as u64 * u64::from(self.number_bits())
    }

    /// Bytes of front matter, header included.
    fn front_len(self) -> usize {
        let len = (MASK + mask_len(self.rows)) as u64 + self.all_bits().div_ceil(8);
        usize::try_from(len.next_multiple_of(ALIGN)).unwrap_or(usize::MAX)
    }
}

/// Writes what is behind the header.
fn write_front(shape: Shape, index: &RowIndex, front: &mut [u8]) {
    front[HEADER_LEN..].fill(0);
    front[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&shape.row.to_le_bytes());
    front[HEADER_LEN + 4..MASK].copy_from_slice(&(index.unique() as u32).to_le_bytes());
    let (mask, numbers) = front[MASK..].split_at_mut(mask_len(shape.rows));
    let (bits, mut position) = (u64::from(shape.number_bits()), 0);
    for (row, (repeats, &of)) in index.repeats().zip(index.as_slice()).enumerate() {
        if repeats {
            mask[row / 8] |= 1 << (row % 8);
            let shifted = (u64::from(of) << (position % 8)).to_le_bytes();
            for (byte, part) in numbers[(position / 8) as usize..].iter_mut().zip(shifted) {
                *byte |= part;
            }
            position += bits;
        }
    }
}

/// Front matter that was read.
#[derive(Debug)]
struct Front<'a> {
    shape: Shape,
    /// A bit per row, set if the row is left out.
    mask: &'a [u8],
    /// The unique rows of rows that are left out.
    numbers: &'a [u8],
}

impl<'a> Front<'a> {
    /// Reads the front matter of a frame of `count` values; what follows it is returned, too.
    fn read(section: &'a [u8], count: usize) -> Result<(Self, &'a [u8]), DecodeError> {
        let fault = |fault| DecodeError::Rows { fault };
        let truncated =
            |needed| DecodeError::Truncated { section: Section::Dynamic, needed, found: section.len() };
        let (head, _) = section.split_first_chunk::<MASK>().ok_or(truncated(MASK))?;
        let field = |position: usize| u32::from_le_bytes(std::array::from_fn(|i| head[position + i]));
        let (row, unique) = (field(HEADER_LEN), field(HEADER_LEN + 4));
        if row > LONGEST_ROW {
            return Err(fault(RowFault::Long(row)));
        }
        let rows = count.checked_div(row as usize).unwrap_or(0);
        if unique == 0 || unique as usize >= rows {
            return Err(fault(RowFault::Unique { row, rows, found: unique }));
        }
        let shape = Shape { row, rows, unique: unique as usize };
        let front_len = shape.front_len();
        let (front, behind) = section.split_at_checked(front_len).ok_or(truncated(front_len))?;
        let (mask, numbers) = front[MASK..].split_at(mask_len(rows));
        let (expected, found) = (rows - shape.unique, marked(mask, rows).ok_or(DecodeError::Padding)?);
        if found != expected {
            return Err(fault(RowFault::Repeated { expected, found }));
        }
        // The first byte that has unused bits, if the numbers do not fill it; then bytes that fill up.
        let (full, used) = ((shape.all_bits() / 8) as usize, shape.all_bits() % 8);
        let beyond = |(i, byte): (usize, &u8)| if i == 0 { byte >> used } else { *byte };
        if numbers[full..].iter().enumerate().map(beyond).any(|byte| byte != 0) {
            return Err(DecodeError::Padding);
        }
        Ok((Self { shape, mask, numbers }, behind))
    }

    /// For each row, the last one first, the unique row that it equals, which is at most the number of the row.
    fn sources(&self) -> impl Iterator<Item = Result<usize, RowFault>> {
        let bits = self.shape.number_bits();
        let (mut known, mut repeated) = (self.shape.unique, self.shape.rows - self.shape.unique);
        (0..self.shape.rows).rev().map(move |row| {
            if self.mask[row / 8] >> (row % 8) & 1 == 0 {
                // The mask has as many rows that are not left out as there are unique ones.
                known -= 1;
                return Ok(known);
            }
            repeated -= 1;
            let found = self.number(repeated as u64 * u64::from(bits), bits);
            if found < known { Ok(found) } else { Err(RowFault::Order { row, found, known }) }
        })
    }

    /// The number of `bits` bits that begins at bit `position`.
    fn number(&self, position: u64, bits: u32) -> usize {
        let mut bytes = [0; 8];
        for (byte, from) in bytes.iter_mut().zip(&self.numbers[(position / 8) as usize..]) {
            *byte = *from;
        }
        // At most 32 bits, and at most 7 before them.
        (u64::from_le_bytes(bytes) >> (position % 8) & ((1 << bits) - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(row: u32, of: &[u32]) -> (Shape, Vec<u8>) {
        let index = RowIndex::from_numbers(of.to_vec()).unwrap();
        let shape = Shape { row, rows: index.rows(), unique: index.unique() };
        let mut front = vec![0xee; shape.front_len()];
        write_front(shape, &index, &mut front);
        (shape, front)
    }

    fn sources(front: &[u8], count: usize) -> Result<Vec<usize>, DecodeError> {
        let (front, behind) = Front::read(front, count)?;
        assert!(behind.is_empty());
        let mut sources: Vec<usize> =
            front.sources().collect::<Result<_, _>>().map_err(|fault| DecodeError::Rows { fault })?;
        sources.reverse();
        Ok(sources)
    }

    #[test]
    fn fields_are_where_the_format_says() {
        let (shape, bytes) = front(5, &[0, 1, 0, 2, 1, 2]);
        assert_eq!(shape, Shape { row: 5, rows: 6, unique: 3 });
        // Rows 2, 4 and 5 are 0, 1 and 2: two bits each.
        assert_eq!(bytes[HEADER_LEN..], [5, 0, 0, 0, 3, 0, 0, 0, 0b11_0100, 0b10_01_00, 0, 0, 0, 0, 0, 0]);
        let (_, bytes) = front(7, &[0, 0, 0]);
        assert_eq!(bytes[HEADER_LEN..], [7, 0, 0, 0, 1, 0, 0, 0, 0b110, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn indexes_of_every_width_come_back() {
        let widest = if cfg!(miri) { 300 } else { 70_000 };
        for unique in [1, 2, 3, 4, 5, 100, 128, 129, 1000.min(widest), widest] {
            let repeated = (0..100).map(|i| i * 7919 % unique);
            let of: Vec<u32> = (0..unique).chain(repeated).collect();
            let (shape, bytes) = front(1, &of);
            let expected: Vec<usize> = of.iter().map(|of| *of as usize).collect();
            assert_eq!(sources(&bytes, shape.rows).unwrap(), expected, "{unique}");
        }
    }

    #[test]
    fn front_matter_that_contradicts_itself_is_refused() {
        let (_, good) = front(2, &[0, 1, 0, 2, 1, 2]);
        let with = |position: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[position] = byte;
            sources(&bytes, 13).unwrap_err()
        };
        assert_eq!(sources(&good, 13), Ok(vec![0, 1, 0, 2, 1, 2]));
        let rows = |fault| DecodeError::Rows { fault };
        assert_eq!(with(32, 0), rows(RowFault::Unique { row: 0, rows: 0, found: 3 }));
        assert_eq!(with(32, 5), rows(RowFault::Unique { row: 5, rows: 2, found: 3 }));
        assert_eq!(with(34, 1), rows(RowFault::Long((1 << 16) + 2)));
        assert_eq!(with(36, 0), rows(RowFault::Unique { row: 2, rows: 6, found: 0 }));
        assert_eq!(with(36, 6), rows(RowFault::Unique { row: 2, rows: 6, found: 6 }));
        assert_eq!(with(36, 4), rows(RowFault::Repeated { expected: 2, found: 3 }));
        assert_eq!(with(40, 0b111_0100), DecodeError::Padding);
        assert_eq!(with(41, 0b110_0100), DecodeError::Padding);
        assert_eq!(with(47, 0x80), DecodeError::Padding);
        // Row 2 comes when unique row 1 is the last one known, row 4 when all three are.
        assert_eq!(with(41, 0b10_01_10), rows(RowFault::Order { row: 2, found: 2, known: 2 }));
        assert_eq!(with(41, 0b10_11_00), rows(RowFault::Order { row: 4, found: 3, known: 3 }));
        assert_eq!(with(40, 0b11_0001), rows(RowFault::Order { row: 0, found: 0, known: 0 }));
        for len in 0..good.len() {
            assert!(matches!(sources(&good[..len], 13), Err(DecodeError::Truncated { .. })), "{len}");
        }
    }
}
