//! Bits of bytes in planes, for each 64 bytes a 64-bit word of each bit, the lowest bit first; and values that a mask of bits marks:
//! those that are not exactly zero, or differ from a base, taken out and put back.

use super::WORD_VALUES;

pub fn pack_bits(bytes: &[u8], planes: usize, out: &mut [u8]) {
    for (bytes, out) in bytes.chunks(WORD_VALUES).zip(out.chunks_mut(8 * planes)) {
        out.fill(0);
        for (i, bytes) in bytes.chunks(8).enumerate() {
            let bytes = word(bytes);
            for plane in 0..planes {
                out[8 * plane + i] = together(bytes, plane as u32);
            }
        }
    }
}

pub fn unpack_bits(bits: &[u8], planes: usize, out: &mut [u8]) {
    for (out, bits) in out.chunks_mut(WORD_VALUES).zip(bits.chunks(8 * planes)) {
        for (i, out) in out.chunks_mut(8).enumerate() {
            let bytes = (0..planes).fold(0, |bytes, plane| bytes | spread(bits[8 * plane + i]) << plane);
            out.copy_from_slice(&bytes.to_le_bytes()[..out.len()]);
        }
    }
}

/// Bits of a byte that are spread over eight bytes.
const DIAGONAL: u64 = 0x8040_2010_0804_0201;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;
/// Multiplied with eight bytes of 0 or 1, it brings their bits together in the highest byte.
const TOGETHER: u64 = 0x0102_0408_1020_4080;

/// Bit `position` of each of eight bytes, that of the first byte lowest.
#[inline(always)]
pub fn together(bytes: u64, position: u32) -> u8 {
    ((bytes >> position & LOW_BITS).wrapping_mul(TOGETHER) >> 56) as u8
}

/// Eight bytes with one bit each as bit 0, the lowest one in the first.
#[inline(always)]
pub fn spread(bits: u8) -> u64 {
    let spread = u64::from(bits).wrapping_mul(LOW_BITS) & DIAGONAL;
    // Each byte is a bit of its own or 0; the sum has the highest bit in the former case.
    (spread + 0x7f * LOW_BITS) >> 7 & LOW_BITS
}

/// The bytes, at most eight, as a word; absent ones are 0.
#[inline(always)]
pub fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

pub fn zeros<const WIDTH: usize>(values: &[u8]) -> usize {
    values.as_chunks::<WIDTH>().0.iter().map(|value| usize::from(*value == [0; WIDTH])).sum()
}

pub fn drop_zeros<const WIDTH: usize>(values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize {
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

pub fn restore_zeros<const WIDTH: usize>(mask: &[u8], kept: &[u8], out: &mut [u8]) {
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

/// The bits of a value of at most four bytes.
#[inline(always)]
pub fn array<const WIDTH: usize>(bytes: &[u8; WIDTH]) -> u32 {
    let mut all = [0; 4];
    all[..WIDTH].copy_from_slice(bytes);
    u32::from_le_bytes(all)
}

pub fn changes(width: usize, values: &[u8], base: &[u8], mask: &mut [u8]) -> usize {
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

pub fn gather(width: usize, mask: &[u8], from: &[u8], to: &mut [u8]) {
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

pub fn scatter(width: usize, mask: &[u8], mut from: &[u8], to: &mut [u8]) {
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

/// Bytes of a mask of `count` values, without padding.
pub fn mask_len(count: usize) -> usize {
    count.div_ceil(8)
}

/// How many of `count` values a mask marks; `None` if it marks something beyond.
pub fn marked(mask: &[u8], count: usize) -> Option<usize> {
    let beyond = match mask.last() {
        Some(bits) if !count.is_multiple_of(8) => bits >> (count % 8),
        _ => 0,
    };
    (beyond == 0).then(|| mask.iter().map(|bits| bits.count_ones() as usize).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_where_they_belong() {
        for (count, planes) in [0_usize, 1, 63, 64, 65, 256]
            .into_iter()
            .flat_map(|count| (1..8).map(move |planes| (count, planes)))
        {
            let bytes: Vec<u8> = (0..count as u32)
                .map(|i| (i.wrapping_mul(0x9e37_79b1) >> 20) as u8 >> (8 - planes))
                .collect();
            let mut bits = vec![0xa5; 8 * planes * count.div_ceil(WORD_VALUES)];
            pack_bits(&bytes, planes, &mut bits);
            for (i, byte) in bytes.iter().enumerate() {
                let bit = |plane: usize| bits[8 * (i / 64 * planes + plane) + i % 64 / 8] >> (i % 8) & 1;
                assert_eq!((0..planes).map(|plane| bit(plane) << plane).sum::<u8>(), *byte);
            }
            let ones: u32 = bits.iter().map(|bits| bits.count_ones()).sum();
            assert_eq!(ones, bytes.iter().map(|byte| byte.count_ones()).sum::<u32>());
            let mut back = vec![0xee; count];
            unpack_bits(&bits, planes, &mut back);
            assert_eq!(back, bytes);
        }
    }

    #[test]
    fn bits_are_those_of_the_bytes_in_order() {
        for bits in 0..=u8::MAX {
            let bytes = spread(bits).to_le_bytes();
            for (i, byte) in bytes.into_iter().enumerate() {
                assert_eq!(byte, bits >> i & 1);
            }
            for position in 0..8 {
                assert_eq!(together(spread(bits) << position | !(LOW_BITS << position), position), bits);
            }
        }
        assert_eq!(word(&[1, 2, 3]), 0x03_0201);
    }

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
