//! Why a decoder on the GPU refuses a frame. `cuda/common.cuh` has the same numbers.

use std::fmt;

/// Defect of a frame that a decoder has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The header is not that of such a frame.
    Header,
    /// The dynamic section has another length than the tiles say.
    Length,
    /// An entry of the tile table that no encoder writes.
    Tile,
    /// Codes or escapes that contradict one another.
    Codes,
    /// Padding that is not zero.
    Padding,
    /// A wrong checksum.
    Checksum,
    /// Columns have offsets, which the kernels know in compact frames only; or such as no encoder writes.
    Columns,
    /// The code book is none of the type.
    Book,
    /// The lengths of words are those of no complete code.
    Lengths,
    /// Positions of blocks that do not ascend, or pass the last value.
    Positions,
    /// Words that do not end where the next ones begin.
    Words,
    /// Frequencies of symbols that are those of no table.
    Frequencies,
    /// A number that this build does not know.
    Other(u32),
}

impl Fault {
    /// Fault with this number in a kernel's state; `None` for 0.
    pub(crate) fn of(status: u32) -> Option<Self> {
        Some(match status {
            0 => return None,
            1 => Self::Header,
            2 => Self::Length,
            3 => Self::Tile,
            4 => Self::Codes,
            5 => Self::Padding,
            6 => Self::Checksum,
            7 => Self::Columns,
            8 => Self::Book,
            9 => Self::Lengths,
            10 => Self::Positions,
            11 => Self::Words,
            12 => Self::Frequencies,
            other => Self::Other(other),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Header => "its header is not that of such a frame",
            Self::Length => "its dynamic section has another length than its tiles say",
            Self::Tile => "its tile table has an entry that no encoder writes",
            Self::Codes => "its codes and escapes contradict one another",
            Self::Padding => "its padding is not zero",
            Self::Checksum => "its checksum is wrong",
            Self::Columns => {
                "its columns have offsets that the kernels do not know, or that no encoder writes"
            }
            Self::Book => "its code book does not ascend, or has exponents that the type does not",
            Self::Lengths => "the lengths of its words are those of no Huffman code",
            Self::Positions => "the positions of its blocks do not ascend, or pass the last value",
            Self::Words => "its words do not end where the next ones begin",
            Self::Frequencies => "the frequencies of its symbols are those of no table",
            Self::Other(status) => return write!(f, "the kernel reported {status}"),
        };
        f.write_str(text)
    }
}
