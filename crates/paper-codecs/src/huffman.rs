//! `huffman`: one Huffman code for the exponents of a frame, in blocks that threads of a GPU read side by side, after DFloat11 (arXiv 2504.11651).
//!
//! Words of up to 32 bits are one sequence of bits. A *thread* has 64 of these bits and reads the words that begin there; its *gap* is where the first of
//! them begins. A *block* is 256 threads; its *position* is the number of symbols before those that begin in it, which is where its values go. So a GPU reads the
//! whole sequence at once (section 2.3), and a CPU as many blocks side by side as keep it busy.

use crate::error::{WordFault, in_words};
use zipwire_codec::canonical::{self, DecodeTable, EncodeTable, Lengths, SPARE, Stream, Words};
use zipwire_codec::checksum::{self, PART_BYTES};
use zipwire_codec::frame::{self, HEADER_LEN};
use zipwire_codec::kernel::TILE;
use zipwire_codec::open;
use zipwire_codec::sections::{Body, Reader, Writer};
use zipwire_codec::tables::Tables;
use zipwire_codec::{Checked, EncodeChecked};
use zipwire_codec::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, levels};

/// Tag in frame headers.
pub(crate) const TAG: u8 = 9;

/// The longest word, in bits: a gap has five.
const LONGEST: usize = 32;
/// Bits of a thread.
const THREAD_BITS: usize = 64;
/// Threads of a block.
const BLOCK_THREADS: usize = 256;
/// Bits of a gap.
const GAP_BITS: usize = 5;
/// Bytes of the position of a block.
const POSITION: usize = 4;
/// Values of a frame with words at most: positions are below 2^32, also when they are rounded up to octets, as decoders do.
const MOST_VALUES: usize = u32::MAX as usize - 7;
/// Offset of the number of threads in the front matter, four bytes and four that are 0; then the lengths of words, six bits for each exponent.
const THREADS: usize = HEADER_LEN;
const LENGTHS: usize = THREADS + 8;
const FRONT_LEN: usize = LENGTHS + 256 * 6 / 8;

/// Exponents by one Huffman code for all of them, with an index for the threads of a GPU; signs and mantissas as they are (DFloat11): BF16.
///
/// The spec is `huffman`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Huffman;

/// Lengths of the parts of what is coded.
#[derive(Clone, Copy)]
struct Parts {
    words: usize,
    gaps: usize,
    positions: usize,
}

impl Parts {
    fn of(threads: usize) -> Self {
        Self {
            words: threads * THREAD_BITS / 8,
            gaps: (threads * GAP_BITS).div_ceil(8),
            positions: threads.div_ceil(BLOCK_THREADS) * POSITION,
        }
    }

    fn len(self) -> usize {
        self.words + self.gaps + self.positions
    }
}

/// Writes lengths of words, four in three bytes, the first one lowest.
fn write_lengths(lengths: &Lengths, out: &mut [u8]) {
    for (four, out) in lengths.as_chunks::<4>().0.iter().zip(out.as_chunks_mut::<3>().0) {
        let bits = four.iter().rev().fold(0u32, |bits, length| bits << 6 | u32::from(*length));
        [out[0], out[1], out[2], _] = bits.to_le_bytes();
    }
}

/// The inverse.
fn read_lengths(bytes: &[u8]) -> Lengths {
    let mut lengths = [0; 256];
    for (four, &[a, b, c]) in lengths.as_chunks_mut::<4>().0.iter_mut().zip(bytes.as_chunks::<3>().0) {
        let bits = u32::from_le_bytes([a, b, c, 0]);
        *four = [0, 6, 12, 18].map(|at| (bits >> at & 63) as u8);
    }
    lengths
}

impl EncodeChecked for Huffman {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        let Checked { shape, values, static_out, dynamic_out } = frame;
        Ok(encode(shape, values, static_out, dynamic_out))
    }
}

