//! The checksum of frames: a sum over words, each mixed with its position.
//!
//! A sum does not care about order, so lanes, threads and GPU blocks add up their own words and then their sums. A word
//! is mixed by one multiplication, of its halves (as NH in UMAC, with a linear term): a change in one half of one word
//! always changes the 64-bit sum of a block. Block sums are folded to 32 bits; so changes go unnoticed with probability
//! 2^-32. It finds accidents, not attacks.
//!
//! Words of values have indexes from 0 up, words of the front matter (header included) from 2^64 - 1 down.

use crate::kernel::Kernel;

/// Difference of the keys of neighbouring words: 2^64 over the golden ratio.
pub const KEY_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Bits by which products are shifted onto themselves. Keys are an arithmetic progression, so that changes of the same bits in
/// several words could add up to nothing without this.
pub const FOLD: u32 = 29;

/// Bytes of a word.
pub const WORD: usize = 8;

/// Bytes of values whose sum is folded.
pub const PART_BYTES: usize = 1 << 14;

/// Key that is XORed with the word at `index`. Not 0 for the first one, so that zeros count.
#[inline(always)]
pub fn key(index: u64) -> u64 {
    index.wrapping_add(1).wrapping_mul(KEY_STEP)
}

/// Mixes a word with the key of its index. Flipping leaves the halves apart, as adding would not.
#[inline(always)]
pub fn mix(word: u64, key: u64) -> u64 {
    let x = word ^ key;
    let product = (x & 0xffff_ffff).wrapping_mul(x >> 32).wrapping_add(x);
    product ^ product >> FOLD
}

/// Makes a block's sum part of the checksum.
#[inline(always)]
pub fn fold(sum: u64) -> u32 {
    (sum ^ sum >> 32) as u32
}

/// At most eight bytes as a word, filled up with zeros.
pub fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Sum of all values of a frame.
pub fn of_values(kernel: &Kernel, values: &[u8]) -> u32 {
    of_values_at(kernel, values, 0)
}

/// Sum of a part of the values that starts `position` bytes (a multiple of [`PART_BYTES`]) into them.
pub fn of_values_at(kernel: &Kernel, values: &[u8], position: usize) -> u32 {
    debug_assert_eq!(position % PART_BYTES, 0);
    let indexes = ((position / WORD) as u64..).step_by(PART_BYTES / WORD);
    values
        .chunks(PART_BYTES)
        .zip(indexes)
        .fold(0, |sum: u32, (block, index)| sum.wrapping_add((kernel.checksum)(block, index)))
}

