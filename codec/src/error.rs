//! Everything that can go wrong with frames and tables: with buffers for encoding, with a frame that is decoded.

#![allow(missing_docs, reason = "fields are named by the messages")]

use crate::{DType, FRAME_VERSION, Layout};

/// Values or buffers that a codec cannot encode from or into.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The codec does not code this type.
    #[error("codec `{codec}` does not support `{dtype}`")]
    Unsupported { codec: &'static str, dtype: DType },
    /// The input ends inside a value.
    #[error("`{bytes}` bytes are not a whole number of `{dtype}` values")]
    PartialValue { bytes: usize, dtype: DType },
    /// The buffer for the static section has the wrong length.
    #[error("the static section takes `{needed}` bytes, the buffer has `{found}`")]
    StaticBuffer {
        /// `Codec::static_len`.
        needed: usize,
        found: usize,
    },
    /// The buffer for the dynamic section cannot hold the worst case.
    #[error("the dynamic section can take `{needed}` bytes, the buffer has `{found}`")]
    DynamicBuffer {
        /// `Codec::bound` less `Codec::static_len`.
        needed: usize,
        found: usize,
    },
    /// There is no memory for the longest frame that these values can have.
    #[error("there is no memory for a frame of up to `{bytes}` bytes")]
    OutOfMemory {
        /// `Codec::bound`.
        bytes: usize,
    },
    /// The base has other values than those that are coded.
    #[error("the values are `{count}` of `{dtype}`, those of the base `{base_count}` of `{base_dtype}`")]
    Base { dtype: DType, count: usize, base_dtype: DType, base_count: usize },
    /// An index of rows is of other values.
    #[error("the values have `{expected}` rows, the index has `{found}`")]
    Rows { expected: usize, found: usize },
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
    PartialValue { bytes: usize, dtype: DType },
    /// The section cannot hold what must be in it.
    #[error("the {section} section has `{found}` bytes where `{needed}` are needed")]
    Truncated { section: Section, needed: usize, found: usize },
    /// The length of a section is not what it must be.
    #[error("the {section} section has `{found}` bytes instead of `{expected}`")]
    Length {
        section: Section,
        /// From the count (static) or the header (dynamic).
        expected: u64,
        found: usize,
    },
    /// The bytes are no frame.
    #[error("not a zipwire frame: it starts with `{found:02x?}`")]
    Magic { found: [u8; 4] },
    /// A frame of another version of the format: of a later release, or of none, which is version 0.
    #[error("the frame has version `{found}` of the format; {}", remedy_for_version((*found).into(), FRAME_VERSION.into()))]
    Version { found: u8 },
    /// A frame of a version that has no such codec, or a later one than the codec asks for.
    #[error("frames of codec `{codec}` have version `{expected}` of the format, this one has `{found}`")]
    CodecVersion { codec: &'static str, expected: u8, found: u8 },
    /// A codec that this version does not have.
    #[error("no codec has tag `{tag}`")]
    UnknownCodec { tag: u8 },
    /// A codec of another crate does not read its frame.
    #[error("the frame of codec `{codec}` is damaged: {defect}")]
    Custom { codec: &'static str, defect: String },
    /// A frame of another codec than one asks about.
    #[error("expected a frame of codec `{expected}`, found one of `{found}`")]
    Codec { expected: &'static str, found: &'static str },
    /// The codec cannot have made a frame of this type.
    #[error("codec `{codec}` does not support `{dtype}`")]
    Unsupported { codec: &'static str, dtype: DType },
    /// A frame of values of another type.
    #[error("expected values of type `{expected}`, the frame has type tag `{found}`")]
    DType { expected: DType, found: u8 },
    /// A frame in another layout.
    #[error("expected layout `{expected}`, the frame has layout tag `{found}`")]
    Layout { expected: Layout, found: u8 },
    /// A frame of another number of values.
    #[error("expected `{expected}` values, the frame has `{found}`")]
    Count {
        expected: usize,
        /// Count in the header.
        found: u64,
    },
    /// A type that this version does not have.
    #[error("no type has tag `{tag}`")]
    UnknownDType { tag: u8 },
    /// A layout that this version does not have.
    #[error("no layout has tag `{tag}`")]
    UnknownLayout { tag: u8 },
    /// More values than memory can have.
    #[error("the frame has `{count}` values of type `{dtype}`, more than any memory")]
    TooLarge {
        /// Count in the header.
        count: u64,
        dtype: DType,
    },
    /// A header with a length that does not go with its number of values.
    #[error("the header says `{len}` bytes, frames of `{count}` values have `{least}` to `{most}`")]
    Implausible {
        len: u64,
        least: usize,
        most: usize,
        /// Count in the header.
        count: u64,
    },
    /// The values are more than the reader takes.
    #[error("the frame has `{bytes}` bytes of values, the limit is `{limit}`")]
    Limit {
        bytes: usize,
        /// `Decoder::max_values_len`.
        limit: usize,
    },
    /// There is no memory for the values.
    #[error("there is no memory for `{bytes}` bytes of values")]
    OutOfMemory { bytes: usize },
    /// The buffer for the values is too short.
    #[error("the values take `{needed}` bytes, the buffer has `{found}`")]
    OutputBuffer { needed: usize, found: usize },
    /// A frame that is read with a table which the reader does not have.
    #[error("the frame is read with table `{id:#010x}`, which is not known here")]
    UnknownTable { id: u32 },
    /// A frame names a table, and its codec has none, or no part of it needs one.
    #[error(
        "the frame names table `{id:#010x}`, and nothing in a frame of codec `{codec}` like this one is read with a table"
    )]
    UnusedTable { codec: &'static str, id: u32 },
    /// A frame of differences from values that the reader does not have.
    #[error("the frame has differences from base `{id:#018x}`, which is not known here")]
    UnknownBase { id: u64 },
    /// The base that the frame names has other values than the frame.
    #[error("base `{id:#018x}` has `{found}` values of `{dtype}`, the frame has others")]
    Base { id: u64, dtype: DType, found: usize },
    /// The part of a frame of differences that concerns other blocks contradicts itself.
    #[error("differences: {fault}")]
    Delta { fault: DeltaFault },
    /// The frame of the blocks that are coded without the base cannot be decoded.
    #[error("in the frame of the blocks without a base: {source}")]
    DirectBlocks { source: Box<DecodeError> },
    /// The table that the frame names is not one of its codec and type.
    #[error("table `{id:#010x}` is none of codec `{codec}` for `{dtype}` in this layout")]
    Table { id: u32, codec: &'static str, dtype: DType },
    /// Padding of the front matter is not zero.
    #[error("padding is not zero")]
    Padding,
    /// Offsets of columns that no encoder writes for this number of values.
    #[error("form `{form}` of offsets for columns of rows of `{row}` is not possible with `{count}` values")]
    Columns { row: u32, form: u8, count: usize },
    /// Frequencies that no table has.
    #[error("frequencies add up to `{sum}` instead of `4096`, or escapes have none: `{escape}`")]
    Frequencies { sum: usize, escape: u16 },
    /// A block contradicts itself.
    #[error("block `{block}`: {fault}")]
    Block {
        /// Number of the block, from 0.
        block: usize,
        fault: BlockFault,
    },
    /// A frame of byte planes of values that cannot be.
    #[error("values of `{width}` bytes in order `{order}` are not possible")]
    PlaneOrder { width: u8, order: u8 },
    /// A byte plane of a block contradicts itself.
    #[error("block `{block}`, byte plane `{plane}`: {fault}")]
    Plane {
        /// Number of the block, from 0.
        block: usize,
        /// Number of the plane, from 0, that of the least significant bytes.
        plane: usize,
        fault: PlaneFault,
    },
    /// The index of repeated rows contradicts itself.
    #[error("repeated rows: {fault}")]
    Rows { fault: RowFault },
    /// The frame of the rows that are not left out cannot be decoded.
    #[error("in the frame of the unique rows: {source}")]
    UniqueRows { source: Box<DecodeError> },
    /// The frame is well-formed, but it is not the one that was written.
    #[error("checksum is `{found:#010x}`, the header says `{expected:#010x}`")]
    Checksum { expected: u32, found: u32 },
}

impl DecodeError {
    /// Advice on what to do, in one line, where there is any.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::UnknownCodec { tag } if PAPERS.iter().any(|(_, paper)| paper == tag) => {
                Some(REGISTER_PAPERS.to_owned())
            }
            Self::UnknownCodec { tag: 128.. } => {
                Some("register the codec of another crate that has it (`register`)".to_owned())
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
    Collision { id: u32 },
    /// Another base has the same id.
    #[error("another base has the id `{id:#018x}` already")]
    BaseCollision { id: u64 },
    /// The codec has no tables that could be shared.
    #[error("codec `{codec}` takes no table")]
    NoTables { codec: &'static str },
    /// There is nothing that a table could be trained from.
    #[error("there are no values to train a table of codec `{codec}` from")]
    NoSample { codec: &'static str },
    /// The samples are not values of the type, or the codec does not code it.
    #[error(transparent)]
    Sample(#[from] EncodeError),
    /// The bytes are no table of the codec.
    #[error("table `{id:08x}` is none of codec `{codec}`{}", found.map_or(String::new(), |found| format!(", it is one of `{found}`")))]
    Codec {
        id: u32,
        codec: &'static str,
        /// Id of the codec that it is for, if the bytes say so.
        found: Option<&'static str>,
    },
    /// The spec names another table.
    #[error("`{spec}` names another table than `{found:08x}`")]
    Other { spec: String, found: u32 },
}

/// Advice for a format version that this program does not read.
pub(crate) fn remedy_for_version(found: u64, known: u64) -> String {
    if found > known {
        format!("a later zipwire wrote it, this one reads version {known}: update it")
    } else {
        format!("no release wrote that, this one reads version {known}: encode the values anew")
    }
}

/// How a block of a frame contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockFault {
    /// No form has this tag, or the layout or the length of the block excludes it.
    #[error("form `{0:#04x}` is not possible here")]
    Form(u8),
    /// A field that must be zero in this form is not.
    #[error("a field that the form does not use is not zero")]
    UnusedField,
    /// No group has such a base.
    #[error("base `{0}` is above `254`")]
    Base(u8),
    /// An escape gives an exponent that values of the type cannot have.
    #[error("an exponent has more bits than the type")]
    Exponent,
    /// The body is longer than what is left of its section.
    #[error("the body passes the end of the section")]
    Overrun,
    /// Block table and bases or mask disagree on how many values are coded.
    #[error("`{found}` values can be coded, the block table says `{expected}`")]
    Coded { expected: usize, found: usize },
    /// Codes and block table disagree on how many values a tier passes on.
    #[error("tier `{tier}` passes on `{found}` values, the block table says `{expected}`")]
    Passed {
        /// Number of the tier, from 1.
        tier: usize,
        expected: usize,
        found: usize,
    },
    /// A byte plane lists this symbol, but has it already or has no code for it.
    #[error("a plane lists symbol `{0:#04x}` twice or without need")]
    Symbol(u8),
    /// A lane of an rANS coder has a state that no encoder begins or ends with.
    #[error("no encoder has the state `{0:#010x}` here")]
    State(u32),
    /// Codes and block table disagree on how many words or escapes values take.
    #[error("the values read `{found}` words or escapes, the block table says `{expected}`")]
    Read { expected: usize, found: usize },
    /// The padding of a part of the body is not zero.
    #[error("a bit or byte beyond the last value is not zero")]
    Padding,
    /// The values of the base ask for more or fewer low bits than there are.
    #[error("the low bits of differences are not as many as the base says")]
    LowBits,
    /// Symbols and block table disagree on how many differences are large, or one has more bits than a value.
    #[error("the large differences are not those of the symbols")]
    Large,
    /// Positions of values that differ from the base do not ascend, or are beyond the last value.
    #[error("positions of differences do not ascend, or pass the last value")]
    Positions,
}

/// How a byte plane of a block contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaneFault {
    /// No method has this tag, or the codec does not have the method.
    #[error("method `{0}` is not possible here")]
    Method(u8),
    /// The method cannot take this number of bytes.
    #[error("`{found}` bytes are not possible for `{bytes}` by its method")]
    Length { found: usize, bytes: usize },
    /// The coded bytes are more than what is left of the section.
    #[error("it passes the end of the section")]
    Overrun,
    /// The lengths of words are those of no complete code.
    #[error("the lengths of its words are those of no Huffman code")]
    Lengths,
    /// The words are of more or fewer bytes than there are.
    #[error("its words are not those of as many bytes")]
    Words,
    /// The mask leaves out no byte or all of them, or has bits beyond the last one.
    #[error("its mask leaves out no byte or all, or goes beyond the last one")]
    Mask,
}

/// How a frame with rows left out contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowFault {
    /// Rows are left out in the compact layout only.
    #[error("a frame of layout `{}` leaves out none", Layout::Split)]
    Layout,
    /// Rows of this length are never left out.
    #[error("rows of `{0}` values are longer than any that is left out")]
    Long(u32),
    /// There are no rows of this length, none is left, or none is left out.
    #[error("`{found}` unique rows of `{rows}` rows of `{row}` values are not possible")]
    Unique { row: u32, rows: usize, found: u32 },
    /// The mask and the number of unique rows disagree.
    #[error("the mask leaves out `{found}` rows where `{expected}` repeat another")]
    Repeated { expected: usize, found: usize },
    /// A row repeats one that comes after it.
    #[error("row `{row}` repeats unique row `{found}`, and `{known}` are before it")]
    Order { row: usize, found: usize, known: usize },
    /// Rows were left out twice.
    #[error("the frame of the unique rows leaves out rows itself")]
    Nested,
}

/// How a frame of differences contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaFault {
    /// Differences are coded in the compact layout only.
    #[error("a frame of layout `{}` has none", Layout::Split)]
    Layout,
    /// All blocks are coded without the base.
    #[error("no block needs the base")]
    NoBlock,
    /// The blocks without the base are in a frame of another codec than those that differences are coded like.
    #[error("the frame of the blocks without a base is of codec tag `{0}`")]
    Inner(u8),
}

/// A spec that names no codec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No codec has this id.
    #[error("unknown codec `{id}`")]
    UnknownId {
        id: String,
        /// All ids, in backticks.
        valid: String,
    },
    /// Nothing that can be in front of a codec has this id.
    #[error("unknown prefix `{id}`")]
    UnknownPrefix {
        id: String,
        /// All of them, in backticks.
        valid: String,
    },
    /// The codec has no such option.
    #[error("codec `{codec}` has no option `{key}`")]
    UnknownOption { codec: &'static str, key: String, valid: String },
    /// The option cannot have this value.
    #[error("option `{key}` of codec `{codec}` cannot be `{value}`")]
    BadValue { codec: &'static str, key: &'static str, value: String, valid: String },
    /// The option is given twice.
    #[error("option `{key}` of codec `{codec}` is given twice")]
    Repeated { codec: &'static str, key: &'static str },
    /// Two options are given of which one says what the other does.
    #[error("codec `{codec}` takes either `{key}` or `{other}`")]
    Alternatives { codec: &'static str, key: &'static str, other: &'static str },
    /// The length of rows is left open where nothing tells it.
    #[error("`{spec}` does not say how long a row is")]
    NoRow { spec: String },
    /// The values that differences are taken from are left open where nothing tells them.
    #[error("`{spec}` does not say what values differ from")]
    NoBase { spec: String },
    /// The table that the spec names is left open where nothing gives it.
    #[error("`{spec}` names a table and does not say what is in it")]
    NoTable { spec: String },
    /// Differences are coded by other means than this codec's.
    #[error("differences are not coded by `{codec}`")]
    DeltaCodec {
        codec: &'static str,
        /// Codecs that can be behind `delta+`, in backticks.
        valid: String,
    },
    /// An option without a value.
    #[error("`{text}` is not an option")]
    Malformed { text: String },
}

impl SpecError {
    /// Advice on what would be right, in one line.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::UnknownId { id, .. } if PAPERS.iter().any(|(paper, _)| paper == id) => {
                Some(REGISTER_PAPERS.to_owned())
            }
            Self::UnknownId { valid, .. } => Some(format!("the codecs are {valid}")),
            Self::UnknownPrefix { valid, .. } => Some(format!("in front of a codec there can be {valid}")),
            Self::UnknownOption { valid, .. } => Some(valid.clone()),
            Self::BadValue { valid, .. } => Some(format!("its values are {valid}")),
            Self::Repeated { .. } => None,
            Self::Alternatives { key, .. } => Some(format!("leave `{key}` out, or the other one")),
            Self::NoRow { .. } => {
                Some("write `dedup:row=N+...` with the number of values in a row".to_owned())
            }
            Self::NoBase { .. } => {
                Some("give the base (`Spec::against`); `zipwire inspect --base FILE` does".to_owned())
            }
            Self::NoTable { .. } => {
                Some("give the table (`Spec::with_table`); where there is a file, name the file".to_owned())
            }
            Self::DeltaCodec { valid, .. } => Some(format!("behind `delta+` there can be {valid}")),
            Self::Malformed { .. } => Some("write `name:key=value,key=value`".to_owned()),
        }
    }
}

