//! Lengths: what follows from the number of values.

use super::book::ENTRIES;
use super::fields::Fields;
use crate::header::HEADER_LEN;
use crate::kernel::TILE;
use crate::{CHUNK_ALIGN, Layout, sections};

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

/// See [`crate::Codec::static_len`].
pub(super) fn static_len(layout: Layout, fields: Fields, count: usize) -> usize {
    let front_len = front_len(layout, count);
    sections::static_len(layout, count, TILE, front_len, |count| static_body(fields, count))
}

/// See [`crate::Codec::bound`].
pub(super) fn bound(layout: Layout, fields: Fields, count: usize) -> usize {
    sections::bound(count, fields.width(), front_len(layout, count))
}

#[cfg(test)]
mod tests {
    use super::*;

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
