//! Positions of a few values in a block: how many there are in each group, and where in it.

use crate::BlockFault;

/// Values whose positions count from the same place: they have a byte each.
pub(super) const POSITION_GROUP: usize = 256;
/// Bytes of the mask of a group.
const MASK: usize = POSITION_GROUP / 8;

/// The number of bits that are set for each group, and their positions in it; `None` if all bits of a group are set.
pub(super) fn of_mask(mask: &[u8], numbers: &mut Vec<u8>, positions: &mut Vec<u8>) -> Option<()> {
    numbers.clear();
    positions.clear();
    for group in mask.chunks(MASK) {
        let before = positions.len();
        for (bits, first) in group.iter().zip((0..).step_by(8)) {
            let mut left = *bits;
            while left != 0 {
                positions.push((first + left.trailing_zeros()) as u8);
                left &= left - 1;
            }
        }
        numbers.push(u8::try_from(positions.len() - before).ok()?);
    }
    Some(())
}

/// The mask of `count` values, of which those at these positions are marked.
///
/// # Errors
/// If positions do not ascend, are beyond the last value, or are not as many as the numbers say.
pub(super) fn to_mask(
    numbers: &[u8],
    mut positions: &[u8],
    count: usize,
    mask: &mut [u8],
) -> Result<(), BlockFault> {
    mask.fill(0);
    for (group, number) in numbers.iter().enumerate() {
        let own = positions.split_off(..usize::from(*number)).ok_or(BlockFault::Positions)?;
        let ascend = own.is_sorted_by(|first, second| first < second);
        let last = own.last().map_or(0, |last| POSITION_GROUP * group + usize::from(*last));
        if !ascend || last >= count {
            return Err(BlockFault::Positions);
        }
        for position in own {
            mask[MASK * group + usize::from(*position) / 8] |= 1 << (position % 8);
        }
    }
    if positions.is_empty() { Ok(()) } else { Err(BlockFault::Positions) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_come_back_and_others_are_refused() {
        let count = 700;
        let mut mask = vec![0; 88];
        for position in [0, 3, 255, 600, 699] {
            mask[position / 8] |= 1 << (position % 8);
        }
        let (mut numbers, mut positions) = (vec![9], vec![9]);
        assert_eq!(of_mask(&mask, &mut numbers, &mut positions), Some(()));
        assert_eq!((&numbers[..], &positions[..]), (&[3, 0, 2][..], &[0, 3, 255, 88, 187][..]));
        let mut back = vec![0xff; 88];
        assert_eq!(to_mask(&numbers, &positions, count, &mut back), Ok(()));
        assert_eq!(back, mask);
        for (numbers, positions) in [
            ([3, 0, 2], [0, 0, 255, 88, 187]),
            ([3, 0, 2], [0, 3, 255, 88, 188]),
            ([3, 0, 1], [0, 3, 255, 88, 187]),
            ([3, 0, 3], [0, 3, 255, 88, 187]),
        ] {
            assert_eq!(to_mask(&numbers, &positions, count, &mut back), Err(BlockFault::Positions));
        }
        assert_eq!(of_mask(&[0xff; 32], &mut vec![], &mut vec![]), None);
    }
}
