//! Bits of bytes in planes: for each 64 bytes a 64-bit word of each bit, the lowest bit first.

use super::WORD_VALUES;
use super::eight::{spread, together, word};

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
}
