//! Eight bytes at a time in a 64-bit word: one bit of each brought together, and spread again.

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
