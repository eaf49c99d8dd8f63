//! All tiers of a block, or of a byte plane of its rest, read.

use super::geometry::BLOCK;
use super::order::TIERS;
use crate::BlockFault;
use crate::kernel::Kernel;
use crate::kernel::tier::{LIST_PAD, Tier, ends_clear, plane_bytes};

/// Planes and escapes, padding included.
#[derive(Clone, Copy)]
pub(super) struct Coded<'a> {
    /// Of the first tier.
    pub(super) first: &'a [u8],
    /// Of the others.
    pub(super) planes: &'a [u8],
    pub(super) escapes: &'a [u8],
}

/// A list with room for the values of a block: always up to where the padding begins.
pub(super) type List = [u8; BLOCK + LIST_PAD];

/// Leaves what the tiers, with these numbers of values, and escapes stand for in the list.
///
/// # Errors
/// If the planes contradict the numbers, or what fills them up is not zero.
pub(super) fn unpack(
    kernel: &Kernel,
    list: &mut List,
    tiers: &[Tier; TIERS],
    counts: &[u16; TIERS + 1],
    coded: Coded<'_>,
) -> Result<(), BlockFault> {
    let counts = counts.map(usize::from);
    let (escapes, padding) = coded.escapes.split_at(counts[TIERS]);
    check_zero(padding)?;
    list[BLOCK - escapes.len()..BLOCK].copy_from_slice(escapes);
    let mut planes = coded.planes;
    for (number, tier) in tiers.iter().enumerate().rev() {
        let (count, passed) = (counts[number], counts[number + 1]);
        let own = match number {
            0 => coded.first,
            _ => {
                let (before, own) = planes.split_at(planes.len() - plane_bytes(count));
                planes = before;
                own
            }
        };
        if !ends_clear(count, own) {
            return Err(BlockFault::Padding);
        }
        (kernel.unpack_tier)(&mut list[BLOCK - count..], passed, tier, own)
            .map_err(|found| BlockFault::Passed { tier: number + 1, expected: passed, found })?;
    }
    Ok(())
}

/// What fills up a part is zero.
///
/// # Errors
/// If it is not.
pub(super) fn check_zero(padding: &[u8]) -> Result<(), BlockFault> {
    if padding.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(BlockFault::Padding) }
}
