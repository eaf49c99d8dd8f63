//! Words to symbols: several with each look into a table, of several streams side by side.

use super::{LONGEST, Lengths, words};

/// Streams that symbols are coded as: looks into the table wait for the look before in the same stream only.
pub const STREAMS: usize = 4;
/// Bytes in front of them: the lengths of all but the last, three bytes each.
pub(super) const JUMP_LEN: usize = 3 * (STREAMS - 1);
/// Symbols that an entry has at most.
const MOST: usize = 6;
/// Looks into the table after which a stream needs more bits: 56 are there at least.
const LOOKS: usize = 56 / LONGEST;
const COUNT_AT: u32 = 48;
const BITS_AT: u32 = 56;

/// Lookup tables of a canonical code, indexed by the next bits of a stream.
pub struct DecodeTable {
    /// Up to six symbols, the first one lowest, in 48 bits; their number in 8; the bits of their words in 8. All 0 where the first word is longer than the
    /// value.
    entries: Box<[u64; 1 << LONGEST]>,
    /// One symbol in the lower byte, the bits of its word in the upper one, which is 0 where that is longer.
    single: Box<[u16; 1 << LONGEST]>,
    /// For words that are longer, where there are any.
    long: Option<LongWords>,
}

impl DecodeTable {
    /// `None` if the lengths are those of no complete code with words of at most 32 bits.
    pub fn new(lengths: &Lengths) -> Option<Self> {
        let words = words(lengths)?;
        let symbols = (0..=255u8).zip(&words).zip(lengths);
        let short = symbols.map(|((symbol, &word), &length)| (symbol, word as usize, usize::from(length)));
        let mut short: Vec<_> = short.filter(|(_, _, length)| (1..=LONGEST).contains(length)).collect();
        short.sort_unstable_by_key(|(_, _, length)| *length);
        let mut single = Box::new([0u16; 1 << LONGEST]);
        for &(symbol, word, length) in &short {
            let entry = (length << 8) as u16 | u16::from(symbol);
            single[word..].iter_mut().step_by(1 << length).for_each(|single| *single = entry);
        }
        let entries = several(&short, &single);
        let has_long = lengths.iter().any(|length| usize::from(*length) > LONGEST);
        Some(Self { entries, single, long: has_long.then(|| LongWords::new(lengths)) })
    }

    /// The symbol that bits begin with, and the bits of its word.
    #[inline(always)]
    fn one(&self, bits: u64) -> (u8, u32) {
        let entry = self.single[bits as usize % (1 << LONGEST)];
        match &self.long {
            Some(long) if entry < 1 << 8 => long.find(bits as u32),
            _ => (entry as u8, u32::from(entry >> 8)),
        }
    }
}

/// See [`DecodeTable::entries`], of the first symbols.
/// `words` are symbol, word and length of those of at most [`LONGEST`] bits, the shortest ones first.
fn several(words: &[(u8, usize, usize)], single: &[u16; 1 << LONGEST]) -> Box<[u64; 1 << LONGEST]> {
    // Of fewer bits first, from 2^b on those of b bits: behind the first word there is what fewer bits stand for.
    let mut shorter = vec![0u64; 2 << LONGEST];
    for bits in 1..=LONGEST {
        let (before, now) = shorter.split_at_mut(1 << bits);
        for &(symbol, word, length) in words.iter().take_while(|(_, _, length)| *length <= bits) {
            let first = u64::from(symbol) | 1 << COUNT_AT | (length as u64) << BITS_AT;
            let behind = before[1 << (bits - length)..][..1 << (bits - length)].iter().enumerate();
            let values = now[word..].iter_mut().step_by(1 << length);
            for ((value, &(mut behind)), entry) in behind.zip(values) {
                if behind >> COUNT_AT & 0xff == MOST as u64 {
                    behind = without_last(behind, single, value);
                }
                let symbols = behind << 8 & ((1 << COUNT_AT) - 1);
                *entry = (symbols | behind >> COUNT_AT << COUNT_AT) + first;
            }
        }
    }
    let mut entries = Box::new([0; 1 << LONGEST]);
    entries.copy_from_slice(&shorter[1 << LONGEST..]);
    entries
}

