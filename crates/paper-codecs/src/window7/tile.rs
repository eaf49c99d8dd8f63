//! Tiles: choices of the encoder and their entry in the tile table, lengths that follow from the number of values, and the two
//! types: BF16 values are coded as they are, FP32 values by their upper halves, beside lower halves as they are.

use super::coder::{Choice, OWN};
use crate::error::TileFault;
use crate::kernel::{CODE_GROUP, INDEX_GROUP, Kernel, TILE};
use crate::tile::Mode;
use zipwire_codec::checksum::WORD;
use zipwire_codec::frame::HEADER_LEN;
use zipwire_codec::streaming_store::{STRIP_BYTES, StreamingStore};
use zipwire_codec::{CHUNK_ALIGN, DType, Layout, sections};

/// Set beside the mode of a tile of FP32 values whose lower halves are left out.
const SHORT: u8 = 0x80;

/// Entry of the tile table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    /// Form of the body.
    pub(super) mode: Mode,
    /// Whether all lower halves are 0, and left out. FP32 in the compact layout only.
    pub(super) short: bool,
    /// First exponent of the window, or [`OWN`]; 0 if nothing is coded.
    pub(super) start: u8,
    /// Number of coded values whose exponent is outside the window.
    pub(super) escapes: u16,
    /// Number of coded values: those of the tile, or those that are not +0. Zero if nothing is coded.
    pub(super) coded: u16,
}

impl Tile {
    /// A tile without coded values.
    pub(super) fn uncoded(mode: Mode) -> Self {
        Self { mode, short: false, start: 0, escapes: 0, coded: 0 }
    }

    /// A tile with `count` coded values.
    pub(super) fn coded(mode: Mode, choice: &Choice<'_>, count: usize) -> Self {
        let (start, escapes) = (choice.start, choice.escapes.len() as u16);
        Self { mode, short: false, start, escapes, coded: count as u16 }
    }

    /// Bytes of the starts of windows that groups have of their own.
    pub(super) fn windows(&self) -> usize {
        if self.start == OWN { usize::from(self.coded).div_ceil(INDEX_GROUP) } else { 0 }
    }

    /// Bytes of a lower half in the body.
    pub(super) fn lower_width(&self, dtype: DType) -> usize {
        if self.short { 0 } else { lower_width(dtype) }
    }

    /// The entry in the split layout, where the number of coded values goes without saying.
    pub(super) fn to_split(self) -> [u8; SPLIT_ENTRY] {
        let [low, high] = self.escapes.to_le_bytes();
        [self.start, self.mode.tag() | if self.short { SHORT } else { 0 }, low, high]
    }

    /// The entry in the compact layout.
    pub(super) fn to_compact(self) -> [u8; COMPACT_ENTRY] {
        let [start, mode, escapes_low, escapes_high] = self.to_split();
        let [low, high] = self.coded.to_le_bytes();
        [start, mode, escapes_low, escapes_high, low, high]
    }

    /// Reads the entry of a tile of `count` values in the split layout.
    ///
    /// # Errors
    /// If no encoder writes such an entry, the order of lengths apart.
    pub(super) fn from_split(entry: [u8; SPLIT_ENTRY], count: usize) -> Result<Self, TileFault> {
        let [start, mode, low, high] = entry;
        const CODED: u8 = Mode::Coded as u8;
        const STORED: u8 = Mode::Stored as u8;
        let coded = match mode {
            CODED if has_codes(count) => count as u16,
            STORED => 0,
            _ => return Err(TileFault::Mode(mode)),
        };
        let [coded_low, coded_high] = coded.to_le_bytes();
        // Neither mode depends on the type.
        Self::from_compact([start, mode, low, high, coded_low, coded_high], count, DType::Bf16)
    }

