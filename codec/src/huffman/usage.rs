//! Sizes of the parts of a frame of `huffman`: its code, and the index of threads beside it.

use super::{FRONT_LEN, Huffman, LENGTHS, Parts, THREADS};
use crate::decode::open;
use crate::sections::Reader;
use crate::tables::Tables;
use crate::{Codec, DecodeError, FrameShape};

/// The words of the exponents of a frame of `huffman`, and their index (DFloat11, section 2.3).
///
/// ```
/// use zipwire_codec::{DType, ExponentWords, FrameShape, Huffman, Layout, compress_with};
///
/// let values: Vec<u8> = (0..20_000u32).flat_map(|i| (0x3c00 + (i * i % 700) as u16).to_le_bytes()).collect();
/// let frame = compress_with(&Huffman, &values, DType::Bf16)?;
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
        let (body, _, entry) = open(Tables::NONE, shape, static_section, dynamic_section)?;
        if entry.codec.id() != Huffman.id() {
            return Err(DecodeError::Codec { expected: Huffman.id(), found: entry.codec.id() });
        }
        let front = Reader::new(&body, FRONT_LEN)?.front;
        let threads = front[THREADS..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let lengths = super::read_lengths(&front[LENGTHS..]);
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
    use crate::{DType, Layout, Raw, compress_with, encode_to_vec};

    #[test]
    fn parts_add_up_to_the_frame() {
        let count = 50_000;
        let shape = |layout| FrameShape::new(layout, DType::Bf16, count);
        // Exponents 120 and 121 in turn but for a few others, and signs and mantissas of all kinds.
        let value = |i: usize| ((120 + i % 2 + i / 100 % 9 / 8 * (i % 7)) << 7) | (i % 128);
        let values: Vec<u8> = (0..count).flat_map(|i| (value(i) as u16).to_le_bytes()).collect();
        for layout in Layout::ALL {
            let frame = encode_to_vec(&Huffman, layout, DType::Bf16, &values).unwrap();
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
        let stored = compress_with(&Huffman, &noise, DType::Bf16).unwrap();
        assert_eq!(ExponentWords::of_frame(shape(Layout::Compact), &[], &stored), Ok(None));
        let raw = compress_with(&Raw, &noise, DType::Bf16).unwrap();
        let error = DecodeError::Codec { expected: "huffman", found: "raw" };
        assert_eq!(ExponentWords::of_frame(shape(Layout::Compact), &[], &raw), Err(error));
    }
}
