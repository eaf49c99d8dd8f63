//! All tiers of a block, or of a byte plane of its rest, read.

use super::geometry::BLOCK_VALUES;
use super::order::TIERS;
use crate::BlockFault;
use crate::kernel::Kernel;
use crate::kernel::tier::{LIST_PAD, Tier, ends_clear, plane_bytes};

/// Planes and escapes, padding included.
#[derive(Clone, Copy)]
pub(super) struct Coded<'a> {
    /// Planes of the first tier.
    pub(super) first: &'a [u8],
    /// Planes of the other tiers.
    pub(super) planes: &'a [u8],
    pub(super) escapes: &'a [u8],
}

/// A list with room for the values of a block: always up to where the padding begins.
pub(super) type List = [u8; BLOCK_VALUES + LIST_PAD];

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
    unpack_passed(kernel, list, tiers, counts, coded)?;
    unpack_tier(kernel, list, tiers, counts, 0, coded.first)
}

/// Leaves what the first tier passes on in the list.
///
/// # Errors
/// Unpacks the other tiers, as [`unpack`] does.
pub(super) fn unpack_passed(
    kernel: &Kernel,
    list: &mut List,
    tiers: &[Tier; TIERS],
    counts: &[u16; TIERS + 1],
    coded: Coded<'_>,
) -> Result<(), BlockFault> {
    let (escapes, padding) = coded.escapes.split_at(usize::from(counts[TIERS]));
    check_zero(padding)?;
    list[BLOCK_VALUES - escapes.len()..BLOCK_VALUES].copy_from_slice(escapes);
    let mut planes = coded.planes;
    for number in (1..TIERS).rev() {
        let (before, own) = planes.split_at(planes.len() - plane_bytes(usize::from(counts[number])));
        planes = before;
        unpack_tier(kernel, list, tiers, counts, number, own)?;
    }
    Ok(())
}

fn unpack_tier(
    kernel: &Kernel,
    list: &mut List,
    tiers: &[Tier; TIERS],
    counts: &[u16; TIERS + 1],
    number: usize,
    planes: &[u8],
) -> Result<(), BlockFault> {
    let (count, passed) = (usize::from(counts[number]), usize::from(counts[number + 1]));
    if !ends_clear(count, planes) {
        return Err(BlockFault::Padding);
    }
    (kernel.unpack_tier)(&mut list[BLOCK_VALUES - count..], passed, &tiers[number], planes)
        .map_err(|found| BlockFault::Passed { tier: number + 1, expected: passed, found })
}

/// The planes of the first tier end clear.
///
/// # Errors
/// If not.
pub(super) fn check_end(counts: &[u16; TIERS + 1], planes: &[u8]) -> Result<(), BlockFault> {
    if ends_clear(usize::from(counts[0]), planes) { Ok(()) } else { Err(BlockFault::Padding) }
}

/// The planes of the first tier have passed on as many values as the counts say.
///
/// # Errors
/// If not.
pub(super) fn check_passed(counts: &[u16; TIERS + 1], found: usize) -> Result<(), BlockFault> {
    let expected = usize::from(counts[1]);
    if found == expected { Ok(()) } else { Err(BlockFault::Passed { tier: 1, expected, found }) }
}

/// Checks that padding is zero.
///
/// # Errors
/// If it is not.
pub(super) fn check_zero(padding: &[u8]) -> Result<(), BlockFault> {
    if padding.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(BlockFault::Padding) }
}
