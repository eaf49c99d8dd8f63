//! The words of a code.

use super::Lengths;

/// Word of each symbol with its bits in the order in which they are written, the first one lowest; 0 where there is none.
///
/// `None` if the lengths are those of no code in which every sequence of bits is one of words: such a code has two symbols or more.
pub(super) fn words(lengths: &Lengths) -> Option<[u32; 256]> {
    let mut numbers = [0u64; 33];
    for &length in lengths.iter().filter(|length| **length > 0) {
        *numbers.get_mut(usize::from(length))? += 1;
    }
    // The first word of each length.
    let mut first = [0u64; 33];
    let mut next = 0;
    for length in 1..=32 {
        first[length] = next;
        next = (next + numbers[length]) << 1;
    }
    if next != 2 << 32 {
        return None;
    }
    let mut words = [0; 256];
    for (word, &length) in words.iter_mut().zip(lengths).filter(|(_, length)| **length > 0) {
        let canonical = &mut first[usize::from(length)];
        *word = (*canonical as u32).reverse_bits() >> (32 - u32::from(length));
        *canonical += 1;
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_from_lengths() {
        let mut lengths = [0; 256];
        lengths[..5].copy_from_slice(&[3, 1, 3, 0, 2]);
        // Canonical: 0, 10, 110, 111.
        assert_eq!(words(&lengths).unwrap()[..5], [0b011, 0, 0b111, 0, 0b01]);
        lengths[3] = 32;
        assert_eq!(words(&lengths), None, "too many words");
        lengths[..5].copy_from_slice(&[3, 1, 0, 0, 2]);
        assert_eq!(words(&lengths), None, "too few words");
        lengths[..5].copy_from_slice(&[1, 1, 0, 0, 33]);
        assert_eq!(words(&lengths), None, "too long a word");
        assert_eq!(words(&[0; 256]), None);
    }
}