impl Codec for Huffman {
    fn id(&self) -> &'static str {
        "huffman"
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype == DType::Bf16
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        match shape.layout {
            Layout::Split => shape.count.saturating_add(FRONT_LEN),
            Layout::Compact => 0,
        }
    }

    fn bound(&self, shape: FrameShape) -> usize {
        zipwire_codec::sections::bound(shape.count, shape.dtype.width(), FRONT_LEN)
    }

    fn min_len(&self, shape: FrameShape) -> usize {
        shape.count.saturating_add(FRONT_LEN)
    }
}

/// Encodes values of a frame of this shape, for which the sections have room; returns the length of the dynamic one.
fn encode(shape: FrameShape, values: &[u8], static_out: &mut [u8], dynamic_out: &mut [u8]) -> usize {
    let kernel = levels::active();
    let writer = Writer::new(shape.layout, FRONT_LEN, static_out, dynamic_out);
    // Signs and mantissas are first: in `split` all of the static section behind the front matter, in `compact` in front of the rest.
    let (rests, coded) = match writer.bodies {
        [] => writer.dynamic.split_at_mut(shape.count),
        bodies => (bodies, writer.dynamic),
    };
    let rests_dynamic_len = if writer.front_dynamic_len > 0 { shape.count } else { 0 };
    // What is stored is this long.
    let coded = &mut coded[..shape.count];
    let mut exponents = vec![0; shape.count];
    let tiles = values.chunks(2 * TILE).zip(rests.chunks_mut(TILE)).zip(exponents.chunks_mut(TILE));
    tiles.for_each(|((values, rests), exponents)| (kernel.split)(values, 0, rests, exponents));
    // Without counts there is no code, and exponents are stored.
    let mut counts = match shape.count <= MOST_VALUES {
        true => canonical::histogram(kernel, &exponents),
        false => [0; 256],
    };
    // A code takes two symbols.
    if let (Some(&only), true) = (exponents.first(), counts.iter().filter(|count| **count > 0).count() == 1) {
        counts[usize::from(only ^ 1)] = 1;
    }
    let lengths = canonical::limited(&counts, LONGEST);
    let written = EncodeTable::new(&lengths).and_then(|table| {
        let threads = usize::try_from(canonical::coded_bits(&counts, &lengths)).ok()?.div_ceil(THREAD_BITS);
        let parts = Parts::of(threads);
        // The symbol that was added has no value, so there may be fewer threads.
        if parts.len() + SPARE > shape.count { None } else { index_and_words(&table, &exponents, coded) }
    });
    let mut sum = checksum::of_values(kernel, values);
    let coded_len = match written {
        Some(threads) => {
            let parts = Parts::of(threads);
            writer.front[THREADS..THREADS + 4].copy_from_slice(&(threads as u32).to_le_bytes());
            write_lengths(&lengths, &mut writer.front[LENGTHS..]);
            sum = sum.wrapping_add(checksum::of_front(&coded[parts.words..parts.len()], FRONT_LEN));
            parts.len()
        }
        None => {
            coded.copy_from_slice(&exponents);
            shape.count
        }
    };
    let dynamic_len = writer.front_dynamic_len + rests_dynamic_len + coded_len;
    frame::seal(TAG, shape, 0, dynamic_len, sum, writer.front);
    dynamic_len
}

/// Index of threads and blocks: where each begins.
#[derive(Default)]
struct Index {
    /// The bit at which the first word of each thread begins.
    gaps: Vec<u8>,
    /// The number of symbols before each block.
    positions: Vec<u32>,
}

impl Index {
    /// Whether a word that begins at this bit is the first one of its thread. No thread has none before, as a word has at most half as many bits.
    #[inline(always)]
    fn is_first(&self, at: usize) -> bool {
        at / THREAD_BITS >= self.gaps.len()
    }

    /// The word of a symbol begins at this bit.
    fn add(&mut self, at: usize, symbol: usize) {
        if self.is_first(at) {
            if self.gaps.len().is_multiple_of(BLOCK_THREADS) {
                self.positions.push(symbol as u32);
            }
            self.gaps.push((at % THREAD_BITS) as u8);
        }
    }
}