/// An entry with as many symbols as there is room for, less the last one.
fn without_last(entry: u64, single: &[u16; 1 << LONGEST], value: usize) -> u64 {
    let bits = (1..MOST).fold(0, |bits, _| bits + usize::from(single[value >> bits] >> 8));
    let symbols = entry & ((1 << (8 * (MOST - 1))) - 1);
    symbols | (MOST as u64 - 1) << COUNT_AT | (bits as u64) << BITS_AT
}

/// Words by length, as canonical codes are read (Moffat and Turpin 1997).
struct LongWords {
    /// Symbols by length of word, then by number.
    symbols: Vec<u8>,
    /// For each length: the first word that is longer, filled up to 32 bits at its end, and what to add to a word to have the place of its symbol.
    ends: [(u64, i64); 33],
}

impl LongWords {
    fn new(lengths: &Lengths) -> Self {
        let mut symbols = Vec::new();
        let mut ends = [(0, 0); 33];
        let mut next = 0u64;
        for length in 1..=32u32 {
            let offset = symbols.len() as i64 - (next >> (32 - length)) as i64;
            let before = symbols.len();
            symbols.extend((0..=255u8).filter(|symbol| u32::from(lengths[usize::from(*symbol)]) == length));
            next += ((symbols.len() - before) as u64) << (32 - length);
            ends[length as usize] = (next, offset);
        }
        Self { symbols, ends }
    }

    /// The symbol that these bits begin with, the first one lowest, and the bits of its word.
    #[cold]
    fn find(&self, bits: u32) -> (u8, u32) {
        let word = u64::from(bits.reverse_bits());
        let length = (1..=32).find(|length| word < self.ends[*length].0).unwrap_or(32);
        let place = (word >> (32 - length)) as i64 + self.ends[length].1;
        // In a complete code every sequence of bits begins with a word.
        (self.symbols.get(place as usize).copied().unwrap_or(0), length as u32)
    }
}

/// A stream that is read, and where its symbols go.
pub struct Stream<'a> {
    bytes: &'a [u8],
    /// The next byte that is not in `bits` as a whole.
    at: usize,
    bits: u64,
    have: u32,
    out: &'a mut [u8],
    /// Symbols that are there.
    done: usize,
}

impl<'a> Stream<'a> {
    /// From a bit of these bytes on. Bits beyond them are a fault that [`Self::finish`] finds.
    pub fn new(bytes: &'a [u8], from: usize, out: &'a mut [u8]) -> Self {
        let mut stream = Self { bytes, at: from / 8, bits: 0, have: 0, out, done: 0 };
        stream.refill_bytes();
        let skip = (from % 8) as u32;
        stream.bits >>= skip;
        stream.have = stream.have.saturating_sub(skip);
        stream
    }

