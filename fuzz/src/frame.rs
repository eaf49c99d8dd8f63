//! Frames, and what must hold of intact ones, of damaged ones, and of bytes that may be none; and damage to them, so aimed that it reaches
//! what is behind the first checks.

use arbitrary::{Result as Arbitrary, Unstructured};
use zipwire_codec::{
    Codec, DType, DecodeError, Decoder, FrameShape, Layout, SimdLevel, simd_levels, with_simd,
};
use zipwire_paper_codecs::BookUsage;

/// Offset of the codec's tag in the header.
pub(crate) const CODEC: usize = 5;
/// The tag of frames with rows left out.
const DEDUP: u8 = 4;
/// The tag of frames of differences.
pub(crate) const DELTA: u8 = 6;
/// Bytes of the magic that headers begin with.
const MAGIC: usize = 4;
/// Offset of the length of the dynamic section in the header.
const DYNAMIC_LEN: usize = 16;
/// Offset of the checksum in the header.
const CHECKSUM: usize = 24;

/// A frame in memory of exactly its lengths, so that the AddressSanitizer sees every step beyond.
pub struct Frame {
    layout: Layout,
    dtype: DType,
    count: usize,
    decoder: Decoder,
    static_section: Vec<u8>,
    dynamic_section: Vec<u8>,
}

impl Frame {
    /// Encodes on every level.
    ///
    /// # Panics
    /// If levels or the former content of the buffers make a difference, or the codec breaks its promises on lengths.
    pub fn new(codec: &dyn Codec, layout: Layout, dtype: DType, values: &[u8]) -> Self {
        let count = values.len() / dtype.width();
        let shape = FrameShape::new(layout, dtype, count);
        let (static_len, bound) = (codec.static_len(shape), codec.bound(shape));
        let encode = |level, poison| {
            let values = values.to_vec().into_boxed_slice();
            let mut static_section = vec![poison; static_len];
            let mut dynamic_section = vec![poison; bound - static_len];
            let encode = || codec.encode(layout, dtype, &values, &mut static_section, &mut dynamic_section);
            let len = with_simd(level, encode).expect("values never cause an error");
            // A copy of exactly this length.
            (static_section, dynamic_section[..len].to_vec())
        };
        let first = encode(SimdLevel::Portable, 0);
        for level in vector_levels() {
            assert!(encode(level, 0xa5) == first, "`{level}` writes other bytes");
        }
        let (static_section, dynamic_section) = first;
        Self { layout, dtype, count, decoder: Decoder::new(), static_section, dynamic_section }
    }

    /// The same, read with what this decoder has.
    #[must_use]
    pub fn with(self, decoder: Decoder) -> Self {
        Self { decoder, ..self }
    }

    /// Decoder that the frame is read with.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Read with another decoder, it gives this error on every level.
    ///
    /// # Panics
    /// If it does not.
    pub fn check_error(&self, decoder: Decoder, error: &DecodeError) {
        let Self { layout, dtype, count, static_section, dynamic_section, .. } = self;
        let found = check_decoded(&decoder, *layout, *dtype, *count, static_section, dynamic_section);
        assert!(found.as_ref().err() == Some(error), "{:?} instead of `{error}`", found.err());
    }

    /// An undamaged frame gives the values on every level.
    ///
    /// # Panics
    /// If it does not.
    pub fn check_intact(&self, values: &[u8]) {
        let out = self.check().expect("an intact frame decodes");
        assert!(out == values, "other values come back");
    }

    /// A damaged frame gives the same values or the same error on every level; with the checksums that its values call
    /// for, it decodes.
    ///
    /// # Panics
    /// If it does not.
    pub fn check_damaged(&mut self) {
        let len = self.dynamic_section.len();
        self.put(DYNAMIC_LEN, &(len as u64).to_le_bytes());
        let inner = self.inner_frames();
        if let Some(inner) = inner.last() {
            self.put(inner + DYNAMIC_LEN, &(len.saturating_sub(*inner) as u64).to_le_bytes());
        }
        let mut result = self.check();
        if let Err(DecodeError::UniqueRows { source } | DecodeError::DirectBlocks { source }) = &result
            && let DecodeError::Checksum { expected, found } = **source
        {
            let sealed = inner.into_iter().any(|inner| {
                self.put(inner + CHECKSUM, &found.to_le_bytes());
                result = self.check();
                let again =
                    matches!(&result, Err(DecodeError::UniqueRows { .. } | DecodeError::DirectBlocks { .. }));
                if again {
                    self.put(inner + CHECKSUM, &expected.to_le_bytes());
                }
                !again
            });
            assert!(sealed, "only the checksum of the inner frame was wrong");
        }
        if let Err(DecodeError::Checksum { found, .. }) = result {
            self.put(CHECKSUM, &found.to_le_bytes());
            self.check().expect("only the checksum was wrong");
        }
    }