/// Ids and tags of the codecs of papers, which the crate `zipwire-paper-codecs` registers: kept for it.
pub(crate) const PAPERS: [(&str, u8); 5] =
    [("window7", 1), ("codebook16", 3), ("grouped", 7), ("blockwise", 8), ("huffman", 9)];

/// Advice for a codec of a paper.
const REGISTER_PAPERS: &str =
    "it is a codec of a paper: call `register` of the crate `zipwire-paper-codecs` first";

/// A codec that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// An id that no spec can have.
    #[error("`{id}` is no id of a codec: it takes lower-case letters, digits and hyphens")]
    Id { id: &'static str },
    /// A tag that is kept for codecs of this crate, or means none.
    #[error("codec `{id}` cannot have the tag `{tag}`: those of other crates are from 128 to 254")]
    Tag { id: &'static str, tag: u8 },
    /// There is a codec with this id.
    #[error("there is a codec `{id}` already")]
    IdTaken { id: &'static str },
    /// The id is kept for a codec of the crate `zipwire-paper-codecs`.
    #[error("`{id}` is kept for a codec of `zipwire-paper-codecs`")]
    IdKept { id: &'static str },
    /// There is a codec with this tag.
    #[error("codec `{id}` cannot have the tag `{tag}`: `{other}` has it")]
    TagTaken { id: &'static str, tag: u8, other: &'static str },
}
