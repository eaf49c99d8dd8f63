//! `huffman`: one Huffman code for the exponents of a frame, in blocks that threads of a GPU read side by side, after DFloat11 (arXiv 2504.11651).
//!
//! Words of up to 32 bits are one sequence of bits. A *thread* has 64 of these bits and reads the words that begin there; its *gap* is where the first of
//! them begins. A *block* is 256 threads; its *position* is the number of symbols before those that begin in it, which is where its values go. So a GPU reads the
//! whole sequence at once (section 2.3), and a CPU as many blocks side by side as keep it busy.

mod decode;
mod encode;
mod usage;

use crate::canonical::Lengths;
use crate::codec::Sealed;
use crate::frame;
use crate::header::HEADER_LEN;
use crate::{Codec, DType, EncodeError, FrameShape, Layout};
pub(crate) use decode::decode;
pub use usage::ExponentWords;

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

impl Sealed for Huffman {}

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
        crate::sections::bound(shape.count, shape.dtype.width(), FRONT_LEN)
    }

    fn min_len(&self, shape: FrameShape) -> usize {
        shape.count.saturating_add(FRONT_LEN)
    }

    fn encode(
        &self,
        layout: Layout,
        dtype: DType,
        values: &[u8],
        static_out: &mut [u8],
        dynamic_out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let shape = frame::check_buffers(self, layout, dtype, values, static_out, dynamic_out)?;
        Ok(encode::encode(shape, values, static_out, dynamic_out))
    }
}
