//! Decoding with what frames do not say themselves: tables that they name, and how much memory their values may take.

use crate::decode::{decode_slice_with, decode_with};
use crate::tables::Tables;
use crate::{
    Base, DType, DecodeError, FrameInfo, FrameShape, Layout, Section, Table, TableError, TableUsage,
    sign_mantissa, table_usage,
};

/// Decoder of frames, with the tables and bases that they may name and a limit for the memory of their values.
///
/// [`crate::decompress`] and [`crate::decode`] are those of a decoder without tables and limit.
///
/// ```
/// use zipwire_codec::{Codebook, Codebook16, DType, DecodeError, Decoder, compress_with, decompress};
///
/// let values: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700).to_le_bytes()).collect();
/// let book = Codebook::calibrate(DType::Bf16, [&values[..]])?;
/// let frame = compress_with(&Codebook16::new().shared_book(book), &values, DType::Bf16)?;
///
/// let mut decoder = Decoder::new().max_values_len(1 << 20);
/// decoder.add_table(book.table())?;
/// assert_eq!(decoder.decompress(&frame)?, values);
/// assert_eq!(decompress(&frame), Err(DecodeError::UnknownTable { id: book.id() }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    tables: Tables,
    /// Bytes of values that a frame may have.
    max_values_len: usize,
}

impl Decoder {
    /// No tables, and no limit but what a frame earns.
    pub const fn new() -> Self {
        Self { tables: Tables::new(), max_values_len: usize::MAX }
    }

    /// Refuses frames with more bytes of values than this, before memory is taken for them.
    ///
    /// Without a limit, memory is bounded by what a frame of its length can hold. Values that are all equal, or rows that
    /// repeat, take next to nothing in a frame, so this is up to 2 MiB for each of its bytes: set a limit where frames come
    /// from others.
    #[must_use]
    pub const fn max_values_len(mut self, bytes: usize) -> Self {
        self.max_values_len = bytes;
        self
    }

    /// Adds a table: frames that name it can then be read. To add it again changes nothing.
    ///
    /// # Errors
    /// [`TableError::Collision`] if there is another table with its id.
    pub fn add_table(&mut self, table: Table) -> Result<(), TableError> {
        self.tables.add(table)
    }

    /// Adds a base: frames of differences from its values ([`crate::Delta`]) can then be read. To add it again changes nothing.
    ///
    /// # Errors
    /// [`TableError::BaseCollision`] if there is another base with the same id.
    pub fn add_base(&mut self, base: Base) -> Result<(), TableError> {
        self.tables.add_base(base)
    }

    /// The values of a frame that is in one buffer, static section first; the frame says what they are.
    ///
    /// # Errors
    /// For every frame that is damaged, cut or extended, that names a table which is not here, or whose values are more
    /// than the limit or than there is memory for.
    pub fn decompress(&self, frame: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let info = self.peek(frame)?;
        decode_slice_with(&self.tables, info.shape, frame)
    }

    /// Decompresses like [`Self::decompress`], into the front of `out`; returns the bytes of the values. Nothing is allocated.
    ///
    /// # Errors
    /// As [`Self::decompress`], and [`DecodeError::OutputBuffer`] if `out` is too short. `out` then holds unspecified values.
    pub fn decompress_into(&self, frame: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
        let FrameInfo { shape, static_len, .. } = self.peek(frame)?;
        let (needed, found) = (shape.values_len(), out.len());
        let out = out.get_mut(..needed).ok_or(DecodeError::OutputBuffer { needed, found })?;
        let sections = frame.split_at_checked(static_len).ok_or(DecodeError::Truncated {
            section: Section::Static,
            needed: static_len,
            found: frame.len(),
        })?;
        decode_with(&self.tables, shape.layout, shape.dtype, sections.0, sections.1, out)?;
        Ok(needed)
    }

    /// Decodes a frame whose shape both ends know, like [`crate::decode`].
    ///
    /// # Errors
    /// As [`crate::decode`], and [`DecodeError::UnknownTable`].
    pub fn decode(
        &self,
        layout: Layout,
        dtype: DType,
        static_section: &[u8],
        dynamic_section: &[u8],
        out: &mut [u8],
    ) -> Result<(), DecodeError> {
        decode_with(&self.tables, layout, dtype, static_section, dynamic_section, out)
    }

    /// Decodes a frame whose shape both ends know, like [`crate::decode_from_slice`].
    ///
    /// # Errors
    /// As [`Self::decompress`], and if it is of another shape.
    pub fn decode_from_slice(&self, shape: FrameShape, frame: &[u8]) -> Result<Vec<u8>, DecodeError> {
        self.check_limit(shape.values_len())?;
        decode_slice_with(&self.tables, shape, frame)
    }

    /// [`crate::decode_exponents`]: the values of a frame whose signs and mantissas came by themselves.
    ///
    /// # Errors
    /// As [`crate::decode_exponents`], and [`DecodeError::UnknownTable`].
    pub fn decode_exponents(
        &self,
        dtype: DType,
        sign_mantissa: &[u8],
        static_section: &[u8],
        dynamic_section: &[u8],
        out: &mut [u8],
    ) -> Result<(), DecodeError> {
        sign_mantissa::decode_with(&self.tables, dtype, [sign_mantissa, static_section, dynamic_section], out)
    }

    /// How well the table of a frame fits its values, whether the frame carries it or names it. Bodies are not looked at, and the checksum is
    /// not compared. None if its codec has no tables.
    ///
    /// # Errors
    /// If the sections are not those of a frame of this shape, or its front matter contradicts itself.
    pub fn table_usage(
        &self,
        shape: FrameShape,
        static_section: &[u8],
        dynamic_section: &[u8],
    ) -> Result<Option<TableUsage>, DecodeError> {
        table_usage::of_frame(&self.tables, shape, static_section, dynamic_section)
    }

    /// Reads the header, and checks that the values are within the limit.
    fn peek(&self, frame: &[u8]) -> Result<FrameInfo, DecodeError> {
        let info = FrameInfo::peek(frame)?;
        self.check_limit(info.shape.values_len())?;
        Ok(info)
    }

    /// Checks that this number of bytes of values is within the limit.
    pub(crate) fn check_limit(&self, bytes: usize) -> Result<(), DecodeError> {
        let limit = self.max_values_len;
        if bytes > limit { Err(DecodeError::Limit { bytes, limit }) } else { Ok(()) }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}
