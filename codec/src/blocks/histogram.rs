//! How often each byte occurs.

/// Counts of the bytes of a list.
pub(super) fn of_bytes(bytes: &[u8]) -> [u32; 256] {
    // Four tables, because equal neighbours would wait for each other's counts in one.
    let mut tables = [[0u32; 256]; 4];
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word);
        for _ in 0..2 {
            for table in &mut tables {
                table[usize::from(word as u8)] += 1;
                word >>= 8;
            }
        }
    }
    let [mut counts, second, third, fourth] = tables;
    tail.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    for (byte, count) in counts.iter_mut().enumerate() {
        *count += second[byte] + third[byte] + fourth[byte];
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        let bytes: Vec<u8> = (0..=255).flat_map(|byte| vec![byte; usize::from(byte % 7)]).collect();
        for skipped in 0..9 {
            let counts = of_bytes(&bytes[skipped..]);
            assert_eq!(counts.iter().sum::<u32>() as usize, bytes.len() - skipped);
            assert!((100..=255).all(|byte| counts[byte] == byte as u32 % 7));
        }
    }
}
