//! Frames of `huffman` that are put together here, from `docs/format.md`: of any code, with any index, and with the checksum that goes
//! with these.

use crate::bench::Frame;
use crate::checksum;

const FRONT_LEN: usize = 232;
const THREAD_BITS: usize = 64;
const BLOCK_THREADS: usize = 256;

/// Parts of a frame.
#[derive(Clone, Debug)]
pub(crate) struct Forged {
    /// Number of threads, as the frame says it.
    pub(crate) threads: u32,
    /// Lengths of words, by exponent.
    pub(crate) lengths: [u8; 256],
    /// Signs and mantissas.
    pub(crate) rests: Vec<u8>,
    pub(crate) words: Vec<u8>,
    /// Gap of each thread.
    pub(crate) gaps: Vec<u8>,
    /// Position of each block.
    pub(crate) positions: Vec<u32>,
}

impl Forged {
    /// The frame that an encoder makes with a complete code of these lengths.
    pub(crate) fn new(lengths: [u8; 256], exponents: &[u8], rests: Vec<u8>) -> Self {
        let codes = codes(&lengths);
        let mut bits = Vec::new();
        let (mut gaps, mut positions) = (Vec::new(), Vec::new());
        for (number, exponent) in (0u32..).zip(exponents) {
            if bits.len() / THREAD_BITS >= gaps.len() {
                if gaps.len().is_multiple_of(BLOCK_THREADS) {
                    positions.push(number);
                }
                gaps.push((bits.len() % THREAD_BITS) as u8);
            }
            let length = lengths[usize::from(*exponent)];
            let code = codes[usize::from(*exponent)];
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        let threads = bits.len().div_ceil(THREAD_BITS);
        bits.resize(THREAD_BITS * threads, false);
        gaps.resize(threads, 0);
        positions.resize(threads.div_ceil(BLOCK_THREADS), exponents.len() as u32);
        Self { threads: threads as u32, lengths, rests, words: packed(&bits), gaps, positions }
    }

    /// The frame in the layout `split`, with the checksum of these values.
    pub(crate) fn frame(&self, values: &[u8]) -> Frame {
        let (fixed, dynamic) = self.sections(values, 0, |dynamic| dynamic);
        Frame { fixed, dynamic }
    }

    /// The frame in the layout `compact`.
    pub(crate) fn compact(&self, values: &[u8]) -> Vec<u8> {
        let (fixed, dynamic) =
            self.sections(values, 1, |dynamic| FRONT_LEN as u64 + self.rests.len() as u64 + dynamic);
        [fixed, dynamic].concat()
    }

    /// Static and dynamic section of the frame. Its header states `len(true length)` as the length of the dynamic one.
    fn sections(&self, values: &[u8], layout: u8, len: impl Fn(u64) -> u64) -> (Vec<u8>, Vec<u8>) {
        let gaps: Vec<bool> =
            self.gaps.iter().flat_map(|gap| (0..5).map(move |bit| gap >> bit & 1 == 1)).collect();
        let mut index = packed(&gaps);
        index.extend(self.positions.iter().flat_map(|position| position.to_le_bytes()));
        let dynamic = [&self.words[..], &index].concat();
        let mut fixed = vec![0; FRONT_LEN];
        fixed[..8].copy_from_slice(&[0x5a, 0x50, 0x57, 0x52, 1, 9, 0, layout]);
        fixed[8..16].copy_from_slice(&(self.rests.len() as u64).to_le_bytes());
        fixed[16..24].copy_from_slice(&len(dynamic.len() as u64).to_le_bytes());
        fixed[32..36].copy_from_slice(&self.threads.to_le_bytes());
        let lengths: Vec<bool> =
            self.lengths.iter().flat_map(|length| (0..6).map(move |bit| length >> bit & 1 == 1)).collect();
        fixed[40..].copy_from_slice(&packed(&lengths));
        let sum = checksum::checksum(values, &fixed).wrapping_add(checksum::behind(FRONT_LEN, &index));
        fixed[24..28].copy_from_slice(&sum.to_le_bytes());
        fixed.extend(&self.rests);
        (fixed, dynamic)
    }
}

/// Canonical words, the first bit highest.
fn codes(lengths: &[u8; 256]) -> [u64; 256] {
    let mut codes = [0; 256];
    let (mut code, mut before) = (0u64, 0);
    for length in 1..=32 {
        for exponent in (0..256).filter(|exponent| lengths[*exponent] == length) {
            code <<= length - before;
            before = length;
            codes[exponent] = code;
            code += 1;
        }
    }
    codes
}

/// Bits in bytes, the first one lowest.
fn packed(bits: &[bool]) -> Vec<u8> {
    bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
}

/// Values with these exponents and arbitrary signs and mantissas; and the signs and mantissas.
pub(crate) fn values_of(exponents: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let rests: Vec<u8> = (0..exponents.len()).map(|at| (at * 167 / 3) as u8).collect();
    let values = exponents.iter().zip(&rests).flat_map(|(exponent, rest)| {
        (u16::from(rest >> 7) << 15 | u16::from(*exponent) << 7 | u16::from(rest & 0x7f)).to_le_bytes()
    });
    (values.collect(), rests)
}
