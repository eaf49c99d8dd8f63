//! Symbols to words of a prefix code, four at a time, and how often bytes occur.

/// Lowest bit of the length of four words in the output of `Kernel::fours`; below it are the words, the first one lowest.
pub const LENGTH_AT: u32 = 48;

/// The words of a prefix code of at most eleven bits, by symbol.
pub struct ShortWords {
    /// The lower eight bits of each word.
    pub low: [u8; 256],
    /// Its other bits, and above them, from bit 4 on, its length.
    pub high: [u8; 256],
}

impl ShortWords {
    /// By word, its first bit lowest, and length of each symbol.
    pub fn new(word: impl Fn(u8) -> (u64, u32)) -> Self {
        let entry = |symbol: usize| {
            let (word, length) = word(symbol as u8);
            (word as u16 & 0x7ff) | (length as u16) << 12
        };
        Self {
            low: std::array::from_fn(|symbol| entry(symbol) as u8),
            high: std::array::from_fn(|symbol| (entry(symbol) >> 8) as u8),
        }
    }

    fn get(&self, symbol: u8) -> (u64, u64) {
        let (low, high) = (self.low[usize::from(symbol)], self.high[usize::from(symbol)]);
        (u64::from(low) | u64::from(high & 15) << 8, u64::from(high >> 4))
    }
}

#[inline(always)]
pub fn fours(words: &ShortWords, symbols: &[[u8; 4]], out: &mut [u64]) {
    for (four, out) in symbols.iter().zip(out) {
        // Pairs first: the words of one do not wait for those of the other.
        let [a, b, c, d] = four.map(|symbol| words.get(symbol));
        let (low, low_bits) = (a.0 | b.0 << a.1, a.1 + b.1);
        let (high, high_bits) = (c.0 | d.0 << c.1, c.1 + d.1);
        *out = low | high << low_bits | (low_bits + high_bits) << LENGTH_AT;
    }
}

pub fn byte_counts(bytes: &[u8]) -> [u32; 256] {
    // Several tables: neighbours that are equal would wait for each other.
    let mut tables = [[0u32; 256]; 4];
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        for (at, table) in [0, 1, 2, 3, 0, 1, 2, 3].into_iter().enumerate() {
            tables[table][usize::from((word >> (8 * at)) as u8)] += 1;
        }
    }
    for &byte in tail {
        tables[0][usize::from(byte)] += 1;
    }
    let [first, second, third, fourth] = &tables;
    std::array::from_fn(|byte| first[byte] + second[byte] + third[byte] + fourth[byte])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted() {
        let bytes: Vec<u8> = (0..=255).flat_map(|byte| vec![byte; usize::from(byte) % 7]).collect();
        assert_eq!(byte_counts(&bytes), std::array::from_fn(|byte| byte as u32 % 7));
        assert_eq!(byte_counts(&[]), [0; 256]);
    }

    #[test]
    fn every_byte_counts() {
        let bytes: Vec<u8> = (0..=255).flat_map(|byte| vec![byte; usize::from(byte % 7)]).collect();
        for skipped in 0..9 {
            let counts = byte_counts(&bytes[skipped..]);
            assert_eq!(counts.iter().sum::<u32>() as usize, bytes.len() - skipped);
            assert!((100..=255).all(|byte| counts[byte] == byte as u32 % 7));
        }
    }

    /// Clusters, with and without a sign on top of them, with a few bytes anywhere; and noise.
    #[test]
    fn every_level_counts_the_same() {
        use crate::kernel::TILE;
        let random = |i: u32| i.wrapping_mul(0x9e37_79b1) >> 7;
        let centers = [0u32, 1, 7, 60, 120, 122, 127, 128, 131, 200, 250, 255];
        // Miri takes minutes for them all.
        let centers = &centers[..if cfg!(miri) { 1 } else { centers.len() }];
        for kernel in crate::levels::all() {
            for &center in centers {
                for (spread, sign, odd) in
                    [(1, 0, 0), (4, 0x80, 0), (9, 0x80, 50), (14, 0, 30), (40, 0x80, 3), (256, 0, 0)]
                {
                    let byte = |i: u32| match odd {
                        1.. if i % 64 == odd => random(i + 5) as u8,
                        _ => ((center + random(i) % spread) as u8) ^ (random(i + 9) & sign) as u8,
                    };
                    for len in [0, 1, 63, 64, 65, 1000, TILE as u32] {
                        let bytes: Vec<u8> = (0..len).map(byte).collect();
                        let counts = (kernel.byte_counts)(&bytes);
                        assert_eq!(
                            counts,
                            byte_counts(&bytes),
                            "{} {center} {spread} {sign} {len}",
                            kernel.level
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn four_words_are_one_behind_the_other() {
        let words = ShortWords::new(|symbol| match symbol {
            7 => (0b0, 1),
            8 => (0b01, 2),
            9 => (0b111_1111_1111, 11),
            _ => (0, 0),
        });
        let mut out = [0; 2];
        fours(&words, &[[7, 8, 9, 8], [9; 4]], &mut out);
        assert_eq!(out, [0b0111_1111_1111_1010 | 16 << LENGTH_AT, ((1 << 44) - 1) | 44 << LENGTH_AT]);
    }
}
