//! Everything that can go wrong with frames and tables: with buffers for encoding, with a frame that is decoded.

use crate::fault::{BlockFault, DeltaFault, GroupFault, RowFault, TileFault, WordFault};
use crate::{DType, Layout};

/// Values or buffers that a codec cannot encode from or into.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The codec does not code this type.
    #[error("codec `{codec}` does not support `{dtype}`")]
    Unsupported {
        /// Id of the codec.
        codec: &'static str,
        /// Type of the values.
        dtype: DType,
    },
    /// The input ends inside a value.
    #[error("`{bytes}` bytes are not a whole number of `{dtype}` values")]
    PartialValue {
        /// Length of the input.
        bytes: usize,
        /// Type of the values.
        dtype: DType,
    },
    /// The buffer for the static section has the wrong length.
    #[error("the static section takes `{needed}` bytes, the buffer has `{found}`")]
    StaticBuffer {
        /// `Codec::static_len`.
        needed: usize,
        /// Length of the buffer.
        found: usize,
    },
    /// The buffer for the dynamic section cannot hold the worst case.
    #[error("the dynamic section can take `{needed}` bytes, the buffer has `{found}`")]
    DynamicBuffer {
        /// `Codec::bound` less `Codec::static_len`.
        needed: usize,
        /// Length of the buffer.
        found: usize,
    },
    /// There is no memory for the longest frame of so many values.
    #[error("there is no memory for a frame of up to `{bytes}` bytes")]
    OutOfMemory {
        /// `Codec::bound`.
        bytes: usize,
    },
    /// The base has other values than those that are coded.
    #[error("the values are `{count}` of `{dtype}`, those of the base `{base_count}` of `{base_dtype}`")]
    Base {
        /// Type of the values.
        dtype: DType,
        /// Number of values.
        count: usize,
        /// Type of the base.
        base_dtype: DType,
        /// Number of values of the base.
        base_count: usize,
    },
    /// An index of rows is of other values.
    #[error("the values have `{expected}` rows, the index has `{found}`")]
    Rows {
        /// Whole rows of the values.
        expected: usize,
        /// Rows of the index.
        found: usize,
    },
}

/// A section of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Its length follows from the number of values.
    Static,
    /// Its length is in the header.
    Dynamic,
}

impl std::fmt::Display for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Static => "static",
            Self::Dynamic => "dynamic",
        })
    }
}

