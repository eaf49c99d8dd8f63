//! Parts of frames that several codecs have, read a second time from docs/format.md: bytes off the front, tiers, words of a Huffman code.

use std::collections::HashMap;

/// Bytes that are read from the front.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        self.0.split_off(..len).unwrap()
    }

    /// A part that is filled up to a multiple of 8 bytes.
    pub(crate) fn part(&mut self, len: usize) -> &'a [u8] {
        let part = self.take(len);
        assert!(self.take(len.next_multiple_of(8) - len).iter().all(|byte| *byte == 0));
        part
    }
}

/// At most eight bytes as a number.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The symbol of each value, by its code in a tier or from its escape. `counts` are the numbers of values of each tier, and of escapes.
pub(crate) fn tiers<T>(
    counts: &[usize],
    planes: &[&[u8]],
    escapes: &[u8],
    named: impl Fn(usize, usize) -> T,
    escaped: impl Fn(u8) -> T,
) -> Vec<T> {
    let code = |planes: &[u8], i: usize| {
        let bit = |plane: usize| planes[i / 64 * 16 + 8 * plane + i % 64 / 8] >> (i % 8) & 1;
        usize::from(bit(0) + 2 * bit(1))
    };
    // Positions in each tier.
    let mut at = [0; 5];
    let symbol = |_| {
        for (tier, planes) in planes.iter().enumerate() {
            let code = code(planes, at[tier]);
            at[tier] += 1;
            if code < 3 {
                return named(tier, code);
            }
        }
        at[4] += 1;
        escaped(escapes[at[4] - 1])
    };
    let symbols = (0..counts[0]).map(symbol).collect();
    assert_eq!(at[..], counts[..]);
    symbols
}

/// Symbols by length and word, for the length of the word of each: canonical words, by length and then by symbol.
pub(crate) fn canonical_words(lengths: &[usize]) -> HashMap<(usize, u64), u8> {
    let mut symbols = HashMap::new();
    let (mut word, mut before) = (0u64, 0);
    for length in 1..=32 {
        for symbol in (0..256).filter(|symbol| lengths[*symbol] == length) {
            word <<= length - before;
            before = length;
            symbols.insert((length, word), symbol as u8);
            word += 1;
        }
    }
    symbols
}

/// So many bytes by a Huffman code: the list of the lengths of its words, and four streams.
pub(crate) fn listed_code(coded: &[u8], len: usize) -> Vec<u8> {
    let (first, last) = (usize::from(coded[0]), usize::from(coded[1]));
    let half = |at: usize| usize::from(coded[2 + at / 2] >> (4 * (at % 2)) & 15);
    let mut lengths = [0; 256];
    let (mut symbol, mut at) = (first, 0);
    while symbol <= last {
        lengths[symbol] = half(at);
        symbol += 1;
        at += 1;
        if lengths[symbol - 1] == 0 {
            symbol += half(at);
            at += 1;
        }
    }
    assert!(lengths.iter().all(|length| *length <= 11), "no word is longer: {lengths:?}");
    let words = canonical_words(&lengths);
    let jump = &coded[2 + at.div_ceil(2)..];
    let mut streams = &jump[9..];
    let mut out = Vec::new();
    let part = len.div_ceil(4);
    for stream in 0..4 {
        let stream_len = match stream {
            3 => streams.len(),
            _ => jump[3 * stream..][..3].iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte)),
        };
        let bytes;
        (bytes, streams) = streams.split_at(stream_len);
        let mut bits = bytes.iter().flat_map(|byte| (0..8).map(move |bit| u64::from(byte >> bit & 1)));
        for _ in 0..part.min(len - out.len()) {
            let (mut length, mut word) = (0, 0);
            out.push(loop {
                word = word << 1 | bits.next().unwrap();
                length += 1;
                if let Some(symbol) = words.get(&(length, word)) {
                    break *symbol;
                }
            });
        }
        let rest: Vec<u64> = bits.collect();
        assert!(rest.len() < 8 && rest.iter().all(|bit| *bit == 0));
    }
    out
}
