//! Byte groups: what `grouped` (ZipNN) and `blockwise` (LMC) have in common.
//!
//! Values are cut into *chunks*, and the bytes of a chunk's values into *groups*, one for each byte of a value, the most significant one first: exponents
//! vary little, mantissas much. Each group of a chunk is coded by itself, by the *method* that suits it. The two codecs differ in the length
//! of chunks, in whether the sign is moved away from the exponent, and in the methods.
//!
//! In the split layout, whose static section must not depend on values, the first group is coded, and the others are static.

mod coding;
mod method;

use crate::error::in_group;
use coding::{decode, encode, tails};
use method::Method;
use zipwire_codec::frame::HEADER_LEN;
use zipwire_codec::open;
use zipwire_codec::sections::{self, Body, Pieces, Reader};
use zipwire_codec::tables::Tables;
use zipwire_codec::{Checked, EncodeChecked};
use zipwire_codec::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, checksum};

/// Part of the frame's checksum that is of coded bytes, `at` bytes into those of all groups: of those that can differ and give the same values,
/// which only bytes of zstd can.
fn coded_sum(method: Method, coded: &[u8], at: usize) -> u32 {
    match method {
        // Values never have this many words.
        Method::Zstd => checksum::of_front(coded, (at + (1 << 40)).next_multiple_of(checksum::WORD)),
        _ => 0,
    }
}

/// Paper whose rules are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// ZipNN: chunks of 256 KiB, exponents without the sign, Huffman, zstd, or neither.
    Grouped = 7,
    /// LMC: chunks whose groups have 64 KiB, Huffman or runs.
    Blockwise = 8,
}

impl Scheme {
    /// The codec's id.
    const fn id(self) -> &'static str {
        match self {
            Self::Grouped => "grouped",
            Self::Blockwise => "blockwise",
        }
    }

    /// Tag in frame headers.
    pub(crate) const fn tag(self) -> u8 {
        self as u8
    }
}

/// Bytes of the same significance together, exponents without the sign, each group of each 256 KiB by a Huffman code of its own, by zstd where
/// zeros repeat, or as it is (ZipNN): all types.
///
/// The spec is `grouped`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grouped;

/// Bytes of the same significance together, each block of 64 KiB of them by a Huffman code of its own, as runs of equal bytes, or as it is
/// (LMC): all types.
///
/// The spec is `blockwise`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blockwise;

/// See [`zipwire_codec::registry::Entry::pieces`]: what is static in frames of `grouped` is signs and mantissas.
pub(crate) const GROUPED_PIECES: Pieces = Pieces {
    piece: chunk_values(Scheme::Grouped, DType::Bf16),
    front_len: |count| {
        front_len(Scheme::Grouped, FrameShape { layout: Layout::Split, dtype: DType::Bf16, count })
    },
    static_body: |count| count,
    rest_at: |_| 0,
    tails: |front, _, count| tails(Scheme::Grouped, front, count),
};

/// See [`zipwire_codec::registry::Of::decode`].
pub(crate) fn decode_grouped(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    decode(Scheme::Grouped, body, out)
}

/// See [`zipwire_codec::registry::Of::decode`].
pub(crate) fn decode_blockwise(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    decode(Scheme::Blockwise, body, out)
}

/// A codec is what its scheme says. A blanket implementation would be in the way of that for boxes.
macro_rules! codec_of {
    ($codec:ident) => {
        impl EncodeChecked for $codec {
            fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
                let Checked { shape, values, static_out, dynamic_out } = frame;
                Ok(encode(Scheme::$codec, shape, values, static_out, dynamic_out))
            }
        }

        impl Codec for $codec {
            fn id(&self) -> &'static str {
                Scheme::$codec.id()
            }

            fn supports(&self, _: DType) -> bool {
                true
            }

            fn static_len(&self, shape: FrameShape) -> usize {
                static_len(Scheme::$codec, shape)
            }

            fn bound(&self, shape: FrameShape) -> usize {
                bound(Scheme::$codec, shape)
            }
        }
    };
}

codec_of!(Grouped);
codec_of!(Blockwise);

/// Bytes of a chunk of ZipNN (section 5).
const GROUPED_CHUNK: usize = 256 << 10;
/// Bytes of a block of LMC, which are those of one group: values of a chunk.
const BLOCKWISE_CHUNK: usize = 64 << 10;
/// Bytes of an entry of the chunk map.
const ENTRY: usize = 3;

