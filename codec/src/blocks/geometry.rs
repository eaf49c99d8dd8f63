//! Parameters of a frame's format, and sizes of blocks and of the parts of frames, which follow from numbers of values.

use super::fields::Fields;
use super::rest::Shape;
use super::tiers::TIERS;
use crate::frame::HEADER_LEN;
use crate::kernel::BASE_GROUP;
use crate::kernel::bits::mask_len;
use crate::kernel::tier::plane_bytes;
use crate::{CHUNK_ALIGN, DType, Layout, sections};

/// Values of a block; the last one may have fewer.
pub(super) const BLOCK_VALUES: usize = 1 << 15;
/// Groups of a block.
pub(super) const BLOCK_GROUPS: usize = BLOCK_VALUES / BASE_GROUP;
/// Bytes of a value at most.
pub(super) const MAX_WIDTH: usize = 4;
/// Bytes of an entry of the block table.
pub(super) const ENTRY: usize = 12;
/// Parts of a body begin at multiples of this many bytes in it, if they are not lists of bytes.
pub(super) const ALIGN: usize = 8;

/// Bytes of the mask of `count` values and its padding.
pub(super) fn mask_bytes(count: usize) -> usize {
    mask_len(count).next_multiple_of(ALIGN)
}

/// Bytes of the planes of all tiers but the first, where `counts` values are in the tiers and among the escapes; and
/// bytes of the escapes and their padding.
pub(super) fn tail_bytes(counts: &[u16; TIERS + 1]) -> (usize, usize) {
    let planes = counts[1..TIERS].iter().map(|count| plane_bytes(usize::from(*count))).sum();
    (planes, usize::from(counts[TIERS]).next_multiple_of(ALIGN))
}

/// Bytes of the parts of a coded block of `count` values that are in the static section of the split layout: the rest, and the
/// first tier's planes if all blocks have them.
pub(super) fn head_bytes(coding: Coding, fields: Fields, count: usize) -> usize {
    let planes = match coding {
        Coding::Tiers => plane_bytes(count),
        Coding::Rans => 0,
    };
    planes + Shape::raw(fields, count).len()
}

/// Bytes that a block of `count` values takes in the static section of the split layout, in every form.
pub(super) fn static_body(coding: Coding, fields: Fields, count: usize) -> usize {
    head_bytes(coding, fields, count).min(fields.width() * count)
}

/// Bytes of header, block table and padding.
pub(super) fn front_len(layout: Layout, count: usize) -> usize {
    let align = match layout {
        Layout::Split => CHUNK_ALIGN,
        Layout::Compact => ALIGN,
    };
    (HEADER_LEN + ENTRY * count.div_ceil(BLOCK_VALUES)).next_multiple_of(align)
}

/// See [`crate::Codec::static_len`].
pub(super) fn static_len(Format { coding, layout, fields }: Format, count: usize) -> usize {
    let front_len = front_len(layout, count);
    sections::static_len(layout, count, BLOCK_VALUES, front_len, |count| static_body(coding, fields, count))
}

/// See [`crate::Codec::bound`].
pub(super) fn bound(layout: Layout, fields: Fields, count: usize) -> usize {
    sections::bound(count, fields.width(), front_len(layout, count))
}

/// How residuals are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// In tiers of two bits: all of them. The first tier is in front of the rest.
    Tiers = 2,
    /// By rANS with a table of the frame; by tiers, all of which are behind the rest, where that is shorter.
    Rans = 5,
}

/// Parameters on which the parts of a frame depend, beside its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub(super) coding: Coding,
    pub(super) layout: Layout,
    pub(super) fields: Fields,
}

impl Format {
    pub(super) fn new(coding: Coding, layout: Layout, dtype: DType) -> Self {
        Self { coding, layout, fields: Fields::of(dtype) }
    }
}

impl Coding {
    /// Tag in frame headers.
    pub(crate) const fn tag(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn lengths_by_hand() {
        let bf16 = Fields::of(DType::Bf16);
        assert_eq!([0, 1, 64, 65].map(|count| head_bytes(Coding::Tiers, bf16, count)), [0, 24, 80, 104]);
        assert_eq!([1, 12, 13, 64].map(|count| static_body(Coding::Tiers, bf16, count)), [2, 24, 26, 80]);
        assert_eq!(static_body(Coding::Tiers, bf16, BLOCK_VALUES), 40_960);
        assert_eq!(static_body(Coding::Tiers, bf16, BLOCK_VALUES) % CHUNK_ALIGN, 0);
        assert_eq!([1, 12, 13, 64].map(|count| static_body(Coding::Rans, bf16, count)), [2, 16, 16, 64]);
        assert_eq!([0, 1, 64, 65].map(mask_bytes), [0, 8, 8, 16]);
        assert_eq!(tail_bytes(&[9000, 65, 64, 1, 9]), (32 + 16 + 16, 16));
        assert_eq!(
            [0, BLOCK_VALUES, BLOCK_VALUES + 1].map(|count| front_len(Layout::Compact, count)),
            [32, 48, 56]
        );
        assert_eq!(front_len(Layout::Split, 9 * BLOCK_VALUES), 256);
    }

    #[test]
    fn counts_beyond_memory_saturate() {
        for (layout, dtype) in Layout::ALL.into_iter().zip([DType::Bf16, DType::F32]) {
            let fields = Fields::of(dtype);
            for count in [usize::MAX, usize::MAX - BLOCK_VALUES, usize::MAX / 2 + 1] {
                assert!(bound(layout, fields, count) >= usize::MAX - 1);
                for coding in [Coding::Tiers, Coding::Rans] {
                    let format = Format { coding, layout, fields };
                    assert!(static_len(format, count) <= bound(layout, fields, count));
                }
            }
        }
    }
}
