//! Choices of the encoder for a tile, and their encoding as an entry of the tile table.

use super::coder::{Choice, OWN};
use super::fields;
use super::geometry::{COMPACT_ENTRY, SPLIT_ENTRY, has_codes};
use crate::kernel::INDEX_GROUP;
use crate::tile::Mode;
use crate::{DType, TileFault};

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
        if self.short { 0 } else { fields::lower_width(dtype) }
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
        let short = tag & SHORT != 0 && fields::lower_width(dtype) > 0;
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
}