    /// Reads the entry of a tile of `count` values in the compact layout.
    ///
    /// # Errors
    /// If no encoder writes such an entry, the order of lengths apart.
    pub(super) fn from_compact(
        entry: [u8; COMPACT_ENTRY],
        count: usize,
        dtype: DType,
    ) -> Result<Self, TileFault> {
        let [start, tag, low, high, coded_low, coded_high] = entry;
        let short = tag & SHORT != 0 && lower_width(dtype) > 0;
        let mode = Mode::from_tag(if short { tag & !SHORT } else { tag })?;
        let escapes = u16::from_le_bytes([low, high]);
        let coded = u16::from_le_bytes([coded_low, coded_high]);
        let tile = Self { mode, short, start, escapes, coded };
        if matches!(mode, Mode::Stored | Mode::Zero) && tile != Self::uncoded(mode) {
            return Err(TileFault::UnusedField);
        }
        mode.check_counts(coded, escapes, count)?;
        if start > crate::scale::LAST_START && start != OWN {
            return Err(TileFault::WindowStart(start));
        }
        Ok(tile)
    }
}

/// A type of values, and the kernel for it.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    kernel: &'static Kernel,
    dtype: DType,
}

/// Room for the BF16 values of a tile.
pub(super) type Upper = [u8; 2 * TILE];

const _: () = assert!(2 * TILE <= STRIP_BYTES);

impl Fields {
    pub(super) fn of(kernel: &'static Kernel, dtype: DType) -> Self {
        debug_assert!(supports(dtype));
        Self { kernel, dtype }
    }

    /// Bytes of a value.
    pub(super) fn width(self) -> usize {
        self.dtype.width()
    }

    /// Bytes of a value's lower half, if it has one.
    pub(super) fn lower_width(self) -> usize {
        lower_width(self.dtype)
    }

    /// Whether decoded values, `len` bytes in all, are to be written past the caches. A tile of FP32 values is longer than
    /// a strip.
    pub(super) fn streaming<'a>(self, len: usize) -> Option<StreamingStore<'a>> {
        if self.dtype == DType::Bf16 { StreamingStore::of_large(self.kernel, len) } else { None }
    }

    /// The values as BF16; `room` is for those that are not yet.
    pub(super) fn upper<'a>(self, values: &'a [u8], room: &'a mut Upper) -> &'a [u8] {
        if self.dtype == DType::Bf16 {
            return values;
        }
        let upper = &mut room[..values.len() / 2];
        (self.kernel.upper_halves)(values, upper);
        upper
    }

    /// Index of the first word of tile `number` in the checksum, if packing and unpacking see its values.
    pub(super) fn word(self, number: usize) -> Option<u64> {
        (self.dtype == DType::Bf16).then(|| (number * 2 * TILE / WORD) as u64)
    }

    /// Writes the lower halves, if there are any; returns whether any of them is not 0.
    pub(super) fn write_lower(self, values: &[u8], lower: &mut [u8]) -> bool {
        self.dtype != DType::Bf16 && (self.kernel.lower_halves)(values, lower)
    }

    /// Writes values whose upper halves are what `unpack` writes.
    pub(super) fn join<E>(
        self,
        lower: &[u8],
        out: &mut [u8],
        room: &mut Upper,
        unpack: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.dtype == DType::Bf16 {
            return unpack(out);
        }
        let upper = &mut room[..out.len() / 2];
        unpack(upper)?;
        (self.kernel.join_halves)(upper, lower, out);
        Ok(())
    }

    /// How many values are exactly +0.
    pub(super) fn zeros(self, values: &[u8]) -> usize {
        match self.dtype {
            DType::Bf16 => (self.kernel.zeros)(values),
            _ => (self.kernel.zeros_32)(values),
        }
    }

