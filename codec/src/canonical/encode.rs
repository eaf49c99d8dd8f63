//! Symbols to words.

use super::decode::{JUMP_LEN, STREAMS};
use super::{Lengths, words};

/// The word of each symbol, in the lower bits, and above them its length.
pub(crate) struct EncodeTable([u32; 256]);

const LENGTH_AT: u32 = 24;

impl EncodeTable {
    /// Of a code whose words have at most 24 bits; `None` if the lengths are those of no complete code.
    pub(crate) fn new(lengths: &Lengths) -> Option<Self> {
        let mut table = words::words(lengths)?;
        for (entry, &length) in table.iter_mut().zip(lengths) {
            *entry |= u32::from(length) << LENGTH_AT;
        }
        Some(Self(table))
    }

    #[inline(always)]
    fn get(&self, symbol: u8) -> (u64, u32) {
        let entry = self.0[usize::from(symbol)];
        (u64::from(entry & ((1 << LENGTH_AT) - 1)), entry >> LENGTH_AT)
    }
}

/// Bytes of room that are left over behind streams.
pub(crate) const SPARE: usize = 8;

/// Bytes of streams with so many bits, at most: those of [`encode_streams`], or up to three more.
pub(crate) fn streams_len(bits: u64) -> usize {
    JUMP_LEN + bits.div_ceil(8) as usize + STREAMS - 1
}

/// Codes symbols as [`STREAMS`] streams of as many symbols each, the last of the rest, behind the lengths of all but the last. Returns the
/// number of bytes at the front of `out`; `None` if they do not fit with [`SPARE`] bytes to spare.
///
/// Words have at most 14 bits.
pub(crate) fn encode_streams(table: &EncodeTable, symbols: &[u8], out: &mut [u8]) -> Option<usize> {
    let (jump, streams) = out.split_at_mut_checked(JUMP_LEN)?;
    let mut len = 0;
    let stream_len = symbols.len().div_ceil(STREAMS).max(1);
    let mut parts = symbols.chunks(stream_len);
    for at in 0..STREAMS {
        let written = encode(table, parts.next().unwrap_or(&[]), streams.get_mut(len..)?)?;
        if let Some(entry) = jump.as_chunks_mut::<3>().0.get_mut(at) {
            let [a, b, c, 0] = u32::try_from(written).ok()?.to_le_bytes() else { return None };
            *entry = [a, b, c];
        }
        len += written;
    }
    Some(JUMP_LEN + len)
}

/// One stream.
fn encode(table: &EncodeTable, symbols: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut word, mut bits, mut at) = (0u64, 0u32, 0);
    let (fours, tail) = symbols.as_chunks::<4>();
    for four in fours {
        // Pairs first: words of one pair do not wait for those of the other.
        let [a, b, c, d] = four.map(|symbol| table.get(symbol));
        let (low, low_bits) = (a.0 | b.0 << a.1, a.1 + b.1);
        let (high, high_bits) = (c.0 | d.0 << c.1, c.1 + d.1);
        word |= (low | high << low_bits) << bits;
        bits += low_bits + high_bits;
        *out.get_mut(at..)?.first_chunk_mut()? = word.to_le_bytes();
        at += bits as usize / 8;
        word >>= bits / 8 * 8;
        bits %= 8;
    }
    for &symbol in tail {
        let (code, length) = table.get(symbol);
        word |= code << bits;
        bits += length;
    }
    *out.get_mut(at..)?.first_chunk_mut()? = word.to_le_bytes();
    Some(at + bits.div_ceil(8) as usize)
}
