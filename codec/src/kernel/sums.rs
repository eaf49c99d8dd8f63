//! Sums over the values of a tile: checksum and exponent histogram.

use crate::checksum::{self, KEY_STEP, WORD, fold, mix};

pub fn checksum(bytes: &[u8], index: u64) -> u32 {
    fold(mixed(bytes, index))
}

/// The sum of words before it is folded.
pub fn mixed(bytes: &[u8], index: u64) -> u64 {
    let mut key = checksum::key(index);
    let mut sum = 0u64;
    let (words, tail) = bytes.as_chunks::<WORD>();
    for word in words {
        sum = sum.wrapping_add(mix(u64::from_le_bytes(*word), key));
        key = key.wrapping_add(KEY_STEP);
    }
    if !tail.is_empty() {
        sum = sum.wrapping_add(mix(checksum::word(tail), key));
    }
    sum
}

pub fn histogram(values: &[u8]) -> [u32; 256] {
    // Four tables, because equal neighbours would wait for each other's counts in one.
    let mut tables = [[0u32; 256]; 4];
    let (quads, tail) = values.as_chunks::<8>();
    for quad in quads {
        let exponents = u64::from_le_bytes(*quad) >> 7;
        tables[0][usize::from(exponents as u8)] += 1;
        tables[1][usize::from((exponents >> 16) as u8)] += 1;
        tables[2][usize::from((exponents >> 32) as u8)] += 1;
        tables[3][usize::from((exponents >> 48) as u8)] += 1;
    }
    let [mut counts, second, third, fourth] = tables;
    for value in tail.as_chunks::<2>().0 {
        counts[usize::from((u16::from_le_bytes(*value) >> 7) as u8)] += 1;
    }
    for (i, count) in counts.iter_mut().enumerate() {
        *count += second[i] + third[i] + fourth[i];
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "every pattern takes minutes; frames have histograms of few")]
    fn histogram_counts_every_exponent_of_every_pattern_and_of_short_tails() {
        let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        assert_eq!(histogram(&all), [256; 256]);
        for count in 0..9 {
            let counts = histogram(&all[256 * 200..][..2 * count]);
            assert_eq!(counts.iter().sum::<u32>(), count as u32);
            assert_eq!(counts[200], count as u32);
        }
    }
}
