//! Byte groups: what `grouped` (ZipNN) and `blockwise` (LMC) have in common.
//!
//! Values are cut into *chunks*, and the bytes of a chunk's values into *groups*, one for each byte of a value, the most significant one first: exponents
//! vary little, mantissas much. Each group of a chunk is coded by itself, by the *method* that suits it. The two codecs differ in the length
//! of chunks, in whether the sign is moved away from the exponent, and in the methods.
//!
//! In the split layout, whose static section must not depend on values, the first group is coded, and the others are static.

mod choose;
mod chunk;
mod codec;
mod decode;
mod encode;
mod geometry;
mod method;
mod runs;
mod sizes;

pub use codec::{Blockwise, Grouped};
pub(crate) use codec::{GROUPED_PIECES, decode_blockwise, decode_grouped};
use decode::{decode, tails};
use encode::encode;
use geometry::{bound, chunk_values, front_len, static_len};
pub use sizes::ByteGroup;

use crate::checksum;
use method::Method;

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
    Grouped,
    /// LMC: chunks whose groups have 64 KiB, Huffman or runs.
    Blockwise,
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
        match self {
            Self::Grouped => 7,
            Self::Blockwise => 8,
        }
    }
}
