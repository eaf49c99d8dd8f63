//! Values that differ from those of a base: which ones, taken out, and put back.

/// The bits of a value of at most four bytes.
#[inline(always)]
pub(crate) fn array<const WIDTH: usize>(bytes: &[u8; WIDTH]) -> u32 {
    let mut all = [0; 4];
    all[..WIDTH].copy_from_slice(bytes);
    u32::from_le_bytes(all)
}

/// See [`super::Kernel::changes`].
pub(crate) fn changes(width: usize, values: &[u8], base: &[u8], mask: &mut [u8]) -> usize {
    match width {
        1 => changes_of::<1>(values, base, mask),
        2 => changes_of::<2>(values, base, mask),
        _ => changes_of::<4>(values, base, mask),
    }
}

fn changes_of<const WIDTH: usize>(values: &[u8], base: &[u8], mask: &mut [u8]) -> usize {
    let mut count = 0;
    for ((values, base), mask) in values.chunks(8 * WIDTH).zip(base.chunks(8 * WIDTH)).zip(mask) {
        *mask = 0;
        for (i, (value, base)) in
            values.as_chunks::<WIDTH>().0.iter().zip(base.as_chunks::<WIDTH>().0).enumerate()
        {
            *mask |= u8::from(value != base) << i;
        }
        count += mask.count_ones() as usize;
    }
    count
}

/// See [`super::Kernel::gather`].
pub(crate) fn gather(width: usize, mask: &[u8], from: &[u8], to: &mut [u8]) {
    let mut end = 0;
    for (from, mask) in from.chunks(8 * width).zip(mask) {
        let mut left = *mask;
        while left != 0 {
            let at = left.trailing_zeros() as usize * width;
            to[end..end + width].copy_from_slice(&from[at..at + width]);
            end += width;
            left &= left - 1;
        }
    }
}

/// See [`super::Kernel::scatter`].
pub(crate) fn scatter(width: usize, mask: &[u8], mut from: &[u8], to: &mut [u8]) {
    for (to, mask) in to.chunks_mut(8 * width).zip(mask) {
        let mut left = *mask;
        while left != 0 {
            let at = left.trailing_zeros() as usize * width;
            let value = from.split_off(..width).expect("there is a value for each bit");
            to[at..at + width].copy_from_slice(value);
            left &= left - 1;
        }
    }
}
