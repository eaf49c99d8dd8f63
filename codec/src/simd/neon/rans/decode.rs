//! Decoding, eight lanes at a time. There are no gathers: what a table has for a slot is loaded lane by lane.

use std::arch::aarch64::*;

use super::super::super::shuffles::VALUES_APART;
use super::super::vector::{bits, load, store};
use super::{COUNTS, PAIRS, Pair, mask_of, states_of, write_states};
use crate::kernel::rans::{self, DecodeTable, Job, LOWEST, ROW_VALUES, SCALE_BITS, SLOTS, WORD, WORD_BITS};

/// See [`crate::kernel::Kernel::decode_rans`].
#[target_feature(enable = "neon")]
pub(in super::super) fn decode_rans(jobs: &mut [Job<'_>], table: &DecodeTable) {
    for job in jobs {
        let rows = job.residuals.len() / ROW_VALUES;
        decode_rows(job, rows, table);
        rans::decode_rows(job, rows * ROW_VALUES, table);
    }
}

/// Bytes of the words that a row reads at most, and a vector behind them.
const ROW_WORD_BYTES: usize = WORD * ROW_VALUES + 16;

/// Decodes the first rows. Lanes do not wait for each other, so one block is enough to fill the time of look-ups.
#[inline]
#[target_feature(enable = "neon")]
fn decode_rows(job: &mut Job<'_>, rows: usize, table: &DecodeTable) {
    let mut states = states_of(&job.states);
    let start = vdupq_n_u8(table.start);
    let mut at_end = [0; ROW_WORD_BYTES];
    for out in job.residuals.as_chunks_mut::<ROW_VALUES>().0.iter_mut().take(rows) {
        let left = job.stream.words.get(WORD * job.used.words..).unwrap_or_default();
        let words = left.first_chunk().unwrap_or_else(|| {
            at_end.fill(0);
            at_end[..left.len()].copy_from_slice(left);
            &at_end
        });
        let (mut words, mut symbols) = (Words { bytes: words, read: 0 }, [[vdupq_n_u32(0); 2]; PAIRS]);
        decode_step::<0>(&mut states, &mut symbols, table, &mut words);
        decode_step::<8>(&mut states, &mut symbols, table, &mut words);
        decode_step::<16>(&mut states, &mut symbols, table, &mut words);
        decode_step::<24>(&mut states, &mut symbols, table, &mut words);
        job.used.words += words.read;
        for (pairs, out) in symbols.as_chunks::<2>().0.iter().zip(out.as_chunks_mut::<64>().0) {
            let symbols = [pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1]]
                .map(|symbols| vreinterpretq_u8_u32(symbols));
            for (symbols, out) in symbols.into_iter().zip(out.as_chunks_mut().0) {
                store(out, vaddq_u8(symbols, start));
            }
            let Some(escape) = table.escape else { continue };
            let mut escaped = bits(symbols.map(|symbols| vceqq_u8(symbols, vdupq_n_u8(escape))));
            while escaped != 0 {
                let place = escaped.trailing_zeros() as usize;
                out[place] = job.stream.escapes.get(job.used.escapes).copied().unwrap_or(0);
                job.used.escapes += 1;
                escaped &= escaped - 1;
            }
        }
    }
    write_states(states, &mut job.states);
}

/// Decodes a symbol of each lane into the bits from `SHIFT` on of the symbols, and all bits above them; `words` are those of the row, of
/// which the steps before have read some.
#[inline]
#[target_feature(enable = "neon")]
fn decode_step<const SHIFT: i32>(
    states: &mut [Pair; PAIRS],
    symbols: &mut [Pair; PAIRS],
    table: &DecodeTable,
    words: &mut Words<'_>,
) {
    // One after the other in so many words: as a loop it would keep the states in memory.
    let ([a, b, c, d], [p, q, r, s]) = (states, symbols);
    decode_pair::<SHIFT>(a, p, table, words);
    decode_pair::<SHIFT>(b, q, table, words);
    decode_pair::<SHIFT>(c, r, table, words);
    decode_pair::<SHIFT>(d, s, table, words);
}

/// Decodes a symbol of each of eight lanes.
#[inline]
#[target_feature(enable = "neon")]
fn decode_pair<const SHIFT: i32>(
    states: &mut Pair,
    symbols: &mut Pair,
    table: &DecodeTable,
    words: &mut Words<'_>,
) {
    let found = [look_up(&table.slots, states[0]), look_up(&table.slots, states[1])];
    // What is above the symbol goes when the next one comes.
    *symbols = [vsliq_n_u32::<SHIFT>(symbols[0], found[0]), vsliq_n_u32::<SHIFT>(symbols[1], found[1])];
    let (first, second) = (advance(states[0], found[0]), advance(states[1], found[1]));
    let lowest = vdupq_n_u32(LOWEST);
    let reads = [vcltq_u32(first, lowest), vcltq_u32(second, lowest)];
    let words = words.next(reads);
    // Room for a word where one is read.
    let bits = vdupq_n_u32(WORD_BITS);
    let first = vshlq_u32(first, vreinterpretq_s32_u32(vandq_u32(reads[0], bits)));
    let second = vshlq_u32(second, vreinterpretq_s32_u32(vandq_u32(reads[1], bits)));
    *states = [vaddw_u16(first, vget_low_u16(words)), vaddw_high_u16(second, words)];
}

/// The words that a row can read, and how many of them it has read.
struct Words<'a> {
    bytes: &'a [u8; ROW_WORD_BYTES],
    read: usize,
}

impl Words<'_> {
    /// The next word for each of eight lanes that reads one, and 0 for the others.
    #[inline]
    #[target_feature(enable = "neon")]
    fn next(&mut self, reads: Pair) -> uint16x8_t {
        let mask = mask_of(reads);
        // A row has no more than 128 words, so this is where they are; the compiler need not know.
        let at = (WORD * self.read).min(ROW_WORD_BYTES - 16);
        let next = self.bytes[at..].first_chunk().expect("a vector is left");
        self.read += usize::from(COUNTS[mask]);
        vreinterpretq_u16_u8(vqtbl1q_u8(load(next), load(&VALUES_APART[mask])))
    }
}

/// The states before the symbols that were found, but for words that are to be read.
#[inline]
#[target_feature(enable = "neon")]
fn advance(states: uint32x4_t, found: uint32x4_t) -> uint32x4_t {
    let less_1 = vandq_u32(vshrq_n_u32::<8>(found), vdupq_n_u32(SLOTS as u32 - 1));
    let quotient = vshrq_n_u32::<{ SCALE_BITS as i32 }>(states);
    vmlaq_u32(vsraq_n_u32::<20>(quotient, found), less_1, quotient)
}

/// Entries by the lowest bits of states.
#[inline]
#[target_feature(enable = "neon")]
fn look_up(slots: &[u32; SLOTS], states: uint32x4_t) -> uint32x4_t {
    let states = vreinterpretq_u64_u32(states);
    let (first, second) = (vgetq_lane_u64::<0>(states), vgetq_lane_u64::<1>(states));
    let entry = |state: u64| slots[state as usize % SLOTS];
    let found = vdupq_n_u32(entry(first));
    let found = vsetq_lane_u32::<1>(entry(first >> 32), found);
    let found = vsetq_lane_u32::<2>(entry(second), found);
    vsetq_lane_u32::<3>(entry(second >> 32), found)
}