/// A frame that is damaged, cut, or not the one that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The output ends inside a value.
    #[error("output of `{bytes}` bytes is not a whole number of `{dtype}` values")]
    PartialValue {
        /// Length of the output.
        bytes: usize,
        /// Expected type.
        dtype: DType,
    },
    /// The section cannot hold what must be in it.
    #[error("the {section} section has `{found}` bytes where `{needed}` are needed")]
    Truncated {
        /// Which section.
        section: Section,
        /// Bytes needed at least.
        needed: usize,
        /// Bytes given.
        found: usize,
    },
    /// The length of a section is not what it must be.
    #[error("the {section} section has `{found}` bytes instead of `{expected}`")]
    Length {
        /// Which section.
        section: Section,
        /// From the count (static) or the header (dynamic).
        expected: u64,
        /// Bytes given.
        found: usize,
    },
    /// The bytes are no frame.
    #[error("not a zipwire frame: it starts with `{found:02x?}`")]
    Magic {
        /// First four bytes.
        found: [u8; 4],
    },
    /// A frame of another version of the format: of a later release, or of none, which is version 0.
    #[error("the frame has version `{found}` of the format; {}", remedy_for_version((*found).into(), crate::FRAME_VERSION.into()))]
    Version {
        /// Version in the header.
        found: u8,
    },
    /// A codec that this version does not have.
    #[error("no codec has tag `{tag}`")]
    UnknownCodec {
        /// Tag in the header.
        tag: u8,
    },
    /// A frame of another codec than one asks about.
    #[error("expected a frame of codec `{expected}`, found one of `{found}`")]
    Codec {
        /// Id of the codec that was asked about.
        expected: &'static str,
        /// Id of the codec of the frame.
        found: &'static str,
    },
    /// The codec cannot have made a frame of this type.
    #[error("codec `{codec}` does not support `{dtype}`")]
    Unsupported {
        /// Id of the codec.
        codec: &'static str,
        /// Expected type.
        dtype: DType,
    },
    /// A frame of values of another type.
    #[error("expected values of type `{expected}`, the frame has type tag `{found}`")]
    DType {
        /// What the caller expects.
        expected: DType,
        /// Tag in the header.
        found: u8,
    },
    /// A frame in another layout.
    #[error("expected layout `{expected}`, the frame has layout tag `{found}`")]
    Layout {
        /// What the caller expects.
        expected: Layout,
        /// Tag in the header.
        found: u8,
    },
    /// A frame of another number of values.
    #[error("expected `{expected}` values, the frame has `{found}`")]
    Count {
        /// What the caller expects.
        expected: usize,
        /// Count in the header.
        found: u64,
    },
    /// A type that this version does not have.
    #[error("no type has tag `{tag}`")]
    UnknownDType {
        /// Tag in the header.
        tag: u8,
    },
    /// A layout that this version does not have.
    #[error("no layout has tag `{tag}`")]
    UnknownLayout {
        /// Tag in the header.
        tag: u8,
    },
    /// More values than memory can have.
    #[error("the frame has `{count}` values of type `{dtype}`, more than any memory")]
    TooLarge {
        /// Count in the header.
        count: u64,
        /// Type of the values.
        dtype: DType,
    },
    /// A header with a length that does not go with its number of values.
    #[error("the header says `{len}` bytes, frames of `{count}` values have `{least}` to `{most}`")]
    Implausible {
        /// Bytes of the frame by the header.
        len: u64,
        /// The fewest bytes of a frame of so many values.
        least: usize,
        /// The most bytes of such a frame.
        most: usize,
        /// Count in the header.
        count: u64,
    },
    /// The values are more than the reader takes.
    #[error("the frame has `{bytes}` bytes of values, the limit is `{limit}`")]
    Limit {
        /// Bytes of the values.
        bytes: usize,
        /// `Decoder::max_values_len`.
        limit: usize,
    },
    /// There is no memory for the values.
    #[error("there is no memory for `{bytes}` bytes of values")]
    OutOfMemory {
        /// Bytes of the values.
        bytes: usize,
    },
    /// The buffer for the values is too short.
    #[error("the values take `{needed}` bytes, the buffer has `{found}`")]
    OutputBuffer {
        /// Bytes of the values.
        needed: usize,
        /// Length of the buffer.
        found: usize,
    },
    /// A frame that is read with a table which the reader does not have.
    #[error("the frame is read with table `{id:#010x}`, which is not known here")]
    UnknownTable {
        /// Id in the header.
        id: u32,
    },
    /// A frame names a table, and its codec has none, or no part of it needs one.
    #[error(
        "the frame names table `{id:#010x}`, and nothing in a frame of codec `{codec}` like this one is read with a table"
    )]
    UnusedTable {
        /// Id of the codec.
        codec: &'static str,
        /// Id in the header.
        id: u32,
    },
    /// A frame of differences from values that the reader does not have.
    #[error("the frame has differences from base `{id:#018x}`, which is not known here")]
    UnknownBase {
        /// Id in the frame.
        id: u64,
    },
    /// The base that the frame names has other values than the frame.
    #[error("base `{id:#018x}` has `{found}` values of `{dtype}`, the frame has others")]
    Base {
        /// Id in the frame.
        id: u64,
        /// Type of the base.
        dtype: DType,
        /// Number of values of the base.
        found: usize,
    },
    /// What a frame of differences holds for other blocks cannot be there.
    #[error("differences: {fault}")]
    Delta {
        /// What is wrong.
        fault: DeltaFault,
    },
    /// The frame of the blocks that are coded without the base cannot be decoded.
    #[error("in the frame of the blocks without a base: {source}")]
    DirectBlocks {
        /// What is wrong with it.
        source: Box<DecodeError>,
    },
    /// The table that the frame names is not one of its codec and type.
    #[error("table `{id:#010x}` is none of codec `{codec}` for `{dtype}` in this layout")]
    Table {
        /// Id in the header.
        id: u32,
        /// Id of the codec.
        codec: &'static str,
        /// Type of the values.
        dtype: DType,
    },
    /// Exponents that cannot be a code book.
    #[error("`{found:?}` is no code book for `{dtype}`")]
    Codebook {
        /// Type of the values.
        dtype: DType,
        /// The exponents.
        found: [u8; 16],
    },
    /// Padding of the front matter is not zero.
    #[error("padding is not zero")]
    Padding,
    /// Offsets of columns that no encoder writes for so many values.
    #[error("form `{form}` of offsets for columns of rows of `{row}` is not possible with `{count}` values")]
    Columns {
        /// Values of a row.
        row: u32,
        /// Tag of the form.
        form: u8,
        /// Number of values.
        count: usize,
    },
    /// Frequencies that no table has.
    #[error("frequencies add up to `{sum}` instead of `4096`, or escapes have none: `{escape}`")]
    Frequencies {
        /// Of all symbols.
        sum: usize,
        /// Of escapes.
        escape: u16,
    },
    /// A tile contradicts itself.
    #[error("tile `{tile}`: {fault}")]
    Tile {
        /// Number of the tile, from 0.
        tile: usize,
        /// What is wrong.
        fault: TileFault,
    },
    /// A block contradicts itself.
    #[error("block `{block}`: {fault}")]
    Block {
        /// Number of the block, from 0.
        block: usize,
        /// What is wrong.
        fault: BlockFault,
    },
    /// A byte group of a chunk contradicts itself.
    #[error("chunk `{chunk}`, byte group `{group}`: {fault}")]
    Group {
        /// Number of the chunk, from 0.
        chunk: usize,
        /// Number of the group, from 0, that of the most significant bytes.
        group: usize,
        /// What is wrong.
        fault: GroupFault,
    },
    /// The words of exponents contradict themselves.
    #[error("words of exponents: {fault}")]
    Words {
        /// What is wrong.
        fault: WordFault,
    },
    /// What is said about repeated rows contradicts itself.
    #[error("repeated rows: {fault}")]
    Rows {
        /// What is wrong.
        fault: RowFault,
    },
    /// The frame of the rows that are not left out cannot be decoded.
    #[error("in the frame of the unique rows: {source}")]
    UniqueRows {
        /// What is wrong with it.
        source: Box<DecodeError>,
    },
    /// The frame is well-formed, but it is not the one that was written.
    #[error("checksum is `{found:#010x}`, the header says `{expected:#010x}`")]
    Checksum {
        /// In the header.
        expected: u32,
        /// Of the decoded values and the front matter.
        found: u32,
    },
}

