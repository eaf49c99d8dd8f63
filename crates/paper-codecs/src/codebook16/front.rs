//! Front matter: header, book, tile table with the choices of the encoder, padding; and lengths that follow from the number of values.

use super::book::{Codebook, ENTRIES};
use super::escapes::Positions;
use super::fields::Fields;
use crate::error::{TileFault, in_tile};
use crate::kernel::TILE;
use crate::tile::Mode;
use zipwire_codec::frame::HEADER_LEN;
use zipwire_codec::sections::{self, Body, Reader};
use zipwire_codec::{CHUNK_ALIGN, DecodeError, Layout};

/// Front matter of a frame, parsed, and the sections behind it.
pub(crate) struct Front<'a> {
    layout: Layout,
    pub(super) fields: Fields,
    /// Number of values.
    count: usize,
    /// All of it, and what follows.
    pub(super) sections: Reader<'a>,
    /// The book of the frame.
    pub(crate) book: Codebook,
    table: &'a [[u8; ENTRY]],
}

impl<'a> Front<'a> {
    /// Reads the front matter of a frame of `count` values.
    pub(crate) fn read(body: &Body<'a>, count: usize) -> Result<Self, DecodeError> {
        let Body { layout, dtype, .. } = *body;
        let unsupported = DecodeError::Unsupported { codec: super::super::Codebook16::ID, dtype };
        let fields = Fields::of(dtype).ok_or(unsupported)?;
        let sections = Reader::new(body, front_len(layout, count))?;
        let bytes = sections.front;
        let exponents: [u8; ENTRIES] = std::array::from_fn(|i| bytes[HEADER_LEN + i]);
        let book = match body.table {
            Some(table) if exponents == [0; ENTRIES] => Codebook::from_table(dtype, table)?,
            Some(_) => return Err(DecodeError::Padding),
            None => Codebook::from_exponents(dtype, exponents)?,
        };
        let (table, padding) = bytes[TABLE..].split_at(ENTRY * count.div_ceil(TILE));
        if padding.iter().any(|byte| *byte != 0) {
            return Err(DecodeError::Padding);
        }
        let table = table.as_chunks().0;
        Ok(Self { layout, fields, count, sections, book, table })
    }

    /// The entry of a tile.
    pub(crate) fn entry(&self, tile: usize) -> Result<Entry, DecodeError> {
        let count = (self.count - tile * TILE).min(TILE);
        Entry::from_bytes(self.table[tile], self.layout, self.fields, count)
            .map_err(|fault| in_tile(super::Codebook16::ID, tile, fault))
    }

    /// Number of tiles.
    pub(crate) fn tiles(&self) -> usize {
        self.table.len()
    }
}

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

/// Bytes of an entry of the tile table.
pub(super) const ENTRY: usize = 6;
/// Offset of the tile table: behind header and book.
pub(super) const TABLE: usize = HEADER_LEN + ENTRIES;

/// Bytes of rests and codes of `count` values.
pub(super) fn coded_len(fields: Fields, count: usize) -> usize {
    fields.rest_len(count) + count.div_ceil(2)
}

/// Bytes that a tile of `count` values takes in the static section of the split layout, in every mode.
pub(super) fn static_body(fields: Fields, count: usize) -> usize {
    coded_len(fields, count).min(fields.width() * count)
}

/// Bytes of header, book, tile table and padding.
pub(super) fn front_len(layout: Layout, count: usize) -> usize {
    let len = TABLE + ENTRY * count.div_ceil(TILE);
    match layout {
        Layout::Split => len.next_multiple_of(CHUNK_ALIGN),
        Layout::Compact => len,
    }
}

/// See [`zipwire_codec::Codec::static_len`].
pub(super) fn static_len(layout: Layout, fields: Fields, count: usize) -> usize {
    let front_len = front_len(layout, count);
    sections::static_len(layout, count, TILE, front_len, |count| static_body(fields, count))
}

/// See [`zipwire_codec::Codec::bound`].
pub(super) fn bound(layout: Layout, fields: Fields, count: usize) -> usize {
    sections::bound(count, fields.width(), front_len(layout, count))
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

    #[test]
    fn lengths_by_hand() {
        assert_eq!([0, 1, 2, 3, TILE].map(|count| coded_len(Fields::Bf16, count)), [0, 2, 3, 5, 12_288]);
        assert_eq!([1, 64, 65, TILE].map(|count| coded_len(Fields::E5m2, count)), [25, 56, 81, 7168]);
        assert_eq!([1, 64, TILE].map(|count| static_body(Fields::E5m2, count)), [1, 56, 7168]);
        assert_eq!([1, 64, TILE].map(|count| static_body(Fields::E4m3, count)), [1, 64, TILE]);
        for fields in [Fields::Bf16, Fields::E4m3, Fields::E5m2] {
            assert_eq!(static_body(fields, TILE) % CHUNK_ALIGN, 0);
        }
        assert_eq!([0, 1, TILE + 1].map(|count| front_len(Layout::Compact, count)), [48, 54, 60]);
        assert_eq!([0, 13 * TILE, 14 * TILE].map(|count| front_len(Layout::Split, count)), [128, 128, 256]);
    }

    #[test]
    fn counts_beyond_memory_saturate() {
        for layout in Layout::ALL {
            for count in [usize::MAX, usize::MAX - TILE, usize::MAX / 2 + 1] {
                assert!(bound(layout, Fields::Bf16, count) >= usize::MAX - 1);
                assert!(static_len(layout, Fields::Bf16, count) <= bound(layout, Fields::Bf16, count));
            }
        }
    }
}
