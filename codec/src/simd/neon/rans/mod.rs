//! rANS, eight lanes at a time.

mod decode;
mod encode;

use std::arch::aarch64::*;

use super::vector::{load, store};
use crate::kernel::rans::{LANES, States};

pub(super) use decode::decode_rans;
pub(super) use encode::encode_rans;

/// Lanes of a vector, and pairs of vectors of all lanes.
const WIDTH: usize = 4;
const PAIRS: usize = LANES / (2 * WIDTH);

/// How many bits each byte has: cheaper than an instruction for vectors.
static COUNTS: [u8; 256] = {
    let mut counts = [0; 256];
    let mut mask = 0;
    while mask < 256 {
        counts[mask] = (mask as u8).count_ones() as u8;
        mask += 1;
    }
    counts
};

/// States of eight lanes, or what is of them.
type Pair = [uint32x4_t; 2];

/// A bit for each of eight lanes, whose bits are all set or all clear.
#[inline]
#[target_feature(enable = "neon")]
fn mask_of(lanes: Pair) -> usize {
    let both = vuzp1q_u16(vreinterpretq_u16_u32(lanes[0]), vreinterpretq_u16_u32(lanes[1]));
    let select = vreinterpretq_u16_u8(load(&[1, 0, 2, 0, 4, 0, 8, 0, 16, 0, 32, 0, 64, 0, 128, 0]));
    usize::from(vaddvq_u16(vandq_u16(both, select)) as u8)
}

#[inline]
#[target_feature(enable = "neon")]
fn states_of(states: &States) -> [Pair; PAIRS] {
    let mut pairs = [[vdupq_n_u32(0); 2]; PAIRS];
    for (vector, states) in pairs.as_flattened_mut().iter_mut().zip(states.as_chunks::<WIDTH>().0) {
        let mut bytes = [0; 16];
        for (bytes, state) in bytes.as_chunks_mut().0.iter_mut().zip(states) {
            *bytes = state.to_le_bytes();
        }
        *vector = vreinterpretq_u32_u8(load(&bytes));
    }
    pairs
}

#[inline]
#[target_feature(enable = "neon")]
fn write_states(pairs: [Pair; PAIRS], states: &mut States) {
    for (vector, states) in pairs.as_flattened().iter().zip(states.as_chunks_mut::<WIDTH>().0) {
        let mut bytes = [0; 16];
        store(&mut bytes, vreinterpretq_u8_u32(*vector));
        for (bytes, state) in bytes.as_chunks().0.iter().zip(states) {
            *state = u32::from_le_bytes(*bytes);
        }
    }
}
