//! The checksum of frames: a sum over words, each mixed with its position.
//!
//! A sum does not care about order, so lanes, threads and GPU blocks add up their own words and then their sums. The mix
//! is a bijection of the word at every position, so a change of a single word always changes the sum; other changes go
//! unnoticed with probability 2^-32. It finds accidents, not attacks.
//!
//! Words of values have indexes from 0 up, words of the front matter (header included) from 2^64 - 1 down.

use crate::kernel::Kernel;

/// Multiplier of the low half of the index. These three are the primes of XXH32.
pub(crate) const INDEX_LOW: u32 = 0x9e37_79b1;
/// Multiplier of the high half of the index.
pub(crate) const INDEX_HIGH: u32 = 0xc2b2_ae3d;
pub(crate) const FACTOR: u32 = 0x85eb_ca77;

/// Bytes that a kernel sums in one call at most: within them the high half of the index is constant, if the first
/// index is a multiple of their number of words.
pub(crate) const BLOCK_BYTES: usize = 1 << 14;

/// Adds the index to a word, as `offset(index)`, and mixes it.
#[inline(always)]
pub(crate) fn mix(word: u32, offset: u32) -> u32 {
    let mut x = word.wrapping_add(offset);
    x ^= x >> 15;
    x = x.wrapping_mul(FACTOR);
    x ^ x >> 13
}

/// What the word at `index` is shifted by.
#[inline(always)]
pub(crate) fn offset(index: u64) -> u32 {
    let (low, high) = (index as u32, (index >> 32) as u32);
    low.wrapping_mul(INDEX_LOW).wrapping_add(high.wrapping_mul(INDEX_HIGH))
}

/// Sum of all values of a frame.
pub(crate) fn of_values(kernel: &Kernel, values: &[u8]) -> u32 {
    of_values_at(kernel, values, 0)
}

/// Sum of a part of the values that starts `position` bytes (a multiple of [`BLOCK_BYTES`]) into them.
pub(crate) fn of_values_at(kernel: &Kernel, values: &[u8], position: usize) -> u32 {
    debug_assert_eq!(position % BLOCK_BYTES, 0);
    let words_per_block = (BLOCK_BYTES / 4) as u64;
    values.chunks(BLOCK_BYTES).zip((position / BLOCK_BYTES) as u64..).fold(0, |sum: u32, (block, index)| {
        sum.wrapping_add((kernel.checksum)(block, index * words_per_block))
    })
}

/// Sum of a part of the front matter that starts `position` bytes (a multiple of 4) into it.
pub(crate) fn of_front(bytes: &[u8], position: usize) -> u32 {
    debug_assert_eq!(position % 4, 0);
    bytes.chunks(4).zip((position / 4) as u64..).fold(0, |sum, (chunk, index)| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        sum.wrapping_add(mix(u32::from_le_bytes(word), offset(!index)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel;

    /// The definition, word by word.
    fn reference(values: &[u8]) -> u32 {
        let mut padded = values.to_vec();
        padded.resize(values.len().next_multiple_of(4), 0);
        let words = padded.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        words.zip(0..).fold(0, |sum: u32, (word, index)| sum.wrapping_add(mix(word, offset(index))))
    }

    #[test]
    fn kernel_gives_the_definition_at_every_length_and_over_block_borders() {
        let bytes: Vec<u8> =
            (0..3 * BLOCK_BYTES as u32 + 7).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        for len in (0..200).chain(BLOCK_BYTES - 5..BLOCK_BYTES + 5).chain([bytes.len()]) {
            for kernel in kernel::all() {
                assert_eq!(of_values(kernel, &bytes[..len]), reference(&bytes[..len]), "{len} bytes");
            }
        }
    }

    #[test]
    fn indexes_beyond_32_bits_count() {
        let block = [7; 64];
        for kernel in kernel::all() {
            let indexes = [0, 1 << 12, 1 << 32, 1 << 33, (1 << 32) + (1 << 12)];
            let sums = indexes.map(|index| (kernel.checksum)(&block, index));
            for (i, sum) in sums.iter().enumerate() {
                assert!(!sums[..i].contains(sum));
            }
        }
    }

    #[test]
    fn front_matter_can_be_summed_in_parts_and_differs_from_values() {
        let bytes: Vec<u8> = (0..101).collect();
        let parts = of_front(&bytes[..32], 0).wrapping_add(of_front(&bytes[32..], 32));
        assert_eq!(of_front(&bytes, 0), parts);
        assert_ne!(of_front(&bytes, 0), reference(&bytes));
    }

    #[test]
    fn mix_is_a_bijection_on_the_words_that_one_bit_flips_reach() {
        // Invertible step by step; here against typing errors: no single flip of a word may leave its mix alone.
        for word in [0, 1, 0x8000_0000, u32::MAX, 0x3f80_3f80, 0xdead_beef] {
            for bit in 0..32 {
                assert_ne!(mix(word, 5), mix(word ^ 1 << bit, 5));
            }
        }
        assert_eq!(FACTOR % 2, 1);
    }
}
