//! Lengths of code words: the shortest code with a longest word.

use crate::kernel::{Kernel, TILE};

/// Bits of the word of each symbol; 0 if it has none.
pub(crate) type Lengths = [u8; 256];

/// How often each byte occurs.
pub(crate) fn histogram(kernel: &Kernel, bytes: &[u8]) -> [u32; 256] {
    let mut counts = [0; 256];
    for tile in bytes.chunks(TILE) {
        let of_tile = (kernel.byte_counts)(tile);
        counts.iter_mut().zip(of_tile).for_each(|(count, more)| *count += more);
    }
    counts
}

/// Lengths of at most `longest` bits with the fewest bits for these counts, by package-merge (Larmore and Hirschberg 1990). A symbol that occurs has a word; one
/// that occurs alone has a word of one bit.
///
/// `2^longest` is at least the number of symbols.
pub(crate) fn limited(counts: &[u32; 256], longest: usize) -> Lengths {
    let mut lengths = [0; 256];
    let mut symbols: Vec<(u32, u8)> = (0..=255)
        .map(|symbol| (counts[usize::from(symbol)], symbol))
        .filter(|(count, _)| *count > 0)
        .collect();
    symbols.sort_unstable();
    if let [(_, only)] = symbols[..] {
        lengths[usize::from(only)] = 1;
    }
    if symbols.len() < 2 {
        return lengths;
    }
    // Level by level, what costs least: symbols, and packages of two of the level before. Only whether an item is a symbol has to be
    // kept: those that are taken of a level are its first ones, and symbols among them are the rarest.
    let leaf = |at: usize| symbols.get(at).map(|(count, _)| u64::from(*count));
    let most = 2 * symbols.len() - 2;
    let mut levels: Vec<Vec<bool>> = Vec::with_capacity(longest);
    let (mut weights, mut packages) = (Vec::with_capacity(most), Vec::with_capacity(most / 2));
    for _ in 0..longest {
        let (mut at, mut package) = (0, 0);
        let mut is_leaf = Vec::with_capacity(most);
        weights.clear();
        while is_leaf.len() < most {
            let (symbol, pair) = (leaf(at), packages.get(package).copied());
            let takes_symbol = match (symbol, pair) {
                (Some(symbol), Some(pair)) => symbol <= pair,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let weight = if takes_symbol { symbol } else { pair };
            weights.extend(weight);
            is_leaf.push(takes_symbol);
            at += usize::from(takes_symbol);
            package += usize::from(!takes_symbol);
        }
        packages.clear();
        packages.extend(weights.as_chunks::<2>().0.iter().map(|[first, second]| first + second));
        levels.push(is_leaf);
    }
    let mut taken = most;
    for is_leaf in levels.iter().rev() {
        let leaves = is_leaf[..taken].iter().filter(|is_leaf| **is_leaf).count();
        symbols[..leaves].iter().for_each(|(_, symbol)| lengths[usize::from(*symbol)] += 1);
        taken = 2 * (taken - leaves);
    }
    lengths
}

/// Bits of all symbols in a code.
pub(crate) fn coded_bits(counts: &[u32; 256], lengths: &Lengths) -> u64 {
    counts.iter().zip(lengths).map(|(&count, &length)| u64::from(count) * u64::from(length)).sum()
}

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
    use crate::canonical::LONGEST;

    fn counts(of: &[u32]) -> [u32; 256] {
        let mut counts = [0; 256];
        counts[..of.len()].copy_from_slice(of);
        counts
    }

    /// Twice the Kraft sum in units of the longest word.
    fn kraft(lengths: &Lengths) -> u64 {
        lengths.iter().filter(|length| **length > 0).map(|length| 1 << (32 - length)).sum()
    }

    #[test]
    fn few_symbols_get_the_words_of_the_textbook() {
        // Huffman's own example has lengths 1, 2, 3, 3 for 4, 2, 1, 1.
        assert_eq!(limited(&counts(&[1, 4, 1, 2]), LONGEST)[..5], [3, 1, 3, 2, 0]);
        assert_eq!(limited(&counts(&[0, 7]), LONGEST)[..3], [0, 1, 0]);
        assert_eq!(limited(&counts(&[]), LONGEST), [0; 256]);
        assert_eq!(limited(&[5; 256], LONGEST), [8; 256]);
        assert_eq!(limited(&[5; 256], 8), [8; 256]);
    }

    /// Without a limit that binds, the cost is that of Huffman's own method; with one, no exchange of lengths is better.
    #[test]
    fn no_code_is_shorter() {
        let huffman = |counts: &[u32; 256]| {
            let mut heap: Vec<u64> =
                counts.iter().filter(|count| **count > 0).map(|&count| count.into()).collect();
            let mut bits = 0;
            while heap.len() > 1 {
                heap.sort_unstable_by(|a, b| b.cmp(a));
                let (first, second) = (heap.pop().unwrap(), heap.pop().unwrap());
                bits += first + second;
                heap.push(first + second);
            }
            bits
        };
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for case in 0..300 {
            let symbols = 2 + random(if case % 2 == 0 { 12 } else { 200 }) as usize;
            let mut of = [0u32; 256];
            for count in &mut of[..symbols] {
                *count = 1 + (random(1 << 20) >> random(20)) as u32;
            }
            let free = limited(&of, 32);
            assert_eq!(coded_bits(&of, &free), huffman(&of));
            assert_eq!(kraft(&free), 1 << 32);
            let short = limited(&of, LONGEST);
            assert!(kraft(&short) == 1 << 32 && *short.iter().max().unwrap() <= LONGEST as u8);
            assert!(of.iter().zip(&short).all(|(count, length)| (*count > 0) == (*length > 0)));
        }
        // All codes of up to 6 symbols and words of up to 4 bits.
        for _ in 0..20 {
            let of: Vec<u32> = (0..6).map(|_| 1 + (random(1000) >> random(10)) as u32).collect();
            let of = counts(&of);
            let mut best = u64::MAX;
            for code in 0..4usize.pow(6) {
                let lengths: Vec<u8> = (0..6).map(|at| 1 + (code / 4usize.pow(at) % 4) as u8).collect();
                let mut all = [0; 256];
                all[..6].copy_from_slice(&lengths);
                if kraft(&all) <= 1 << 32 {
                    best = best.min(coded_bits(&of, &all));
                }
            }
            assert_eq!(coded_bits(&of, &limited(&of, 4)), best);
        }
    }

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
