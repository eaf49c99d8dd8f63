//! Blocks and the parts of their bodies: what follows from the number of values in each tier.

use super::order::TIERS;
use crate::kernel::BASE_GROUP;
use crate::kernel::tier::plane_bytes;
use crate::tile::mask_len;

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