    /// Offsets that the inner frame may have, if there is one.
    fn inner_frames(&self) -> Vec<usize> {
        let compact = self.layout == Layout::Compact;
        match self.get(CODEC) {
            DEDUP if compact => self.unique_rows().into_iter().collect(),
            DELTA if compact => self.headers(),
            _ => Vec::new(),
        }
    }

    /// Offsets at which headers seem to be, behind that of the frame itself. The lengths of what is in front of the inner frame of differences
    /// are many, and an edit can have copied a header: the checksum tells which one it is.
    fn headers(&self) -> Vec<usize> {
        let magic = self.dynamic_section.get(..MAGIC);
        let positions = (40..self.dynamic_section.len()).step_by(8);
        positions.filter(|&at| self.dynamic_section.get(at..at + MAGIC) == magic).collect()
    }

    /// Offset of the inner frame of a frame with rows left out: behind row length, number of unique rows, mask and numbers.
    fn unique_rows(&self) -> Option<usize> {
        let field = |position: usize| -> Option<usize> {
            let bytes = self.dynamic_section.get(position..)?.first_chunk()?;
            usize::try_from(u32::from_le_bytes(*bytes)).ok()
        };
        let (row, unique) = (field(32)?, field(36)?);
        let rows = self.count.checked_div(row)?;
        let bits = usize::BITS - unique.saturating_sub(1).leading_zeros();
        let numbers = rows.checked_sub(unique)? * bits as usize;
        Some((40 + rows.div_ceil(8) + numbers.div_ceil(8)).next_multiple_of(8))
    }

    fn check(&self) -> Result<Vec<u8>, DecodeError> {
        let Self { layout, dtype, count, decoder, static_section, dynamic_section } = self;
        check_decoded(decoder, *layout, *dtype, *count, static_section, dynamic_section)
    }

    /// Bytes of both sections.
    pub fn len(&self) -> usize {
        self.static_section.len() + self.dynamic_section.len()
    }

    /// Whether there are none, which no frame is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the static section.
    pub fn static_len(&self) -> usize {
        self.static_section.len()
    }

    /// The byte at a position; 0 beyond the end.
    pub fn get(&self, position: usize) -> u8 {
        let byte = match position.checked_sub(self.static_section.len()) {
            None => self.static_section.get(position),
            Some(position) => self.dynamic_section.get(position),
        };
        byte.copied().unwrap_or(0)
    }

    /// Writes bytes at a position, as many as there is room for.
    pub fn put(&mut self, position: usize, bytes: &[u8]) {
        bytes.iter().enumerate().for_each(|(i, byte)| self.set(position + i, |_| *byte));
    }

    /// Changes the byte at a position, if there is one.
    pub fn set(&mut self, position: usize, change: impl FnOnce(u8) -> u8) {
        let byte = match position.checked_sub(self.static_section.len()) {
            None => self.static_section.get_mut(position),
            Some(position) => self.dynamic_section.get_mut(position),
        };
        if let Some(byte) = byte {
            *byte = change(*byte);
        }
    }

    /// Appends bytes to the dynamic section.
    pub fn lengthen(&mut self, bytes: usize, value: u8) {
        self.dynamic_section.extend(std::iter::repeat_n(value, bytes));
        self.dynamic_section.shrink_to_fit();
    }

    /// Takes bytes off the end of the dynamic section.
    pub fn shorten(&mut self, bytes: usize) {
        self.dynamic_section.truncate(self.dynamic_section.len().saturating_sub(bytes));
        self.dynamic_section.shrink_to_fit();
    }
}

/// All levels of this machine but the portable one, which is what they are compared with.
fn vector_levels() -> impl Iterator<Item = SimdLevel> {
    simd_levels().into_iter().filter(|level| *level != SimdLevel::Portable)
}