    /// See [`Kernel::drop_zeros`].
    pub(super) fn drop_zeros(self, values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize {
        match self.dtype {
            DType::Bf16 => (self.kernel.drop_zeros)(values, mask, kept),
            _ => (self.kernel.drop_zeros_32)(values, mask, kept),
        }
    }

    /// See [`Kernel::restore_zeros`].
    pub(super) fn restore_zeros(self, mask: &[u8], kept: &[u8], out: &mut [u8]) {
        match self.dtype {
            DType::Bf16 => (self.kernel.restore_zeros)(mask, kept, out),
            _ => (self.kernel.restore_zeros_32)(mask, kept, out),
        }
    }
}

/// Whether the codec has a form for values of this type.
pub(super) fn supports(dtype: DType) -> bool {
    matches!(dtype, DType::Bf16 | DType::F32)
}

/// Bytes of what a value has beside its upper half.
pub(super) fn lower_width(dtype: DType) -> usize {
    dtype.width() - 2
}

/// Bytes of an entry of the tile table in the split layout.
pub(super) const SPLIT_ENTRY: usize = 4;
/// Bytes of an entry of the tile table in the compact layout.
pub(super) const COMPACT_ENTRY: usize = 6;

/// Bytes of the codes of `count` values: 12 for each 32, or part of 32, in a group of 1024.
pub(super) fn code_bytes(count: usize) -> usize {
    count / CODE_GROUP * (CODE_GROUP / 8 * 3) + (count % CODE_GROUP).div_ceil(32) * 12
}

/// Bytes that a tile of `count` values takes in the static section of the split layout, in every mode.
pub(super) fn static_body(dtype: DType, count: usize) -> usize {
    ((lower_width(dtype) + 1) * count + code_bytes(count)).min(dtype.width() * count)
}

/// Whether a tile of `count` values can be coded in the split layout at all. Tiny ones cannot.
pub(super) fn has_codes(count: usize) -> bool {
    code_bytes(count) < count
}

/// Bytes of the escape index of a body in the compact layout: there is one only where a decoder could need it, and its
/// first entry, always 0, is left out.
pub(super) fn compact_index(coded: usize, escapes: usize) -> usize {
    if escapes == 0 { 0 } else { 2 * (coded.div_ceil(INDEX_GROUP) - 1) }
}

/// Bytes of header, tile table and padding.
pub(super) fn front_len(layout: Layout, count: usize) -> usize {
    let tiles = count.div_ceil(TILE);
    match layout {
        Layout::Split => {
            (HEADER_LEN + SPLIT_ENTRY * tiles + 2 * count.div_ceil(INDEX_GROUP)).next_multiple_of(CHUNK_ALIGN)
        }
        Layout::Compact => HEADER_LEN + COMPACT_ENTRY * tiles,
    }
}

/// See [`zipwire_codec::Codec::static_len`].
pub(super) fn static_len(layout: Layout, dtype: DType, count: usize) -> usize {
    sections::static_len(layout, count, TILE, front_len(layout, count), |count| static_body(dtype, count))
}

/// See [`zipwire_codec::Codec::bound`].
pub(super) fn bound(layout: Layout, dtype: DType, count: usize) -> usize {
    sections::bound(count, dtype.width(), front_len(layout, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let masked = Tile { mode: Mode::Masked, short: false, start: 249, escapes: 0x0102, coded: 0x0304 };
        assert_eq!(masked.to_compact(), [249, 3, 2, 1, 4, 3]);
        assert_eq!(Tile::from_compact(masked.to_compact(), 8192, DType::Bf16), Ok(masked));
        assert_eq!(Tile::from_split(masked.to_split(), 8192), Err(TileFault::Mode(3)));
        let coded = Tile { mode: Mode::Coded, short: false, start: OWN, escapes: 9, coded: 8192 };
        assert_eq!(Tile::from_split(coded.to_split(), 8192), Ok(coded));
        assert_eq!(Tile::from_compact(coded.to_compact(), 8192, DType::Bf16), Ok(coded));
        assert_eq!((coded.windows(), masked.windows()), (16, 0));
        let short = Tile { short: true, ..masked };
        assert_eq!(short.to_compact()[1], 0x83);
        assert_eq!(Tile::from_compact(short.to_compact(), 8192, DType::F32), Ok(short));
        assert_eq!([masked, short].map(|tile| tile.lower_width(DType::F32)), [2, 0]);
    }

    #[test]
    fn entries_that_no_encoder_writes_are_refused() {
        let compact = |entry| Tile::from_compact(entry, 100, DType::Bf16);
        assert_eq!(Tile::from_split([0, 4, 0, 0], 100), Err(TileFault::Mode(4)));
        assert_eq!(Tile::from_split([0, 0x80, 0, 0], 100), Err(TileFault::Mode(0x80)));
        assert_eq!(Tile::from_split([0, 0, 0, 0], 12), Err(TileFault::Mode(0)));
        assert_eq!(Tile::from_split([250, 0, 0, 0], 100), Err(TileFault::WindowStart(250)));
        assert_eq!(Tile::from_split([0, 1, 1, 0], 100), Err(TileFault::UnusedField));
        assert_eq!(Tile::from_split([OWN, 1, 0, 0], 100), Err(TileFault::UnusedField));
        let found = TileFault::EscapeCount { expected: 101, found: 100 };
        assert_eq!(Tile::from_split([0, 0, 101, 0], 100), Err(found));
        assert_eq!(compact([0, 0x80, 0, 0, 100, 0]), Err(TileFault::Mode(0x80)));
        assert_eq!(Tile::from_compact([0, 0x81, 0, 0, 0, 0], 100, DType::F32), Err(TileFault::UnusedField));
        assert_eq!(compact([0, 2, 0, 0, 1, 0]), Err(TileFault::UnusedField));
        assert_eq!(compact([0, 0, 0, 0, 99, 0]), Err(TileFault::UnusedField));
        let found = TileFault::MaskCount { expected: 100, found: 100 };
        assert_eq!(compact([0, 3, 0, 0, 100, 0]), Err(found));
    }

    #[test]
    fn lengths_by_hand() {
        let codes =
            [(0, 0), (1, 12), (32, 12), (33, 24), (1023, 384), (1024, 384), (1025, 396), (TILE, 3072)];
        for (count, bytes) in codes {
            assert_eq!(code_bytes(count), bytes, "{count} values");
        }
        let static_bodies = |dtype| [1, 12, 13, 24, 25, TILE].map(|count| static_body(dtype, count));
        assert_eq!(static_bodies(DType::Bf16), [2, 24, 25, 36, 37, 11264]);
        assert_eq!(static_bodies(DType::F32), [4, 48, 51, 84, 87, 27648]);
        assert_eq!([0, 1, 12, 13, TILE].map(has_codes), [false, false, false, true, true]);
        assert_eq!(front_len(Layout::Split, 0), 128);
        // 32 of header, 4 * 5 of table, 2 * 65 of index: 182 bytes.
        assert_eq!(front_len(Layout::Split, 4 * TILE + 1), 256);
        assert_eq!(front_len(Layout::Compact, 4 * TILE + 1), 62);
        assert_eq!(static_len(Layout::Split, DType::Bf16, 4 * TILE + 1), 256 + 4 * 11264 + 2);
        assert_eq!(static_len(Layout::Split, DType::F32, 4 * TILE + 1), 256 + 4 * 27648 + 4);
        assert_eq!([DType::Bf16, DType::F32].map(|dtype| static_body(dtype, TILE) % CHUNK_ALIGN), [0, 0]);
        assert_eq!(
            [(512, 9), (513, 9), (513, 0), (TILE, 1)].map(|(m, e)| compact_index(m, e)),
            [0, 2, 0, 30]
        );
    }

    #[test]
    fn counts_beyond_memory_saturate() {
        for layout in Layout::ALL {
            for count in [usize::MAX, usize::MAX - TILE, usize::MAX / 2 + 1] {
                for dtype in [DType::Bf16, DType::F32] {
                    assert!(bound(layout, dtype, count) >= usize::MAX - 1);
                    assert!(static_len(layout, dtype, count) <= bound(layout, dtype, count));
                }
            }
        }
    }
}
