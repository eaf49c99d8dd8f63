//! Taking exact zeros out of a tile and putting them back: values of `WIDTH` bytes.

/// See [`super::Kernel::zeros`].
pub(crate) fn zeros<const WIDTH: usize>(values: &[u8]) -> usize {
    values.as_chunks::<WIDTH>().0.iter().map(|value| usize::from(*value == [0; WIDTH])).sum()
}

/// See [`super::Kernel::drop_zeros`].
pub(crate) fn drop_zeros<const WIDTH: usize>(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize {
    let kept = kept.as_chunks_mut::<WIDTH>().0;
    let mut count = 0;
    for (values, mask) in values.chunks(8 * WIDTH).zip(mask) {
        let mut bits = 0;
        for (i, value) in values.as_chunks::<WIDTH>().0.iter().enumerate() {
            // Written even if it is zero: then the next value takes its place.
            kept[count] = *value;
            let nonzero = *value != [0; WIDTH];
            bits |= u8::from(nonzero) << i;
            count += usize::from(nonzero);
        }
        *mask = bits;
    }
    count
}

/// See [`super::Kernel::restore_zeros`].
pub(crate) fn restore_zeros<const WIDTH: usize>(mask: &[u8], kept: &[u8], out: &mut [u8]) {
    out.fill(0);
    let mut kept = kept.as_chunks::<WIDTH>().0.iter();
    for (bits, out) in mask.iter().zip(out.chunks_mut(8 * WIDTH)) {
        let out = out.as_chunks_mut::<WIDTH>().0;
        let mut bits = *bits;
        while bits != 0 {
            if let (Some(slot), Some(value)) = (out.get_mut(bits.trailing_zeros() as usize), kept.next()) {
                *slot = *value;
            }
            bits &= bits - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_come_back_where_they_were_and_minus_zero_is_kept() {
        comes_back::<2>([0u16, 0x8000, 0, 0x3f80, 0x00ff].map(u16::to_le_bytes));
        comes_back::<4>([0u32, 1 << 31, 0, 1, 0x3f80_0000].map(u32::to_le_bytes));
    }

    fn comes_back<const WIDTH: usize>(kinds: [[u8; WIDTH]; 5]) {
        for count in 0..70usize {
            let values: Vec<u8> = (0..count).flat_map(|i| kinds[i * i % 5]).collect();
            let (mut mask, mut kept) = (vec![0xff; count.div_ceil(8)], vec![0xff; values.len()]);
            let kept_count = drop_zeros::<WIDTH>(&values, &mut mask, &mut kept);
            assert_eq!(kept_count, count - zeros::<WIDTH>(&values));
            assert_eq!(mask.iter().map(|bits| bits.count_ones() as usize).sum::<usize>(), kept_count);
            let mut out = vec![0xff; values.len()];
            restore_zeros::<WIDTH>(&mask, &kept[..WIDTH * kept_count], &mut out);
            assert_eq!(out, values);
        }
    }
}
