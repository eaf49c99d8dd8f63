//! Words to symbols: several with each look into a table, of several streams side by side.

use super::{LONGEST, Lengths, words};

/// Streams that symbols are coded as: looks into the table wait for the look before in the same stream only.
pub(crate) const STREAMS: usize = 4;
/// Bytes in front of them: the lengths of all but the last, three bytes each.
pub(super) const JUMP_LEN: usize = 3 * (STREAMS - 1);
/// Symbols that an entry has at most.
const MOST: usize = 6;
/// Looks into the table after which a stream needs more bits: 56 are there at least.
const LOOKS: usize = 56 / LONGEST;
const COUNT_AT: u32 = 48;
const BITS_AT: u32 = 56;

/// What the next bits of a stream stand for, by their value: up to six symbols, the first one lowest, in 48 bits; their number in 8; the bits of
/// their words in 8.
pub(crate) struct DecodeTable {
    entries: Box<[u64; 1 << LONGEST]>,
    /// One symbol in the lower byte, the bits of its word in the upper one.
    single: Box<[u16; 1 << LONGEST]>,
}

impl DecodeTable {
    /// `None` if the lengths are those of no complete code with words of at most [`LONGEST`] bits.
    pub(crate) fn new(lengths: &Lengths) -> Option<Self> {
        let words = words::words(lengths)?;
        let mut single = Box::new([0u16; 1 << LONGEST]);
        for (symbol, (&word, &length)) in
            words.iter().zip(lengths).enumerate().filter(|(_, (_, length))| **length > 0)
        {
            let length = usize::from(length);
            if length > LONGEST {
                return None;
            }
            let entry = (length << 8 | symbol) as u16;
            single[word as usize..].iter_mut().step_by(1 << length).for_each(|single| *single = entry);
        }
        let mut entries = Box::new([0u64; 1 << LONGEST]);
        for (index, entry) in entries.iter_mut().enumerate() {
            let (mut symbols, mut count, mut bits) = (0u64, 0, 0);
            while count < MOST {
                let next = single[index >> bits];
                let after = bits + usize::from(next >> 8);
                if after > LONGEST {
                    break;
                }
                symbols |= u64::from(next as u8) << (8 * count);
                (count, bits) = (count + 1, after);
            }
            *entry = symbols | (count as u64) << COUNT_AT | (bits as u64) << BITS_AT;
        }
        Some(Self { entries, single })
    }
}

/// A stream that is read, and where its symbols go.
struct Stream<'a> {
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
    fn new(bytes: &'a [u8], out: &'a mut [u8]) -> Self {
        Self { bytes, at: 0, bits: 0, have: 0, out, done: 0 }
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

    /// The symbols of [`LOOKS`] looks, if there is room for as many as these can have.
    #[inline(always)]
    fn looks(&mut self, table: &[u64; 1 << LONGEST]) -> bool {
        const ROOM: usize = (LOOKS - 1) * MOST + 8;
        if self.out.len() - self.done < ROOM || !self.refill() {
            return false;
        }
        let Some(out) = self.out[self.done..].first_chunk_mut::<ROOM>() else { return false };
        let mut written = 0;
        for _ in 0..LOOKS {
            let entry = table[self.bits as usize % (1 << LONGEST)];
            let Some(room) = out.get_mut(written..written + 8) else { return false };
            room.copy_from_slice(&entry.to_le_bytes());
            written += (entry >> COUNT_AT) as u8 as usize;
            let bits = (entry >> BITS_AT) as u32;
            self.bits >>= bits;
            self.have -= bits;
        }
        self.done += written;
        true
    }

    /// The symbols that are left, one by one; `None` if the stream has fewer bits, or more.
    fn finish(mut self, table: &DecodeTable) -> Option<()> {
        while self.looks(&table.entries) {}
        for out in &mut self.out[self.done..] {
            while self.have < 56
                && let Some(&byte) = self.bytes.get(self.at)
            {
                self.bits |= u64::from(byte) << self.have;
                self.have += 8;
                self.at += 1;
            }
            let entry = table.single[self.bits as usize % (1 << LONGEST)];
            let bits = u32::from(entry >> 8);
            self.have = self.have.checked_sub(bits)?;
            self.bits >>= bits;
            *out = entry as u8;
        }
        (self.at == self.bytes.len() && self.have < 8 && self.bits == 0).then_some(())
    }
}

/// Reads what [`super::encode_streams`] wrote, as many symbols as `out` has bytes. `None` if it is nothing that it writes.
pub(crate) fn decode_streams(table: &DecodeTable, bytes: &[u8], out: &mut [u8]) -> Option<()> {
    let (jump, bytes) = bytes.split_at_checked(JUMP_LEN)?;
    let stream_len = out.len().div_ceil(STREAMS).max(1);
    let (mut bytes, mut parts) = (bytes, out.chunks_mut(stream_len));
    let mut streams = Vec::with_capacity(STREAMS);
    for at in 0..STREAMS {
        let stream = match jump.as_chunks::<3>().0.get(at) {
            Some(&[a, b, c]) => bytes.split_off(..u32::from_le_bytes([a, b, c, 0]) as usize)?,
            None => bytes,
        };
        streams.push(Stream::new(stream, parts.next().unwrap_or(&mut [])));
    }
    let mut streams: [Stream<'_>; STREAMS] = streams.try_into().ok()?;
    while streams.iter_mut().all(|stream| stream.looks(&table.entries)) {}
    streams.into_iter().try_for_each(|stream| stream.finish(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::{EncodeTable, encode_streams, histogram, limited};

    #[test]
    fn streams_come_back_at_every_length_and_distribution() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        for case in 0..400 {
            let len = if case < 200 { case } else { random() as usize % 5000 };
            let spread = 1 + random() % 8;
            let mut symbols: Vec<u8> =
                (0..len).map(|_| (random().leading_zeros() * spread + random() % spread) as u8).collect();
            // The quarters need not be alike.
            symbols.iter_mut().skip(len / 2).take(len / 3).for_each(|symbol| *symbol = 0);
            let lengths = limited(&histogram(&symbols), LONGEST);
            let (Some(encoder), Some(decoder)) = (EncodeTable::new(&lengths), DecodeTable::new(&lengths))
            else {
                assert!(symbols.iter().all(|symbol| *symbol == symbols[0]), "one symbol is no complete code");
                continue;
            };
            let mut coded = vec![0xff; 2 * len + 40];
            let coded_len = encode_streams(&encoder, &symbols, &mut coded).unwrap();
            let mut out = vec![0xee; len];
            decode_streams(&decoder, &coded[..coded_len], &mut out).unwrap();
            assert_eq!(out, symbols);
            assert_eq!(decode_streams(&decoder, &coded[..coded_len - 1], &mut out), None);
            coded[coded_len] = 0;
            assert_eq!(decode_streams(&decoder, &coded[..=coded_len], &mut out), None);
            assert_eq!(encode_streams(&encoder, &symbols, &mut coded[..coded_len - 1]), None);
        }
    }
}
