//! How the parts of a damaged frame contradict themselves.

#![allow(missing_docs, reason = "fields are named by the messages")]

use crate::Layout;

/// How a tile of a frame contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TileFault {
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

/// How a byte group of a chunk contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupFault {
    /// No method has this tag, or the codec does not have the method.
    #[error("method `{0}` is not possible here")]
    Method(u8),
    /// The method cannot take this number of bytes for the group.
    #[error("`{found}` bytes are not possible for a group of `{bytes}` by its method")]
    Length { found: usize, bytes: usize },
    /// The coded bytes are more than what is left of the section.
    #[error("the group passes the end of the section")]
    Overrun,
    /// The lengths of words are those of no complete code.
    #[error("the lengths of its words are those of no Huffman code")]
    Lengths,
    /// The words are of more or fewer bytes than the group has.
    #[error("its words are not those of as many bytes")]
    Words,
    /// zstd does not read it, or reads another number of bytes.
    #[error("zstd does not read it as so many bytes")]
    Zstd,
    /// The runs are of more or fewer bytes than the group has, or not as long as they can be.
    #[error("its runs are not those of as many bytes")]
    Runs,
}

/// How the words of a frame of one Huffman code contradict themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WordFault {
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
