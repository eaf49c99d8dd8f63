//! Frames of any codec into values: the header is compared with what is expected, then the codec that it names decodes; with what frames do not
//! say themselves, which is tables that they name, and how much memory their values may take.

use crate::frame::Header;
use crate::registry::{self, Entry};
use crate::sections::Body;
use crate::tables::Tables;
use crate::{
    Base, DType, DecodeError, FrameInfo, FrameShape, Layout, Section, Table, TableError, TableUsage, codec,
    sign_mantissa,
};

/// See [`Decoder::decode`].
pub(crate) fn decode_with(
    tables: &Tables,
    layout: Layout,
    dtype: DType,
    static_section: &[u8],
    dynamic_section: &[u8],
    out: &mut [u8],
) -> Result<(), DecodeError> {
    if !out.len().is_multiple_of(dtype.width()) {
        return Err(DecodeError::PartialValue { bytes: out.len(), dtype });
    }
    let shape = FrameShape { layout, dtype, count: out.len() / dtype.width() };
    let (body, header, entry) = open(tables, shape, static_section, dynamic_section)?;
    let sum = entry.of.decode(&body, out)?;
    let found = sum.wrapping_add(header.sum());
    if found != header.checksum {
        return Err(DecodeError::Checksum { expected: header.checksum, found });
    }
    Ok(())
}

/// The section that begins with the header.
pub(crate) fn first_section(layout: Layout) -> Section {
    match layout {
        Layout::Split => Section::Static,
        Layout::Compact => Section::Dynamic,
    }
}

/// Compares the header of a frame with the expectation, and the lengths of its sections with both.
pub fn open<'a>(
    tables: &'a Tables,
    shape: FrameShape,
    static_section: &'a [u8],
    dynamic_section: &'a [u8],
) -> Result<(Body<'a>, Header, &'static Entry), DecodeError> {
    let first = first_section(shape.layout);
    let bytes = match first {
        Section::Static => static_section,
        Section::Dynamic => dynamic_section,
    };
    let (header, entry) = expect(tables, bytes, first, shape)?;
    let static_len = entry.codec.static_len(shape);
    if static_section.len() != static_len {
        let (expected, found) = (static_len as u64, static_section.len());
        return Err(DecodeError::Length { section: Section::Static, expected, found });
    }
    if dynamic_section.len() as u64 != header.dynamic_len {
        let (expected, found) = (header.dynamic_len, dynamic_section.len());
        return Err(DecodeError::Length { section: Section::Dynamic, expected, found });
    }
    let FrameShape { layout, dtype, .. } = shape;
    let (table, decode_inner) = (tables.get(header.table), decode_inner);
    Ok((Body { layout, dtype, static_section, dynamic_section, table, tables, decode_inner }, header, entry))
}

/// See [`Body::decode_inner`].
fn decode_inner(tables: &Tables, dtype: DType, frame: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    decode_with(tables, Layout::Compact, dtype, &[], frame, out)
}

/// Reads the header at the start of `section` and compares it with what the caller expects.
fn expect(
    tables: &Tables,
    section: &[u8],
    which: Section,
    FrameShape { layout, dtype, count }: FrameShape,
) -> Result<(Header, &'static Entry), DecodeError> {
    let header = Header::read(section, which)?;
    let entry = registry::of_header(&header)?;
    if header.dtype != dtype.tag() {
        return Err(DecodeError::DType { expected: dtype, found: header.dtype });
    }
    if header.layout != layout.tag() {
        return Err(DecodeError::Layout { expected: layout, found: header.layout });
    }
    if header.count != count as u64 {
        return Err(DecodeError::Count { expected: count, found: header.count });
    }
    if header.table != 0 {
        if entry.tables.is_none() {
            return Err(DecodeError::UnusedTable { codec: entry.codec.id(), id: header.table });
        }
        tables.get(header.table).ok_or(DecodeError::UnknownTable { id: header.table })?;
    }
    if !entry.codec.supports(dtype) {
        return Err(DecodeError::Unsupported { codec: entry.codec.id(), dtype });
    }
    Ok((header, entry))
}

/// Decoder of frames, with the tables and bases that they may name and a limit for the memory of their values.
///
/// [`crate::decompress`] is that of a decoder without tables and limit.
///
/// ```
/// use zipwire_codec::{Codec, DType, DecodeError, Decoder, Layout, Spec, decompress};
///
/// let values: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700).to_le_bytes()).collect();
/// let table = "rans".parse::<Spec>()?.train(Layout::Compact, DType::Bf16, &[&values])?;
/// let codec = "rans".parse::<Spec>()?.with_table(&table)?.codec();
/// let frame = codec.encode_to_vec(Layout::Compact, DType::Bf16, &values)?;
///
/// let mut decoder = Decoder::new().max_values_len(1 << 20);
/// decoder.add_table(table.clone())?;
/// assert_eq!(decoder.decompress(&frame)?, values);
/// assert_eq!(decompress(&frame), Err(DecodeError::UnknownTable { id: table.id() }));
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
        // The header goes with the number of values. So memory is earned by a frame that is as long as it says.
        let (needed, found) = (info.frame_len(), frame.len());
        if found < needed {
            return Err(DecodeError::Truncated { section: first_section(info.shape.layout), needed, found });
        }
        let bytes = info.shape.values_len();
        let mut out = codec::zeroed(bytes).ok_or(DecodeError::OutOfMemory { bytes })?;
        self.decompress_into(frame, &mut out)?;
        Ok(out)
    }

    /// Decompresses like [`Self::decompress`], into the front of `out`; returns the bytes of the values. Nothing is allocated.
    ///
    /// # Errors
    /// Errors of [`Self::decompress`], and [`DecodeError::OutputBuffer`] if `out` is too short. `out` then holds unspecified values.
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

    /// Decodes a frame of any codec into `out`, for callers that know its shape.
    ///
    /// `layout`, `dtype` and the number of values, `out.len() / dtype.width()`, are what the caller expects; a frame of
    /// anything else is an error. Both sections must have their exact lengths; in the compact layout the static section is
    /// empty. Nothing is allocated, but for the tables and lists of a frame of `rans`.
    ///
    /// # Errors
    /// For every frame that is damaged, cut, extended or not the expected one. `out` then holds unspecified values.
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

    /// Decodes what [`crate::write_sign_mantissa`] and [`crate::encode_exponents`] write, in the split layout: a frame whose signs and mantissas
    /// came by themselves.
    ///
    /// # Errors
    /// Errors of [`Self::decode`].
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
        let (body, _, entry) = open(&self.tables, shape, static_section, dynamic_section)?;
        entry.tables.as_ref().map(|tables| (tables.usage)(&body, shape.count)).transpose()
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

impl TableUsage {
    /// Usage of table `id`, which the decoder has, by a frame: values of a frame that has a table of its own count as coded by other means.
    ///
    /// # Errors
    /// Errors of [`Decoder::table_usage`].
    pub fn of_shared(
        decoder: &Decoder,
        id: u32,
        shape: FrameShape,
        static_section: &[u8],
        dynamic_section: &[u8],
    ) -> Result<Self, DecodeError> {
        let usage = decoder.table_usage(shape, static_section, dynamic_section)?.unwrap_or_default();
        let first = match first_section(shape.layout) {
            Section::Static => static_section,
            Section::Dynamic => dynamic_section,
        };
        let is_named = FrameInfo::peek(first)?.table == Some(id);
        Ok(if is_named { usage } else { Self { coded: 0, escapes: 0, others: usage.values() } })
    }
}
