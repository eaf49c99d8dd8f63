//! Choices of the encoder for a tile, and their encoding as an entry of the tile table.

use super::escapes::Positions;
use super::fields::Fields;
use super::geometry::{ENTRY, coded_len};
use crate::tile::Mode;
use crate::{Layout, TileFault};

/// Entry of the tile table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Form of the body.
    pub(crate) mode: Mode,
    /// How the positions of escapes are written; wide if there are none.
    pub(super) positions: Positions,
    /// Number of coded values that the book has no code for.
    pub(crate) escapes: u16,
    /// Number of coded values: those of the tile, or those that are not +0. Zero if nothing is coded.
    pub(crate) coded: u16,
}

impl Entry {
    /// A tile without coded values.
    pub(super) fn uncoded(mode: Mode) -> Self {
        Self { mode, positions: Positions::Wide, escapes: 0, coded: 0 }
    }

    /// The bytes in the table.
    pub(super) fn to_bytes(self) -> [u8; ENTRY] {
        let [escapes_low, escapes_high] = self.escapes.to_le_bytes();
        let [coded_low, coded_high] = self.coded.to_le_bytes();
        [self.mode.tag(), self.positions as u8, escapes_low, escapes_high, coded_low, coded_high]
    }

    /// Reads the entry of a tile of `count` values.
    ///
    /// # Errors
    /// If no encoder writes such an entry, the order of lengths apart.
    pub(super) fn from_bytes(
        bytes: [u8; ENTRY],
        layout: Layout,
        fields: Fields,
        count: usize,
    ) -> Result<Self, TileFault> {
        let [tag, positions, escapes_low, escapes_high, coded_low, coded_high] = bytes;
        let mode = Mode::from_tag(tag)?;
        let positions =
            *Positions::ALL.get(usize::from(positions)).ok_or(TileFault::EscapeForm(positions))?;
        let escapes = u16::from_le_bytes([escapes_low, escapes_high]);
        let coded = u16::from_le_bytes([coded_low, coded_high]);
        let entry = Self { mode, positions, escapes, coded };
        let compact = layout == Layout::Compact;
        match mode {
            Mode::Zero | Mode::Masked if !compact => return Err(TileFault::Mode(tag)),
            Mode::Coded if !compact && coded_len(fields, count) >= fields.width() * count => {
                return Err(TileFault::Mode(tag));
            }
            Mode::Stored | Mode::Zero if entry != Self::uncoded(mode) => return Err(TileFault::UnusedField),
            _ => mode.check_counts(coded, escapes, count)?,
        }
        if escapes == 0 && positions == Positions::Narrow {
            return Err(TileFault::EscapeForm(positions as u8));
        }
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: [u8; ENTRY], layout: Layout, count: usize) -> Result<Entry, TileFault> {
        Entry::from_bytes(bytes, layout, Fields::Bf16, count)
    }

    #[test]
    fn entries_come_back() {
        let masked =
            Entry { mode: Mode::Masked, positions: Positions::Narrow, escapes: 0x0102, coded: 0x0304 };
        assert_eq!(masked.to_bytes(), [3, 1, 2, 1, 4, 3]);
        assert_eq!(read(masked.to_bytes(), Layout::Compact, 8192), Ok(masked));
        assert_eq!(read(masked.to_bytes(), Layout::Split, 8192), Err(TileFault::Mode(3)));
        let coded = Entry { mode: Mode::Coded, positions: Positions::Wide, escapes: 9, coded: 8192 };
        assert_eq!(read(coded.to_bytes(), Layout::Split, 8192), Ok(coded));
    }

    #[test]
    fn entries_that_no_encoder_writes_are_refused() {
        let (split, compact) = (Layout::Split, Layout::Compact);
        assert_eq!(read([4, 0, 0, 0, 0, 0], compact, 100), Err(TileFault::Mode(4)));
        assert_eq!(read([2, 0, 0, 0, 0, 0], split, 100), Err(TileFault::Mode(2)));
        // One value takes two bytes in either form; E4M3 never shrinks.
        assert_eq!(read([0, 0, 0, 0, 1, 0], split, 1), Err(TileFault::Mode(0)));
        let bytes = [0, 0, 0, 0, 100, 0];
        assert_eq!(Entry::from_bytes(bytes, split, Fields::E4m3, 100), Err(TileFault::Mode(0)));
        assert_eq!(read([0, 2, 1, 0, 100, 0], split, 100), Err(TileFault::EscapeForm(2)));
        assert_eq!(read([0, 1, 0, 0, 100, 0], split, 100), Err(TileFault::EscapeForm(1)));
        assert_eq!(read([1, 0, 1, 0, 0, 0], split, 100), Err(TileFault::UnusedField));
        assert_eq!(read([2, 0, 0, 0, 1, 0], compact, 100), Err(TileFault::UnusedField));
        assert_eq!(read([0, 0, 0, 0, 99, 0], compact, 100), Err(TileFault::UnusedField));
        let fault = TileFault::EscapeCount { expected: 101, found: 100 };
        assert_eq!(read([0, 0, 101, 0, 100, 0], split, 100), Err(fault));
        let fault = TileFault::MaskCount { expected: 100, found: 100 };
        assert_eq!(read([3, 0, 0, 0, 100, 0], compact, 100), Err(fault));
    }
}
