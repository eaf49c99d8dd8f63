//! How frames of these codecs contradict themselves. Readers get [`DecodeError::Custom`] with the text.

#![allow(missing_docs, reason = "fields are named by the messages")]

use zipwire_codec::{DType, DecodeError, PlaneFault};

/// The error for a defect of a frame of this codec.
fn damaged(codec: &'static str, defect: String) -> DecodeError {
    DecodeError::Custom { codec, defect }
}

/// The error for a tile, numbered from 0.
pub(crate) fn in_tile(codec: &'static str, tile: usize, fault: TileFault) -> DecodeError {
    damaged(codec, format!("tile `{tile}`: {fault}"))
}

/// The error for a byte group of a chunk, both numbered from 0, the group of the most significant bytes first.
pub(crate) fn in_group(codec: &'static str, chunk: usize, group: usize, fault: GroupFault) -> DecodeError {
    damaged(codec, format!("chunk `{chunk}`, byte group `{group}`: {fault}"))
}

/// The error for the words of `huffman`.
pub(crate) fn in_words(fault: WordFault) -> DecodeError {
    damaged("huffman", format!("words of exponents: {fault}"))
}

/// Exponents that cannot be a code book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{found:?}` is no code book for `{dtype}`: it takes sixteen exponents of a type that `codebook16` codes, in ascending order"
)]
pub struct CodebookError {
    /// Type of the values.
    pub dtype: DType,
    /// The exponents.
    pub found: [u8; 16],
}

impl From<CodebookError> for DecodeError {
    fn from(error: CodebookError) -> Self {
        damaged("codebook16", error.to_string())
    }
}

/// How a tile of a frame contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TileFault {
    /// No mode has this tag, or the layout or the length of the tile excludes it.
    #[error("mode `{0}` is not possible here")]
    Mode(u8),
    /// The window would pass the last exponent.
    #[error("window start `{0}` is above `249`")]
    WindowStart(u8),
    /// A field that must be zero in this mode is not.
    #[error("a field that the mode does not use is not zero")]
    UnusedField,
    /// The body is longer than what is left of its section.
    #[error("the body passes the end of the section")]
    Overrun,
    /// Codes and tile table disagree on the number of escapes.
    #[error("the codes have `{found}` escapes, the tile table says `{expected}`")]
    EscapeCount { expected: usize, found: usize },
    /// The escape index is not the one that the codes give.
    #[error("the escape index contradicts the codes")]
    EscapeIndex,
    /// Positions of escapes have no such form, or there are none to have it.
    #[error("form `{0}` of escapes is not possible here")]
    EscapeForm(u8),
    /// An escape is beyond the last value, or not behind the escape before it.
    #[error("an escape at position `{0}` is out of order or beyond the last value")]
    EscapePosition(usize),
    /// A value that is an escape has a code that is not 0.
    #[error("the code of the escape at position `{0}` is not zero")]
    EscapeCode(usize),
    /// An escape gives an exponent that values of the type cannot have.
    #[error("an escape has exponent `{0}`, which has more bits than the type")]
    Exponent(u8),
    /// Mask and tile table disagree on the number of nonzero values.
    #[error("the mask has `{found}` values, the tile table says `{expected}`")]
    MaskCount { expected: usize, found: usize },
    /// A code or a mask bit beyond the last value is not zero.
    #[error("a code or mask bit beyond the last value is not zero")]
    Padding,
}

/// How the words of a frame of one Huffman code contradict themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WordFault {
    /// The lengths of words are those of no complete code.
    #[error("the lengths of words are those of no Huffman code")]
    Lengths,
    /// A part is longer than what is left of the section.
    #[error("words, gaps and positions pass the end of the section")]
    Overrun,
    /// The position of a block is before that of the one before, or beyond the last value.
    #[error("the position of block `{block}` is out of order or beyond the last value")]
    Position {
        /// Number of the block, from 0.
        block: usize,
    },
    /// The words of a block do not end where those of the next one begin.
    #[error("the words of block `{block}` end before or behind where the next ones begin")]
    Words {
        /// Number of the block, from 0.
        block: usize,
    },
}

/// How a byte group of a chunk contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GroupFault {
    /// No method has this tag, or the codec does not have the method.
    #[error("method `{0}` is not possible here")]
    Method(u8),
    /// The method cannot take this number of bytes for the group.
    #[error("`{found}` bytes are not possible for a group of `{bytes}` by its method")]
    Length { found: usize, bytes: usize },
    /// The coded bytes are more than what is left of the section.
    #[error("the group passes the end of the section")]
    Overrun,
    /// The Huffman code of the group, or its words.
    #[error(transparent)]
    Code(#[from] PlaneFault),
    /// zstd does not read it, or reads another number of bytes.
    #[error("zstd does not read it as so many bytes")]
    Zstd,
    /// The runs are of more or fewer bytes than the group has, or not as long as they can be.
    #[error("its runs are not those of as many bytes")]
    Runs,
}
