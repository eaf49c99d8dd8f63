//! Frames to values.

use super::{BLOCK_THREADS, FRONT_LEN, GAP_BITS, LENGTHS, POSITION, Parts, THREAD_BITS, THREADS};
use crate::body::Body;
use crate::canonical::{self, DecodeTable, Lengths, Stream};
use crate::checksum::{self, PART_BYTES};
use crate::fault::WordFault;
use crate::header::HEADER_LEN;
use crate::sections::Reader;
use crate::{DecodeError, Layout, levels};

/// Blocks that are read side by side.
const TOGETHER: usize = 4;
const BLOCK_BITS: usize = BLOCK_THREADS * THREAD_BITS;

/// See [`crate::registry::Entry::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let kernel = levels::active();
    let count = out.len() / 2;
    let mut reader = Reader::new(body, FRONT_LEN)?;
    let rests = match body.layout {
        Layout::Split => reader.bodies,
        Layout::Compact => reader.dynamic.split_off(..count).ok_or(word_fault(WordFault::Overrun))?,
    };
    let front = reader.front;
    let mut sum = checksum::of_front(&front[HEADER_LEN..], HEADER_LEN);
    let number = |at: usize| front[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let threads = number(THREADS) as usize;
    if number(THREADS + 4) != 0 {
        return Err(DecodeError::Padding);
    }
    let lengths = super::read_lengths(&front[LENGTHS..]);
    if threads == 0 && lengths == [0; 256] {
        let exponents = reader.dynamic.split_off(..count).ok_or(word_fault(WordFault::Overrun))?;
        (kernel.join)(rests, exponents, 0, out);
        sum = sum.wrapping_add(checksum::of_values(kernel, out));
    } else {
        let parts = Parts::of(threads);
        let coded = reader.dynamic.split_off(..parts.len()).ok_or(word_fault(WordFault::Overrun))?;
        sum = sum.wrapping_add(checksum::of_front(&coded[parts.words..], FRONT_LEN));
        let of_values = read(&lengths, &Coded::new(coded, parts), rests, out).map_err(word_fault)?;
        sum = sum.wrapping_add(of_values);
    }
    reader.finish()?;
    Ok(sum)
}

fn word_fault(fault: WordFault) -> DecodeError {
    DecodeError::Words { fault }
}

/// Coded exponents: words and the index of threads.
struct Coded<'a> {
    words: &'a [u8],
    gaps: &'a [u8],
    positions: &'a [[u8; POSITION]],
}

impl<'a> Coded<'a> {
    fn new(bytes: &'a [u8], parts: Parts) -> Self {
        let (words, index) = bytes.split_at(parts.words);
        let (gaps, positions) = index.split_at(parts.gaps);
        Self { words, gaps, positions: positions.as_chunks().0 }
    }

    /// The first bit of the first word of a block.
    fn first_bit(&self, block: usize) -> usize {
        let at = block * BLOCK_THREADS * GAP_BITS;
        let bytes = [0, 1].map(|next| self.gaps.get(at / 8 + next).copied().unwrap_or(0));
        let gap = u16::from_le_bytes(bytes) >> (at % 8) & ((1 << GAP_BITS) - 1);
        block * BLOCK_BITS + usize::from(gap)
    }

    /// The number of values before a block; of the number of blocks, `count`.
    fn position(&self, block: usize, count: usize) -> usize {
        self.positions.get(block).map_or(count, |position| u32::from_le_bytes(*position) as usize)
    }
}

/// Reads all blocks; returns the checksum of the values, which is made while they are in a cache.
fn read(lengths: &Lengths, coded: &Coded<'_>, rests: &[u8], out: &mut [u8]) -> Result<u32, WordFault> {
    let kernel = levels::active();
    let table = DecodeTable::new(lengths).ok_or(WordFault::Lengths)?;
    let count = rests.len();
    if coded.position(0, count) != 0 {
        return Err(WordFault::Position { block: 0 });
    }
    let mut exponents = vec![0; (TOGETHER * BLOCK_BITS).min(count)];
    let (mut done, mut summed, mut sum) = (0, 0, 0_u32);
    let mut rests = rests;
    let blocks = coded.positions.len();
    for first in (0..blocks).step_by(TOGETHER) {
        let together = TOGETHER.min(blocks - first);
        let (mut room, mut streams) = (exponents.as_mut_slice(), Vec::with_capacity(TOGETHER));
        let mut filled = 0;
        for block in first..first + together {
            // A word has a bit at least, so a block has no more values than bits.
            let len = coded.position(block + 1, count).checked_sub(coded.position(block, count));
            let len = len.filter(|len| *len <= BLOCK_BITS).ok_or(WordFault::Position { block })?;
            let out = room.split_off_mut(..len).ok_or(WordFault::Position { block })?;
            streams.push(Stream::new(coded.words, coded.first_bit(block), out));
            filled += len;
        }
        if let Ok(streams) = <&mut [Stream<'_>; TOGETHER]>::try_from(streams.as_mut_slice()) {
            while streams.iter_mut().all(|stream| stream.looks(&table)) {}
        }
        for (block, stream) in (first..).zip(streams) {
            let end = stream.finish(&table).ok_or(WordFault::Words { block })?;
            let (before, behind) = (coded.position(block, count), coded.position(block + 1, count));
            let is_end = if before == count {
                // The block has only the end of the last word, which the block with the last value has seen.
                block > 0
            } else if behind == count {
                // Less than a thread, and zeros.
                end.div_ceil(THREAD_BITS) * THREAD_BITS == 8 * coded.words.len()
                    && canonical::is_end(&coded.words[..end.div_ceil(8)], end)
                    && coded.words[end.div_ceil(8)..].iter().all(|byte| *byte == 0)
            } else {
                end == coded.first_bit(block + 1)
            };
            if !is_end {
                return Err(WordFault::Words { block });
            }
        }
        // The positions add up to no more than there are values.
        let rest = rests.split_off(..filled).ok_or(WordFault::Position { block: first })?;
        (kernel.join)(rest, &exponents[..filled], 0, &mut out[2 * done..2 * (done + filled)]);
        done += filled;
        let whole = 2 * done / PART_BYTES * PART_BYTES;
        sum = sum.wrapping_add(checksum::of_values_at(kernel, &out[summed..whole], summed));
        summed = whole;
    }
    if !rests.is_empty() {
        return Err(WordFault::Position { block: blocks });
    }
    Ok(sum.wrapping_add(checksum::of_values_at(kernel, &out[summed..], summed)))
}
