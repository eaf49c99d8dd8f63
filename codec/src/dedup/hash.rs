//! The hash by which equal rows are found. It is no part of the format: it decides what is compared, never what is
//! equal.

/// Words that are mixed side by side, so that a multiplication need not wait for the one before it.
const LANES: usize = 4;
const WORD: usize = size_of::<u64>();
/// 2^64 divided by the golden ratio, rounded to an odd number.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// The multipliers of the finaliser of MurmurHash3.
const FINAL: [u64; 2] = [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53];

/// A hash of 64 bits, the same on every machine and in every process.
///
/// Little-endian words of eight bytes go to four lanes in turn, `x = (x ^ word) * FACTOR; x ^= x >> 32`, from `x` =
/// number of the lane on; the last word is filled up with zeros. A step is a bijection of `x` for each word and of the
/// word for each `x`, so rows of one length that differ in a single word never have the same lanes. The lanes then go
/// through the same step one after the other, and through the finaliser of MurmurHash3. It is not made to withstand an
/// adversary: a sender can make many rows that share a hash, which costs time and changes no result.
pub(super) fn of_row(row: &[u8]) -> u64 {
    let mut lanes: [u64; LANES] = std::array::from_fn(|lane| lane as u64);
    let (groups, rest) = row.as_chunks::<{ LANES * WORD }>();
    for group in groups {
        let words = group.as_chunks::<WORD>().0;
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    }
    for (lane, bytes) in lanes.iter_mut().zip(rest.chunks(WORD)) {
        let mut word = [0; WORD];
        word[..bytes.len()].copy_from_slice(bytes);
        *lane = step(*lane, u64::from_le_bytes(word));
    }
    let mut x = lanes.into_iter().fold(0, step);
    for factor in FINAL {
        x = (x ^ x >> 33).wrapping_mul(factor);
    }
    x ^ x >> 33
}

#[inline(always)]
fn step(x: u64, word: u64) -> u64 {
    let x = (x ^ word).wrapping_mul(FACTOR);
    x ^ x >> 32
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_bit_of_a_row_counts_at_every_length() {
        for len in (1..100).step_by(if cfg!(miri) { 19 } else { 1 }) {
            let mut row: Vec<u8> = (0..len).map(|i| (i * 37) as u8).collect();
            let mut seen = HashSet::from([of_row(&row)]);
            for bit in 0..8 * len {
                row[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(of_row(&row)), "bit {bit} of {len} bytes");
                row[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn words_are_not_interchangeable() {
        let row: Vec<u8> = (0..80).collect();
        let mut seen = HashSet::from([of_row(&row)]);
        for i in 0..10 {
            for j in 0..i {
                let mut words: Vec<&[u8]> = row.chunks(8).collect();
                words.swap(i, j);
                assert!(seen.insert(of_row(&words.concat())), "words {i} and {j}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "much arithmetic, and no memory")]
    fn low_bits_spread() {
        // Rows that differ in a counter alone fill a table as evenly as chance would.
        let mut buckets = [0_u32; 256];
        for number in 0..1_u32 << 16 {
            let mut row = [0; 512];
            row[200..204].copy_from_slice(&number.to_le_bytes());
            buckets[(of_row(&row) & 255) as usize] += 1;
        }
        // 256 expected, standard deviation 16.
        assert!(buckets.iter().all(|count| (170..350).contains(count)), "{buckets:?}");
    }
}