/// Writes words, gaps and positions; returns the number of threads.
fn index_and_words(table: &EncodeTable, exponents: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut words = Words::new(out);
    let mut index = Index::default();
    let (fours, tail) = exponents.as_chunks::<4>();
    for (number, four) in fours.iter().enumerate() {
        let [a, b, c, d] = four.map(|symbol| table.get(symbol).1 as usize);
        let before = words.bits();
        if index.is_first(before + a + b + c) {
            let starts = [before, before + a, before + a + b, before + a + b + c];
            (4 * number..).zip(starts).for_each(|(symbol, at)| index.add(at, symbol));
        }
        if a + b + c + d <= 56 {
            words.put_four(table, *four)?;
        } else {
            four.iter().try_for_each(|symbol| words.put(table, *symbol))?;
        }
    }
    for (symbol, &exponent) in (4 * fours.len()..).zip(tail) {
        index.add(words.bits(), symbol);
        words.put(table, exponent)?;
    }
    let used = words.finish()?.div_ceil(8);
    let threads = (8 * used).div_ceil(THREAD_BITS);
    let parts = Parts::of(threads);
    let (coded, behind) = out.get_mut(..parts.len())?.split_at_mut(parts.words);
    coded[used..].fill(0);
    let Index { mut gaps, mut positions } = index;
    let (packed, places) = behind.split_at_mut(parts.gaps);
    packed.fill(0);
    // The last threads may have the end of a word only.
    gaps.resize(threads, 0);
    for (thread, gap) in gaps.into_iter().enumerate() {
        let (byte, shift) = (thread * GAP_BITS / 8, thread * GAP_BITS % 8);
        let bits = u16::from(gap) << shift;
        packed[byte] |= bits as u8;
        if let (Some(next), true) = (packed.get_mut(byte + 1), bits >= 1 << 8) {
            *next |= (bits >> 8) as u8;
        }
    }
    positions.resize(places.len() / POSITION, exponents.len() as u32);
    for (place, position) in places.chunks_mut(POSITION).zip(positions) {
        place.copy_from_slice(&position.to_le_bytes());
    }
    Some(threads)
}

/// Blocks that are read side by side.
const TOGETHER: usize = 4;
const BLOCK_BITS: usize = BLOCK_THREADS * THREAD_BITS;

/// See [`zipwire_codec::registry::Of::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let kernel = levels::active();
    let count = out.len() / 2;
    let mut reader = Reader::new(body, FRONT_LEN)?;
    let rests = match body.layout {
        Layout::Split => reader.bodies,
        Layout::Compact => reader.dynamic.split_off(..count).ok_or_else(|| in_words(WordFault::Overrun))?,
    };
    let front = reader.front;
    let mut sum = checksum::of_front(&front[HEADER_LEN..], HEADER_LEN);
    let number = |at: usize| front[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let threads = number(THREADS) as usize;
    if number(THREADS + 4) != 0 {
        return Err(DecodeError::Padding);
    }
    let lengths = read_lengths(&front[LENGTHS..]);
    if threads == 0 && lengths == [0; 256] {
        let exponents = reader.dynamic.split_off(..count).ok_or_else(|| in_words(WordFault::Overrun))?;
        (kernel.join)(rests, exponents, 0, out);
        sum = sum.wrapping_add(checksum::of_values(kernel, out));
    } else {
        let parts = Parts::of(threads);
        let coded = reader.dynamic.split_off(..parts.len()).ok_or_else(|| in_words(WordFault::Overrun))?;
        sum = sum.wrapping_add(checksum::of_front(&coded[parts.words..], FRONT_LEN));
        let of_values = read(&lengths, &Coded::new(coded, parts), rests, out).map_err(in_words)?;
        sum = sum.wrapping_add(of_values);
    }
    reader.finish()?;
    Ok(sum)
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

/// The words of the exponents of a frame of `huffman`, and their index (DFloat11, section 2.3).
///
/// ```
/// use zipwire_codec::{Codec, DType, FrameShape, Layout};
/// use zipwire_paper_codecs::{ExponentWords, Huffman};
///
/// let values: Vec<u8> = (0..20_000u32).flat_map(|i| (0x3c00 + (i * i % 700) as u16).to_le_bytes()).collect();
/// let frame = Huffman.encode_to_vec(Layout::Compact, DType::Bf16, &values)?;
/// let shape = FrameShape::new(Layout::Compact, DType::Bf16, 20_000);
/// let words = ExponentWords::of_frame(shape, &[], &frame)?.expect("few exponents get shorter");
/// assert!(words.words_len < 20_000 / 3 && words.longest() < 11);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExponentWords {
    /// Bits of the word of each exponent; 0 if it has none.
    pub lengths: [u8; 256],
    /// Bytes of all words, with fewer than eight of filling.
    pub words_len: usize,
    /// Bytes of the gaps, where the words of each thread begin: five bits for each eight bytes of words.
    pub gaps_len: usize,
    /// Bytes of the positions, where the values of each block go: four for each 2 KiB of words.
    pub positions_len: usize,
}

