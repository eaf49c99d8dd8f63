//! Symbols to words.

use super::decode::{JUMP_LEN, STREAMS};
use super::{Lengths, words};
use crate::kernel::Kernel;
use crate::kernel::four::{LENGTH_AT as FOUR_LENGTH_AT, ShortWords};

/// The word of each symbol, in the lower bits, and above them its length.
pub struct EncodeTable([u64; 256]);

const LENGTH_AT: u32 = 32;

impl EncodeTable {
    /// `None` if the lengths are those of no complete code.
    pub fn new(lengths: &Lengths) -> Option<Self> {
        let words = words(lengths)?;
        let entry = |symbol| u64::from(words[symbol]) | u64::from(lengths[symbol]) << LENGTH_AT;
        Some(Self(std::array::from_fn(entry)))
    }

    #[inline(always)]
    pub fn get(&self, symbol: u8) -> (u64, u32) {
        let entry = self.0[usize::from(symbol)];
        (u64::from(entry as u32), (entry >> LENGTH_AT) as u32)
    }
}

/// Bytes of room that are left over behind streams.
pub const SPARE: usize = 8;

/// The most bytes of streams with this number of bits: those of [`encode_streams`], or up to three more.
pub fn streams_len(bits: u64) -> usize {
    JUMP_LEN + bits.div_ceil(8) as usize + STREAMS - 1
}

/// Codes symbols as [`STREAMS`] streams of as many symbols each, the last of the rest, behind the lengths of all but the last. Returns the
/// number of bytes at the front of `out`; `None` if they do not fit with [`SPARE`] bytes to spare.
///
/// Words have at most eleven bits.
pub fn encode_streams(kernel: &Kernel, table: &EncodeTable, symbols: &[u8], out: &mut [u8]) -> Option<usize> {
    let (jump, streams) = out.split_at_mut_checked(JUMP_LEN)?;
    let short = ShortWords::new(|symbol| table.get(symbol));
    let mut len = 0;
    let stream_len = symbols.len().div_ceil(STREAMS).max(1);
    let mut parts = symbols.chunks(stream_len);
    for at in 0..STREAMS {
        let written = encode(kernel, table, &short, parts.next().unwrap_or(&[]), streams.get_mut(len..)?)?;
        if let Some(entry) = jump.as_chunks_mut::<3>().0.get_mut(at) {
            let [a, b, c, 0] = u32::try_from(written).ok()?.to_le_bytes() else { return None };
            *entry = [a, b, c];
        }
        len += written;
    }
    Some(JUMP_LEN + len)
}

/// Fours of symbols whose words are made before they are written.
const BATCH: usize = 256;

/// One stream.
fn encode(
    kernel: &Kernel,
    table: &EncodeTable,
    short: &ShortWords,
    symbols: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let mut words = Words::new(out);
    let (fours, tail) = symbols.as_chunks();
    let mut made = [0; BATCH];
    for batch in fours.chunks(BATCH) {
        let made = &mut made[..batch.len()];
        (kernel.fours)(short, batch, made);
        let (pairs, last) = made.as_chunks();
        for [first, second] in pairs {
            let bits = [first, second].map(|four| (four >> FOUR_LENGTH_AT) as u32);
            let [first, second] = [first, second].map(|four| four & ((1 << FOUR_LENGTH_AT) - 1));
            if bits[0] + bits[1] <= 56 {
                words.push(first | second << bits[0], bits[0] + bits[1])?;
            } else {
                words.push(first, bits[0])?;
                words.push(second, bits[1])?;
            }
        }
        for four in last {
            words.push(four & ((1 << FOUR_LENGTH_AT) - 1), (four >> FOUR_LENGTH_AT) as u32)?;
        }
    }
    tail.iter().try_for_each(|symbol| words.put(table, *symbol))?;
    Some(words.finish()?.div_ceil(8))
}

/// Writer of consecutive words.
pub struct Words<'a> {
    out: &'a mut [u8],
    /// Whole bytes that are written.
    at: usize,
    /// Bits that are not, fewer than eight.
    word: u64,
    bits: u32,
}

impl<'a> Words<'a> {
    pub fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0, word: 0, bits: 0 }
    }

    /// Bits of all words so far.
    pub fn bits(&self) -> usize {
        8 * self.at + self.bits as usize
    }

    /// Four symbols, whose words have at most 56 bits together. `None` if there is no room for eight bytes.
    #[inline(always)]
    pub fn put_four(&mut self, table: &EncodeTable, four: [u8; 4]) -> Option<()> {
        // Pairs first: words of one pair do not wait for those of the other.
        let [a, b, c, d] = four.map(|symbol| table.get(symbol));
        let (low, low_bits) = (a.0 | b.0 << a.1, a.1 + b.1);
        let (high, high_bits) = (c.0 | d.0 << c.1, c.1 + d.1);
        self.push(low | high << low_bits, low_bits + high_bits)
    }

    /// One symbol. `None` if there is no room for eight bytes.
    #[inline(always)]
    pub fn put(&mut self, table: &EncodeTable, symbol: u8) -> Option<()> {
        let (word, bits) = table.get(symbol);
        self.push(word, bits)
    }

    /// A word of at most 56 bits.
    #[inline(always)]
    fn push(&mut self, word: u64, bits: u32) -> Option<()> {
        self.word |= word << self.bits;
        self.bits += bits;
        *self.out.get_mut(self.at..)?.first_chunk_mut()? = self.word.to_le_bytes();
        self.at += self.bits as usize / 8;
        self.word >>= self.bits / 8 * 8;
        self.bits %= 8;
        Some(())
    }

    /// The number of bits; what fills up the last byte is 0.
    pub fn finish(self) -> Option<usize> {
        if self.bits > 0 {
            *self.out.get_mut(self.at)? = self.word as u8;
        }
        Some(self.bits())
    }
}