    /// At least 56 bits, where there are eight bytes more.
    #[inline(always)]
    fn refill(&mut self) -> bool {
        let Some(bytes) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) else { return false };
        self.bits |= u64::from_le_bytes(*bytes) << self.have;
        self.at += (63 - self.have) as usize / 8;
        self.have |= 56;
        true
    }

    /// Fills the bit buffer byte by byte, as far as bytes are left.
    fn refill_bytes(&mut self) {
        while self.have < 56
            && let Some(&byte) = self.bytes.get(self.at)
        {
            self.bits |= u64::from(byte) << self.have;
            self.have += 8;
            self.at += 1;
        }
    }

    /// The symbols of some looks into the table, if there is room for as many as these can have.
    #[inline(always)]
    pub fn looks(&mut self, table: &DecodeTable) -> bool {
        const ROOM: usize = (LOOKS - 1) * MOST + 8;
        if self.out.len() - self.done < ROOM || !self.refill() {
            return false;
        }
        let Some(out) = self.out[self.done..].first_chunk_mut::<ROOM>() else { return false };
        let mut written = 0;
        let mut longer = 0;
        for _ in 0..LOOKS {
            let entry = table.entries[self.bits as usize % (1 << LONGEST)];
            let Some(room) = out.get_mut(written..written + 8) else { return false };
            room.copy_from_slice(&entry.to_le_bytes());
            let count = (entry >> COUNT_AT) as u8;
            let bits = (entry >> BITS_AT) as u32;
            written += usize::from(count);
            longer = count;
            self.bits >>= bits;
            self.have -= bits;
        }
        self.done += written;
        if longer == 0 {
            self.one(table);
        }
        true
    }

    /// The next symbol, whatever the length of its word.
    #[cold]
    fn one(&mut self, table: &DecodeTable) {
        self.refill_bytes();
        let (symbol, bits) = table.one(self.bits);
        // Too few bits are found where the last symbols are read.
        if let (Some(have), Some(out)) = (self.have.checked_sub(bits), self.out.get_mut(self.done)) {
            *out = symbol;
            self.done += 1;
            self.have = have;
            self.bits >>= bits;
        }
    }

    /// The symbols that are left, and the bit behind the last of their words; `None` if there are fewer bits.
    pub fn finish(mut self, table: &DecodeTable) -> Option<usize> {
        while self.looks(table) {}
        for at in self.done..self.out.len() {
            self.refill_bytes();
            let (symbol, bits) = table.one(self.bits);
            self.have = self.have.checked_sub(bits)?;
            self.bits >>= bits;
            self.out[at] = symbol;
        }
        Some(8 * self.at - self.have as usize)
    }
}

/// Whether all bits from this one on are the filling of the last byte: fewer than eight zeros.
pub fn is_end(bytes: &[u8], bit: usize) -> bool {
    bit.div_ceil(8) == bytes.len()
        && (bit.is_multiple_of(8) || bytes.last().is_some_and(|last| last >> (bit % 8) == 0))
}