impl ExponentWords {
    /// Reads the front matter of a frame of the expected shape; `None` if the exponents are stored. Words are not looked at, and the
    /// checksum is not compared.
    ///
    /// # Errors
    /// If the sections are not those of a frame of this codec and shape.
    pub fn of_frame(
        shape: FrameShape,
        static_section: &[u8],
        dynamic_section: &[u8],
    ) -> Result<Option<Self>, DecodeError> {
        crate::register();
        let (body, _, entry) = open(Tables::NONE, shape, static_section, dynamic_section)?;
        if entry.codec.id() != Huffman.id() {
            return Err(DecodeError::Codec { expected: Huffman.id(), found: entry.codec.id() });
        }
        let front = Reader::new(&body, FRONT_LEN)?.front;
        let threads = front[THREADS..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let lengths = read_lengths(&front[LENGTHS..]);
        let Parts { words, gaps, positions } = Parts::of(threads as usize);
        let words = Self { lengths, words_len: words, gaps_len: gaps, positions_len: positions };
        Ok((threads > 0).then_some(words))
    }

    /// Bits of the longest word.
    pub fn longest(&self) -> u8 {
        self.lengths.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zipwire_codec::Raw;

    #[test]
    fn parts_add_up_to_the_frame() {
        let count = if cfg!(miri) { 4_000 } else { 50_000 };
        let shape = |layout| FrameShape::new(layout, DType::Bf16, count);
        // Exponents 120 and 121 in turn but for a few others, and signs and mantissas of all kinds.
        let value = |i: usize| ((120 + i % 2 + i / 100 % 9 / 8 * (i % 7)) << 7) | (i % 128);
        let values: Vec<u8> = (0..count).flat_map(|i| (value(i) as u16).to_le_bytes()).collect();
        for layout in Layout::ALL {
            let frame = Huffman.encode_to_vec(layout, DType::Bf16, &values).unwrap();
            let (fixed, rest) = frame.split_at(Huffman.static_len(shape(layout)));
            let words = ExponentWords::of_frame(shape(layout), fixed, rest).unwrap().unwrap();
            let parts = words.words_len + words.gaps_len + words.positions_len;
            assert_eq!(parts + FRONT_LEN + count, frame.len(), "{layout:?}");
            let bits: usize = (0..count).map(|i| usize::from(words.lengths[value(i) >> 7])).sum();
            assert_eq!(words.words_len, bits.div_ceil(64) * 8);
            assert!((3..12).contains(&words.longest()), "{}", words.longest());
        }
        let noise: Vec<u8> = (0..count as u32)
            .flat_map(|i| ((i.wrapping_mul(0x9e37_79b1) >> 16) as u16).to_le_bytes())
            .collect();
        let stored = Huffman.encode_to_vec(Layout::Compact, DType::Bf16, &noise).unwrap();
        assert_eq!(ExponentWords::of_frame(shape(Layout::Compact), &[], &stored), Ok(None));
        let raw = Raw.encode_to_vec(Layout::Compact, DType::Bf16, &noise).unwrap();
        let error = DecodeError::Codec { expected: "huffman", found: "raw" };
        assert_eq!(ExponentWords::of_frame(shape(Layout::Compact), &[], &raw), Err(error));
    }
}
