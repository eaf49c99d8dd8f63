//! Sizes of chunks, groups and front matter.

use super::Scheme;
use crate::header::HEADER_LEN;
use crate::{DType, FrameShape, Layout, sections};

/// Bytes of a chunk of ZipNN (section 5).
const GROUPED_CHUNK: usize = 256 << 10;
/// Bytes of a block of LMC, which are those of one group: values of a chunk.
const BLOCKWISE_CHUNK: usize = 64 << 10;
/// Bytes of an entry of the chunk map.
pub(super) const ENTRY: usize = 3;

/// Values of each chunk but the last, which may have fewer. Whole blocks of the checksum.
pub(crate) const fn chunk_values(scheme: Scheme, dtype: DType) -> usize {
    match scheme {
        Scheme::Grouped => GROUPED_CHUNK / dtype.width(),
        Scheme::Blockwise => BLOCKWISE_CHUNK,
    }
}

/// Groups of a chunk whose lengths the chunk map has: all, or in the split layout the first.
pub(super) fn mapped_groups(layout: Layout, dtype: DType) -> usize {
    match layout {
        Layout::Split => 1,
        Layout::Compact => dtype.width(),
    }
}

/// Bytes of front matter: the header and the chunk map, an entry for each mapped group of each chunk. Saturates.
pub(crate) fn front_len(scheme: Scheme, FrameShape { layout, dtype, count }: FrameShape) -> usize {
    let entries = count.div_ceil(chunk_values(scheme, dtype)) * mapped_groups(layout, dtype);
    entries.saturating_mul(ENTRY).saturating_add(HEADER_LEN)
}

/// See [`crate::Codec::static_len`].
pub(crate) fn static_len(scheme: Scheme, shape: FrameShape) -> usize {
    match shape.layout {
        Layout::Split => {
            shape.count.saturating_mul(shape.dtype.width() - 1).saturating_add(front_len(scheme, shape))
        }
        Layout::Compact => 0,
    }
}

/// See [`crate::Codec::bound`].
pub(crate) fn bound(scheme: Scheme, shape: FrameShape) -> usize {
    sections::bound(shape.count, shape.dtype.width(), front_len(scheme, shape))
}