/// Reads what [`super::encode_streams`] wrote, as many symbols as `out` has bytes. `None` if it is nothing that it writes.
pub fn decode_streams(table: &DecodeTable, bytes: &[u8], out: &mut [u8]) -> Option<()> {
    let (jump, bytes) = bytes.split_at_checked(JUMP_LEN)?;
    let stream_len = out.len().div_ceil(STREAMS).max(1);
    let (mut bytes, mut parts) = (bytes, out.chunks_mut(stream_len));
    let mut streams = Vec::with_capacity(STREAMS);
    for at in 0..STREAMS {
        let stream = match jump.as_chunks::<3>().0.get(at) {
            Some(&[a, b, c]) => bytes.split_off(..u32::from_le_bytes([a, b, c, 0]) as usize)?,
            None => bytes,
        };
        streams.push(Stream::new(stream, 0, parts.next().unwrap_or(&mut [])));
    }
    let mut streams: [Stream<'_>; STREAMS] = streams.try_into().ok()?;
    while streams.iter_mut().all(|stream| stream.looks(table)) {}
    streams.into_iter().try_for_each(|stream| {
        let bytes = stream.bytes;
        is_end(bytes, stream.finish(table)?).then_some(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::{EncodeTable, encode_streams, histogram, limited};
    use super::*;
    use crate::kernel::PORTABLE;
    use crate::levels;

    #[test]
    fn entries_are_the_words_that_values_begin_with() {
        let codes = [
            &[1, 1][..],
            &[1, 2, 2],
            &[1, 3, 3, 3, 3],
            &[2, 2, 2, 2],
            &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12],
        ];
        for code in codes {
            let mut lengths = [0; 256];
            lengths[7..7 + code.len()].copy_from_slice(code);
            let table = DecodeTable::new(&lengths).unwrap();
            for value in 0..1 << LONGEST {
                let (mut bits, mut symbols) = (0, Vec::new());
                while symbols.len() < MOST {
                    let next = table.single[value >> bits];
                    let length = usize::from(next >> 8);
                    if length == 0 || bits + length > LONGEST {
                        break;
                    }
                    symbols.push(next as u8);
                    bits += length;
                }
                let mut entry = (symbols.len() as u64) << COUNT_AT | (bits as u64) << BITS_AT;
                symbols.iter().enumerate().for_each(|(at, &symbol)| entry |= u64::from(symbol) << (8 * at));
                assert_eq!(table.entries[value], entry, "{code:?} {value:b}");
            }
        }
    }

    #[test]
    fn words_longer_than_a_look_are_read() {
        // Words of 1, 2, 3, ... 31, 32, 32 bits.
        let mut lengths = [0; 256];
        for (symbol, length) in lengths[100..133].iter_mut().zip((1..=32).chain([32])) {
            *symbol = length;
        }
        let (encoder, decoder) = (EncodeTable::new(&lengths).unwrap(), DecodeTable::new(&lengths).unwrap());
        let mut state = 1u64;
        let mut symbols = Vec::new();
        let longest = if cfg!(miri) { 600 } else { 20_000 };
        for _ in 0..longest {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let seldom = symbols.len() % 3 == 0;
            symbols.push(100 + if seldom { (state >> 33) % 33 } else { (state >> 33) % 4 } as u8);
        }
        let each = if cfg!(miri) { 19 } else { 1 };
        for len in (0..200).step_by(each).chain([longest]) {
            let mut coded = vec![0xff; 4 * len + 16];
            let mut words = super::super::encode::Words::new(&mut coded);
            symbols[..len].iter().for_each(|symbol| words.put(&encoder, *symbol).unwrap());
            let bits = words.finish().unwrap();
            coded.truncate(bits.div_ceil(8));
            for from in [0, bits / 2] {
                // Where a word begins.
                let (mut at, mut first) = (0, 0);
                while at < from {
                    at += usize::from(lengths[usize::from(symbols[first])]);
                    first += 1;
                }
                let mut out = vec![0xee; len - first];
                let end = Stream::new(&coded, at, &mut out).finish(&decoder).unwrap();
                assert_eq!((out.as_slice(), end), (&symbols[first..len], bits));
                assert!(is_end(&coded, end) && (end < 8 || !is_end(&coded, end - 8)));
            }
            let mut more = vec![0; len + 33];
            assert_eq!(Stream::new(&coded, 0, &mut more).finish(&decoder), None, "{len}");
        }
    }

    #[test]
    fn streams_come_back_at_every_length_and_distribution() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        // Miri takes minutes for them all.
        let (each, longest) = if cfg!(miri) { (23, 400) } else { (1, 5000) };
        for case in (0..400).step_by(each) {
            let len = if case < 200 { case } else { random() as usize % longest };
            let spread = 1 + random() % 8;
            let mut symbols: Vec<u8> =
                (0..len).map(|_| (random().leading_zeros() * spread + random() % spread) as u8).collect();
            // The quarters need not be alike.
            symbols.iter_mut().skip(len / 2).take(len / 3).for_each(|symbol| *symbol = 0);
            let lengths = limited(&histogram(&PORTABLE, &symbols), LONGEST);
            let (Some(encoder), Some(decoder)) = (EncodeTable::new(&lengths), DecodeTable::new(&lengths))
            else {
                assert!(symbols.iter().all(|symbol| *symbol == symbols[0]), "one symbol is no complete code");
                continue;
            };
            let mut coded = vec![0xff; 2 * len + 40];
            let coded_len = encode_streams(&PORTABLE, &encoder, &symbols, &mut coded).unwrap();
            for kernel in levels::all() {
                assert_eq!(histogram(kernel, &symbols), histogram(&PORTABLE, &symbols));
                let mut same = vec![0xff; 2 * len + 40];
                assert_eq!(encode_streams(kernel, &encoder, &symbols, &mut same), Some(coded_len));
                assert_eq!(same[..coded_len], coded[..coded_len]);
            }
            let mut out = vec![0xee; len];
            decode_streams(&decoder, &coded[..coded_len], &mut out).unwrap();
            assert_eq!(out, symbols);
            assert_eq!(decode_streams(&decoder, &coded[..coded_len - 1], &mut out), None);
            coded[coded_len] = 0;
            assert_eq!(decode_streams(&decoder, &coded[..=coded_len], &mut out), None);
            assert_eq!(encode_streams(&PORTABLE, &encoder, &symbols, &mut coded[..coded_len - 1]), None);
        }
    }
}
