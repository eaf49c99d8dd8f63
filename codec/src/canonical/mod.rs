//! Canonical Huffman codes of bytes: what `grouped`, `blockwise`, `huffman` and `planes` are made of.
//!
//! Code words follow from their lengths alone (Schwartz and Kallick 1964): symbols are ordered by length, then by number, and get consecutive
//! words. Words are written lowest bit first, so a reader looks at the next bits of a stream as they lie in a word of memory; where a canonical word would
//! be read from its highest bit, here it is kept with its bits reversed.

mod decode;
mod encode;
mod listed;

pub use decode::{DecodeTable, STREAMS, Stream, decode_streams, is_end};
pub use encode::{EncodeTable, SPARE, Words, encode_streams, streams_len};
pub use listed::{ListedCode, read_listed};

use crate::kernel::{Kernel, TILE};

/// The longest word of codes that are read by one look into a table, in bits: that of the implementation which ZipNN uses.
pub const LONGEST: usize = 11;

/// Bits of the word of each symbol; 0 if it has none.
pub type Lengths = [u8; 256];

/// How often each byte occurs.
pub fn histogram(kernel: &Kernel, bytes: &[u8]) -> [u32; 256] {
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
pub fn limited(counts: &[u32; 256], longest: usize) -> Lengths {
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
pub fn coded_bits(counts: &[u32; 256], lengths: &Lengths) -> u64 {
    counts.iter().zip(lengths).map(|(&count, &length)| u64::from(count) * u64::from(length)).sum()
}

/// Word of each symbol with its bits in the order in which they are written, the first one lowest; 0 where there is none.
///
/// `None` if the lengths are those of no code in which every sequence of bits is one of words: such a code has two symbols or more.
fn words(lengths: &Lengths) -> Option<[u32; 256]> {
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

/// Bytes that lengths take at most.
pub const MOST_LISTED: usize = 2 + (256 * 3 / 2usize).div_ceil(2);

/// Writes lengths of at most [`LONGEST`] bits to the front of `out`, which has [`MOST_LISTED`] bytes; returns how many they took.
///
/// They are the first and last symbol that have a word, a byte each; then, for each of the symbols from one to the other, half a byte, the lower half
/// first: the length of its word, or 0 and a half byte that says how many symbols follow which have none, too. An odd number of half bytes is
/// filled up with 0. At least one symbol has a word.
pub fn write_lengths(lengths: &Lengths, out: &mut [u8]) -> usize {
    let has_word = |length: &u8| *length > 0;
    let first = lengths.iter().position(has_word).unwrap_or(0);
    let last = lengths.iter().rposition(has_word).unwrap_or(0);
    out[..MOST_LISTED].fill(0);
    (out[0], out[1]) = (first as u8, last as u8);
    let mut halves = 0;
    let mut put = |half: u8| {
        out[2 + halves / 2] |= half << (4 * (halves % 2));
        halves += 1;
    };
    let mut symbol = first;
    while symbol <= last {
        put(lengths[symbol]);
        symbol += 1;
        if lengths[symbol - 1] == 0 {
            let more = lengths[symbol..].iter().take(15).take_while(|length| **length == 0).count();
            put(more as u8);
            symbol += more;
        }
    }
    2 + halves.div_ceil(2)
}

/// Reads what [`write_lengths`] wrote and takes it off `bytes`; `None` if it is nothing that it writes. Whether the lengths are those of a
/// code, it does not ask.
pub fn read_lengths(bytes: &mut &[u8]) -> Option<Lengths> {
    let (&[first, last], listed) = bytes.split_first_chunk()?;
    let mut lengths = [0; 256];
    let mut halves = listed.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    let (mut symbol, last) = (usize::from(first), usize::from(last));
    let mut read = 0usize;
    while symbol <= last {
        let length = halves.next()?;
        read += 1;
        if usize::from(length) > LONGEST {
            return None;
        }
        lengths[symbol] = length;
        symbol += 1;
        if length == 0 {
            symbol += usize::from(halves.next()?);
            read += 1;
        }
    }
    if read % 2 == 1 && halves.next()? != 0 {
        return None;
    }
    *bytes = &listed[read.div_ceil(2)..];
    // One list for each code: the first and the last symbol have words, and runs of those without are as long as they can be.
    let mut again = [0; MOST_LISTED];
    let len = write_lengths(&lengths, &mut again);
    (again[..len] == [&[first, last as u8][..], &listed[..read.div_ceil(2)]].concat()).then_some(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // Miri takes minutes for them all.
        let (cases, codes) = if cfg!(miri) { (6, 0) } else { (300, 20) };
        for case in 0..cases {
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
        for _ in 0..codes {
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

    fn round_trip(lengths: &Lengths) -> usize {
        let mut out = [0xff; MOST_LISTED + 3];
        let len = write_lengths(lengths, &mut out);
        let mut bytes = &out[..len + 3];
        assert_eq!(read_lengths(&mut bytes).as_ref(), Some(lengths));
        assert_eq!(bytes.len(), 3);
        for cut in 0..len {
            assert_eq!(read_lengths(&mut &out[..cut]), None);
        }
        len
    }

    #[test]
    fn lengths_come_back_from_few_bytes() {
        let mut lengths = [0; 256];
        lengths[100] = 1;
        assert_eq!(round_trip(&lengths), 3);
        lengths[90..130].fill(6);
        assert_eq!(round_trip(&lengths), 2 + 20);
        lengths[0] = 11;
        assert_eq!(round_trip(&lengths), 2 + (1 + 2 * 6 + 40usize).div_ceil(2), "89 symbols without a word");
        assert_eq!(round_trip(&[8; 256]), 2 + 128);
        let worst: Lengths = std::array::from_fn(|symbol| if symbol % 2 == 0 { 7 } else { 0 });
        assert!(round_trip(&worst) <= MOST_LISTED);
    }

    #[test]
    fn what_nothing_writes_is_not_read() {
        // From symbol 1 to 2: a length of 12; a symbol that has none at the end; a filling half byte.
        for (bytes, what) in [
            ([1, 2, 0xc1, 0], "a word of 12 bits"),
            ([1, 2, 0x01, 0], "no word for the last symbol"),
            ([2, 1, 0, 0], "the last before the first"),
            ([1, 1, 0x11, 0], "filling that is not 0"),
        ] {
            assert_eq!(read_lengths(&mut &bytes[..]), None, "{what}");
        }
        assert!(read_lengths(&mut &[1, 2, 0x11][..]).is_some());
        // Two runs of none where one is long enough.
        assert_eq!(read_lengths(&mut &[1, 4, 0x01, 0x00, 0x10][..]), None);
    }
}