/// Values of each chunk but the last, which may have fewer. Whole blocks of the checksum.
pub(crate) const fn chunk_values(scheme: Scheme, dtype: DType) -> usize {
    match scheme {
        Scheme::Grouped => GROUPED_CHUNK / dtype.width(),
        Scheme::Blockwise => BLOCKWISE_CHUNK,
    }
}

/// Groups of a chunk whose lengths the chunk map has: all, or in the split layout the first.
fn mapped_groups(layout: Layout, dtype: DType) -> usize {
    match layout {
        Layout::Split => 1,
        Layout::Compact => dtype.width(),
    }
}

/// Bytes of front matter: the header and the chunk map, an entry for each mapped group of each chunk. Saturates.
pub(crate) fn front_len(scheme: Scheme, FrameShape { layout, dtype, count }: FrameShape) -> usize {
    let entries = count.div_ceil(chunk_values(scheme, dtype)) * mapped_groups(layout, dtype);
    entries.saturating_mul(ENTRY).saturating_add(HEADER_LEN)
}

/// See [`zipwire_codec::Codec::static_len`].
pub(crate) fn static_len(scheme: Scheme, shape: FrameShape) -> usize {
    match shape.layout {
        Layout::Split => {
            shape.count.saturating_mul(shape.dtype.width() - 1).saturating_add(front_len(scheme, shape))
        }
        Layout::Compact => 0,
    }
}

/// See [`zipwire_codec::Codec::bound`].
pub(crate) fn bound(scheme: Scheme, shape: FrameShape) -> usize {
    sections::bound(shape.count, shape.dtype.width(), front_len(scheme, shape))
}

/// A byte group of a frame of `grouped` or `blockwise`, in all chunks together (ZipNN, Table 2, "breakdown to byte group").
///
/// ```
/// use zipwire_codec::{Codec, DType, FrameShape, Layout};
/// use zipwire_paper_codecs::{ByteGroup, Grouped};
///
/// let values: Vec<u8> = (0..20_000u32).flat_map(|i| (0x3c00 + (i * i % 700) as u16).to_le_bytes()).collect();
/// let frame = Grouped.encode_to_vec(Layout::Compact, DType::Bf16, &values)?;
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
        crate::register();
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
                let coded =
                    entry.map_or(Ok((Method::Stored, bytes)), |&entry| method::read_entry(entry, bytes));
                let coded = coded.map_err(|fault| in_group(scheme.id(), chunk, number, fault))?;
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
    use zipwire_codec::Raw;

    /// Values with few different exponents and all signs and mantissas; the second half is zeros.
    fn values(count: u32) -> Vec<u8> {
        let value = |i: u32| match i.wrapping_mul(0x9e37_79b1) {
            _ if i > count / 2 => 0,
            random => (random >> 17 & 0x80ff | 0x3c00 | (random & 0x300) >> 2) as u16,
        };
        (0..count).flat_map(|i| value(i).to_le_bytes()).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "zstd is C")]
    fn groups_add_up_to_the_frame() {
        let count = 300_000;
        let values = values(count);
        for layout in Layout::ALL {
            let shape = FrameShape::new(layout, DType::Bf16, count as usize);
            let codecs: [(&dyn Codec, Scheme); 2] =
                [(&Grouped, Scheme::Grouped), (&Blockwise, Scheme::Blockwise)];
            for (codec, scheme) in codecs {
                let frame = codec.encode_to_vec(layout, DType::Bf16, &values).unwrap();
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
    #[cfg_attr(miri, ignore = "zstd is C")]
    fn methods_are_counted_and_damage_is_named() {
        let values = values(300_000);
        let shape = FrameShape::new(Layout::Compact, DType::Bf16, 300_000);
        let mut frame = Grouped.encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
        let groups = ByteGroup::of_frame(shape, &[], &frame).unwrap();
        // Three chunks: without zeros, with some of them, of nothing else.
        assert_eq!((groups[0].huffman, groups[0].zstd, groups[0].same), (1, 1, 1));
        frame[HEADER_LEN + 2] = 0xf0;
        let error = ByteGroup::of_frame(shape, &[], &frame).unwrap_err();
        assert!(error.to_string().contains("chunk `0`, byte group `0`"), "{error}");
        let raw = Raw.encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap();
        let error = ByteGroup::of_frame(shape, &[], &raw).unwrap_err();
        assert_eq!(error, DecodeError::Codec { expected: "grouped", found: "raw" });
        assert!(ByteGroup::of_frame(shape, &[], &frame[..HEADER_LEN]).is_err());
    }
}
