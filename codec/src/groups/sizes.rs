//! Sizes of byte groups, read from the chunk map of a frame: which of them get shorter, by how much, and by which method.

use super::Scheme;
use super::geometry::{ENTRY, chunk_values, front_len, mapped_groups};
use super::method::{self, Method};
use crate::decode::open;
use crate::header::HEADER_LEN;
use crate::sections::Reader;
use crate::tables::Tables;
use crate::{DecodeError, FrameShape};

/// A byte group of a frame of `grouped` or `blockwise`, in all chunks together (ZipNN, Table 2, "breakdown to byte group").
///
/// ```
/// use zipwire_codec::{ByteGroup, DType, FrameShape, Grouped, Layout, compress_with};
///
/// let values: Vec<u8> = (0..20_000u32).flat_map(|i| (0x3c00 + (i * i % 700) as u16).to_le_bytes()).collect();
/// let frame = compress_with(&Grouped, &values, DType::Bf16)?;
/// let groups = ByteGroup::of_frame(FrameShape::new(Layout::Compact, DType::Bf16, 20_000), &[], &frame)?;
/// let [exponents, rests] = groups[..] else { panic!("a BF16 value has two bytes") };
/// assert!(exponents.coded_len < exponents.raw_len / 3 && rests.coded_len <= rests.raw_len);
/// assert_eq!((exponents.raw_len, exponents.huffman), (20_000, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ByteGroup {
    /// Bytes before coding, one for each value.
    pub raw_len: usize,
    /// Bytes of its bodies. Header and chunk map are not among them.
    pub coded_len: usize,
    /// Chunks in which it is stored as it is.
    pub stored: usize,
    /// Chunks in which all its bytes are equal.
    pub same: usize,
    /// Chunks in which it has a Huffman code.
    pub huffman: usize,
    /// Chunks in which it is a zstd frame; only in `grouped`.
    pub zstd: usize,
    /// Chunks in which it is a list of runs; only in `blockwise`.
    pub runs: usize,
}

impl ByteGroup {
    /// Reads the chunk map of a frame of the expected shape: as many groups as a value has bytes, the most significant one first, which in
    /// `grouped` is the exponent if values are BF16 or F32. Bodies are not looked at, and the checksum is not compared.
    ///
    /// # Errors
    /// If the sections are not those of such a frame of these codecs, or no group is coded as an entry of the map says.
    pub fn of_frame(
        shape: FrameShape,
        static_section: &[u8],
        dynamic_section: &[u8],
    ) -> Result<Vec<Self>, DecodeError> {
        let (body, _, entry) = open(Tables::NONE, shape, static_section, dynamic_section)?;
        let scheme = match entry.codec.id() {
            id if id == Scheme::Grouped.id() => Scheme::Grouped,
            id if id == Scheme::Blockwise.id() => Scheme::Blockwise,
            found => return Err(DecodeError::Codec { expected: Scheme::Grouped.id(), found }),
        };
        let FrameShape { layout, dtype, count } = shape;
        let reader = Reader::new(&body, front_len(scheme, shape))?;
        let mut entries = reader.front[HEADER_LEN..].as_chunks::<ENTRY>().0.iter();
        let chunk_values = chunk_values(scheme, dtype);
        let mapped = mapped_groups(layout, dtype);
        let mut groups = vec![Self::default(); dtype.width()];
        for chunk in 0..count.div_ceil(chunk_values) {
            let bytes = (count - chunk * chunk_values).min(chunk_values);
            for (number, group) in groups.iter_mut().enumerate() {
                // What the map leaves out is in the static section as it is.
                let entry = if number < mapped { entries.next() } else { None };
                let coded = entry.map_or(Ok((Method::Stored, bytes)), |&entry| method::read(entry, bytes));
                let coded = coded.map_err(|fault| DecodeError::Group { chunk, group: number, fault })?;
                group.add(coded, bytes);
            }
        }
        Ok(groups)
    }

    fn add(&mut self, (method, coded_len): (Method, usize), bytes: usize) {
        self.raw_len += bytes;
        self.coded_len += coded_len;
        let chunks = match method {
            Method::Stored => &mut self.stored,
            Method::Same => &mut self.same,
            Method::Huffman => &mut self.huffman,
            Method::Zstd => &mut self.zstd,
            Method::Runs => &mut self.runs,
        };
        *chunks += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blockwise, Codec, DType, Grouped, Layout, Raw, compress_with, encode_to_vec};

    /// Values with few different exponents and all signs and mantissas; the second half is zeros.
    fn values(count: u32) -> Vec<u8> {
        let value = |i: u32| match i.wrapping_mul(0x9e37_79b1) {
            _ if i > count / 2 => 0,
            random => (random >> 17 & 0x80ff | 0x3c00 | (random & 0x300) >> 2) as u16,
        };
        (0..count).flat_map(|i| value(i).to_le_bytes()).collect()
    }

    #[test]
    fn groups_add_up_to_the_frame() {
        let count = 300_000;
        let values = values(count);
        for layout in Layout::ALL {
            let shape = FrameShape::new(layout, DType::Bf16, count as usize);
            let codecs: [(&dyn Codec, Scheme); 2] =
                [(&Grouped, Scheme::Grouped), (&Blockwise, Scheme::Blockwise)];
            for (codec, scheme) in codecs {
                let frame = encode_to_vec(codec, layout, DType::Bf16, &values).unwrap();
                let (fixed, rest) = frame.split_at(codec.static_len(shape));
                let groups = ByteGroup::of_frame(shape, fixed, rest).unwrap();
                let coded: usize = groups.iter().map(|group| group.coded_len).sum();
                assert_eq!(coded + front_len(scheme, shape), frame.len(), "{codec:?} {layout:?}");
                let chunks = shape.count.div_ceil(chunk_values(scheme, DType::Bf16));
                for ByteGroup { raw_len, stored, same, huffman, zstd, runs, .. } in groups {
                    assert_eq!((raw_len, stored + same + huffman + zstd + runs), (shape.count, chunks));
                }
            }
        }
    }

    #[test]
    fn methods_are_counted_and_damage_is_named() {
        let values = values(300_000);
        let shape = FrameShape::new(Layout::Compact, DType::Bf16, 300_000);
        let mut frame = compress_with(&Grouped, &values, DType::Bf16).unwrap();
        let groups = ByteGroup::of_frame(shape, &[], &frame).unwrap();
        // Three chunks: without zeros, with some of them, of nothing else.
        assert_eq!((groups[0].huffman, groups[0].zstd, groups[0].same), (1, 1, 1));
        frame[HEADER_LEN + 2] = 0xf0;
        let error = ByteGroup::of_frame(shape, &[], &frame).unwrap_err();
        assert!(matches!(error, DecodeError::Group { chunk: 0, group: 0, .. }), "{error}");
        let raw = compress_with(&Raw, &values, DType::Bf16).unwrap();
        let error = ByteGroup::of_frame(shape, &[], &raw).unwrap_err();
        assert_eq!(error, DecodeError::Codec { expected: "grouped", found: "raw" });
        assert!(ByteGroup::of_frame(shape, &[], &frame[..HEADER_LEN]).is_err());
    }
}