/// Sum of a part of the front matter that starts `position` bytes (a multiple of 8) into it: the header, or everything
/// behind it.
pub fn of_front(bytes: &[u8], position: usize) -> u32 {
    debug_assert_eq!(position % WORD, 0);
    fold(
        bytes
            .chunks(WORD)
            .zip((position / WORD) as u64..)
            .fold(0, |sum, (bytes, index)| sum.wrapping_add(mix(word(bytes), key(!index)))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kernel, levels};

    /// The definition, word by word.
    fn reference(values: &[u8]) -> u32 {
        let mut sum = 0u32;
        for (number, block) in values.chunks(PART_BYTES).enumerate() {
            let mut block_sum = 0u64;
            for (i, bytes) in block.chunks(8).enumerate() {
                let index = (number * PART_BYTES / 8 + i) as u64;
                let x = word(bytes) ^ (index + 1).wrapping_mul(KEY_STEP);
                let (low, high) = (x % (1 << 32), x / (1 << 32));
                let product = (low * high).wrapping_add(x);
                block_sum = block_sum.wrapping_add(product ^ (product / (1 << 29)));
            }
            sum = sum.wrapping_add((block_sum as u32) ^ (block_sum >> 32) as u32);
        }
        sum
    }

    #[test]
    fn kernel_gives_the_definition_at_every_length_and_over_block_borders() {
        let bytes: Vec<u8> =
            (0..3 * PART_BYTES as u32 + 7).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        let (step, around) = if cfg!(miri) { (37, 1) } else { (1, 5) };
        let borders = PART_BYTES - around..PART_BYTES + around;
        for len in (0..300).step_by(step).chain(borders).chain([bytes.len()]) {
            for kernel in levels::all() {
                assert_eq!(of_values(kernel, &bytes[..len]), reference(&bytes[..len]), "{len} bytes");
            }
        }
    }

    #[test]
    fn indexes_beyond_32_bits_count() {
        let block = [7; 64];
        for kernel in levels::all() {
            let indexes = [0, 1 << 12, 1 << 32, 1 << 33, (1 << 32) + (1 << 12)];
            let sums = indexes.map(|index| (kernel.checksum)(&block, index));
            for (i, sum) in sums.iter().enumerate() {
                assert!(!sums[..i].contains(sum));
            }
        }
    }

    #[test]
    fn front_matter_differs_from_values() {
        let bytes: Vec<u8> = (0..101).collect();
        assert_ne!(of_front(&bytes, 0), reference(&bytes));
        assert_ne!(of_front(&bytes, 0), of_front(&bytes, 32));
    }

    #[test]
    fn a_change_in_one_half_of_a_word_changes_the_sum() {
        // Halves for which one factor of the product is 0, or the linear term could make up for it, and others.
        let halves = [0, 1, 2, 0x8000_0000, u32::MAX - 1, u32::MAX, 0x3f80_3f80, 0xdead_beef];
        let joined = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        for index in [0, 1, 2, 2047, 1 << 32, !0, !3] {
            let key = key(index);
            // As they are, and as the key makes them.
            for flip in [0, key] {
                let mixed = |low, high| mix(joined(low, high) ^ flip, key);
                for kept in halves {
                    for (i, one) in halves.into_iter().enumerate() {
                        for other in &halves[..i] {
                            assert_ne!(mixed(one, kept), mixed(*other, kept));
                            assert_ne!(mixed(kept, one), mixed(kept, *other));
                        }
                    }
                }
            }
        }
        // One bit apart; with a sum instead of a flip it would carry into the other half and change nothing.
        assert_ne!(mix(0x61c8_8648_00b5_83eb, key(0)), mix(0x61c8_8648_80b5_83eb, key(0)));
    }

    #[test]
    fn flips_exchanges_and_moves_are_found() {
        let bytes: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(0x85eb_ca77) >> 24) as u8).collect();
        for sample in [&bytes, &vec![0; 4096], &b"\x80\x3f".repeat(2048)] {
            let sum = of_values(&kernel::PORTABLE, sample);
            let changed = |change: &dyn Fn(&mut Vec<u8>)| {
                let mut copy = sample.to_vec();
                change(&mut copy);
                copy != *sample && of_values(&kernel::PORTABLE, &copy) == sum
            };
            for at in (0..4096).step_by(if cfg!(miri) { 997 } else { 1 }) {
                assert!(!changed(&|copy| copy[at] ^= 0x80));
                // The same bit twice, at distances that a sum without mixing would not see.
                assert!(!changed(&|copy| [at, (at + 64) % 4096].iter().for_each(|at| copy[*at] ^= 0x80)));
                assert!(!changed(&|copy| copy.swap(at, (at + 128) % 4096)));
            }
            assert!(!changed(&|copy| copy.rotate_left(8)));
            assert!(!changed(&|copy| copy.fill(0xff)));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic on words, and no memory")]
    fn the_same_flips_in_many_words_are_found() {
        // Neighbouring words in each of two places: what two overwritten bytes of a bit plane do.
        for word in [0xbfc0_0000_bfc0_0000_u64, 0, 0x3f80_3f80_3f80_3f80] {
            for (bit, len) in (0..32).flat_map(|bit| [1, 2, 4, 8].map(|len| (bit, len))) {
                let mixed = |group: u64, word: u64| {
                    let indexes = len * group..len * (group + 1);
                    indexes.fold(0u64, |sum, index| sum.wrapping_add(mix(word, key(index))))
                };
                let flipped = word ^ (1 << bit | 1 << (bit + 32));
                let changes: Vec<u64> =
                    (0..500).map(|group| mixed(group, flipped).wrapping_sub(mixed(group, word))).collect();
                let cancels = |(i, change): (usize, &u64)| changes[..i].contains(&change.wrapping_neg());
                assert!(!changes.contains(&0) && !changes.iter().enumerate().any(cancels), "{word:#x} {bit}");
            }
        }
    }
}