impl DecodeError {
    /// What to do about it, in one line, where that can be said.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Codebook { .. } => {
                Some("it takes sixteen exponents of the type, in ascending order".to_owned())
            }
            Self::UnknownTable { .. } => {
                Some("add the table that the sender used to the decoder (`Decoder::add_table`)".to_owned())
            }
            Self::Limit { .. } => Some(
                "raise the limit of the decoder (`Decoder::max_values_len`) if the sender can be trusted"
                    .to_owned(),
            ),
            Self::UnknownBase { .. } => Some(
                "add the values that the sender took differences from to the decoder (`Decoder::add_base`)"
                    .to_owned(),
            ),
            Self::UniqueRows { source } | Self::DirectBlocks { source } => source.help(),
            _ => None,
        }
    }
}

/// A table that a decoder cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Another table has the same id.
    #[error("another table has the id `{id:#010x}` already")]
    Collision {
        /// The id.
        id: u32,
    },
    /// Another base has the same id.
    #[error("another base has the id `{id:#018x}` already")]
    BaseCollision {
        /// The id.
        id: u64,
    },
    /// The codec has no tables that could be shared.
    #[error("codec `{codec}` takes no table")]
    NoTables {
        /// Id of the codec.
        codec: &'static str,
    },
    /// There is nothing that a table could be trained from.
    #[error("there are no values to train a table of codec `{codec}` from")]
    NoSample {
        /// Id of the codec.
        codec: &'static str,
    },
    /// The samples are not values of the type, or the codec does not code it.
    #[error(transparent)]
    Sample(#[from] EncodeError),
    /// The bytes are no table of the codec.
    #[error("table `{id:08x}` is none of codec `{codec}`{}", found.map_or(String::new(), |found| format!(", it is one of `{found}`")))]
    Codec {
        /// Id of the table.
        id: u32,
        /// Id of the codec.
        codec: &'static str,
        /// Id of the codec that it is for, if the bytes say so.
        found: Option<&'static str>,
    },
    /// The spec names another table.
    #[error("`{spec}` names another table than `{found:08x}`")]
    Other {
        /// The spec.
        spec: String,
        /// Id of the table.
        found: u32,
    },
}

/// What is known of a format's version that is not read here, and what to do.
pub(crate) fn remedy_for_version(found: u64, known: u64) -> String {
    if found > known {
        format!("a later zipwire wrote it, this one reads version {known}: update it")
    } else {
        format!("no release wrote that, this one reads version {known}: encode the values anew")
    }
}