/// Decodes two sections on every level, and looks into them in the other ways that there are.
///
/// # Errors
/// If the sections are no frame of these values.
///
/// # Panics
/// If levels differ, or one way of decoding differs from the other.
pub fn check_decoded(
    decoder: &Decoder,
    layout: Layout,
    dtype: DType,
    count: usize,
    static_section: &[u8],
    dynamic_section: &[u8],
) -> Result<Vec<u8>, DecodeError> {
    let decode = |level| {
        let mut out = vec![0x5a; count * dtype.width()];
        with_simd(level, || decoder.decode(layout, dtype, static_section, dynamic_section, &mut out))?;
        Ok(out)
    };
    let first = decode(SimdLevel::Portable);
    for level in vector_levels() {
        assert!(decode(level) == first, "`{level}` reads it otherwise than the portable level");
    }
    // Whether it is one of this codec, and whether its tables are sound, has been found out above.
    let shape = FrameShape::new(layout, dtype, count);
    let usage = BookUsage::of_frame(shape, static_section, dynamic_section);
    assert!(!usage.is_ok_and(|usage| usage.coded + usage.stored > count), "more values than there are");
    if let Ok(Some(usage)) = decoder.table_usage(shape, static_section, dynamic_section) {
        assert!(usage.values() <= count as u64, "more values than there are");
        assert!(first.is_err() || usage.escapes <= usage.coded, "more escapes than values");
    }
    let joined = [static_section, dynamic_section].concat();
    if first.is_ok() {
        assert!(decoder.decompress(&joined) == first, "one buffer makes a difference");
    }
    first
}

/// Bytes of values that a fuzzer has no time and memory for.
const TOO_MANY: usize = 256 << 20;

/// Bytes that may be a frame of what their header says.
///
/// # Panics
/// If levels differ.
pub fn check_unknown(bytes: &[u8]) {
    let decoder = Decoder::new().max_values_len(TOO_MANY);
    let decode = |level| with_simd(level, || decoder.decompress(bytes));
    let first = decode(SimdLevel::Portable);
    for level in vector_levels() {
        assert!(decode(level) == first, "`{level}` reads it otherwise than the portable level");
    }
}

/// Bytes that an edit takes of the fuzzer's.
pub(crate) const EDIT_BYTES: usize = 8;

/// Most bytes that one edit writes, adds or takes.
const SPAN: usize = 24;

/// Changes a frame in one place.
///
/// # Errors
/// If there are too few bytes.
pub fn damage(frame: &mut Frame, input: &mut Unstructured<'_>) -> Arbitrary<()> {
    let kind = input.int_in_range(0..=8)?;
    let place = place(frame, input)?;
    let (value, other) = (input.arbitrary::<u8>()?, input.arbitrary::<u16>()?);
    let span = usize::from(other) % SPAN;
    match kind {
        0 => frame.set(place, |_| value),
        1 => frame.set(place, |byte| byte ^ 1 << (value % 8)),
        2 => frame.set(place, |byte| byte.wrapping_add(value)),
        // A number of two bytes, as tables have.
        3 => (0..2).for_each(|i| frame.set(place + i, |_| other.to_le_bytes()[i])),
        4 => (0..2).for_each(|i| frame.set(place + i, |byte| byte.wrapping_add(other.to_le_bytes()[i]))),
        5 => (0..span).for_each(|i| frame.set(place + i, |_| value)),
        // An entry of a table, or something else, in another place.
        6 => {
            let from = place + usize::from(value);
            let copied: Vec<u8> = (0..span).map(|i| frame.get(from + i)).collect();
            copied.into_iter().enumerate().for_each(|(i, byte)| frame.set(place + i, |_| byte));
        }
        7 => frame.lengthen(span, value),
        _ => frame.shorten(span),
    }
    Ok(())
}

/// A position in the sections, one after the other: in the tables, at the end, or anywhere.
fn place(frame: &Frame, input: &mut Unstructured<'_>) -> Arbitrary<usize> {
    let len = frame.len();
    Ok(match input.int_in_range(0..=7)? {
        0..=2 => 32 + usize::from(input.arbitrary::<u8>()? % 64),
        3 => len.saturating_sub(1 + usize::from(input.arbitrary::<u8>()? % 32)),
        4 => frame.static_len() + usize::from(input.arbitrary::<u8>()?),
        _ => {
            let share = usize::from(input.arbitrary::<u16>()?);
            (len * share) >> 16
        }
    })
}
