//! Bits of bytes in planes: for each 64 bytes a 64-bit word of each bit, the lowest bit first.

use super::WORD_VALUES;

/// See [`super::Kernel::pack_bits`].
pub(crate) fn pack_bits(bytes: &[u8], planes: usize, out: &mut [u8]) {
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

/// See [`super::Kernel::unpack_bits`].
pub(crate) fn unpack_bits(bits: &[u8], planes: usize, out: &mut [u8]) {
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
pub(crate) fn together(bytes: u64, position: u32) -> u8 {
    ((bytes >> position & LOW_BITS).wrapping_mul(TOGETHER) >> 56) as u8
}

/// Eight bytes with one bit each as bit 0, the lowest one in the first.
#[inline(always)]
pub(crate) fn spread(bits: u8) -> u64 {
    let spread = u64::from(bits).wrapping_mul(LOW_BITS) & DIAGONAL;
    // Each byte is a bit of its own or 0; the sum has the highest bit in the former case.
    (spread + 0x7f * LOW_BITS) >> 7 & LOW_BITS
}

/// The bytes, at most eight, as a word; absent ones are 0.
#[inline(always)]
pub(crate) fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
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
            assert_eq!(ones, bytes.iter().map(|byte| byte.count_ones()).sum());
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
}
