//! Lengths: what follows from the number of values, and from the choices made for a tile.

use super::fields::lower_width;
use crate::header::HEADER_LEN;
use crate::kernel::{CODE_GROUP, INDEX_GROUP, TILE};
use crate::{CHUNK_ALIGN, DType, Layout, sections};

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

/// See [`crate::Codec::static_len`].
pub(super) fn static_len(layout: Layout, dtype: DType, count: usize) -> usize {
    sections::static_len(layout, count, TILE, front_len(layout, count), |count| static_body(dtype, count))
}

/// See [`crate::Codec::bound`].
pub(super) fn bound(layout: Layout, dtype: DType, count: usize) -> usize {
    sections::bound(count, dtype.width(), front_len(layout, count))
}

#[cfg(test)]
mod tests {
    use super::*;

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
