//! rANS, range coding with asymmetric numeral systems (J. Duda, 2013), of residuals in 32 interleaved lanes.
//!
//! Values are taken in rows of 128, of which each lane has four in succession: so a warp and a vector of 512 bits read and write
//! whole words. A lane has a state of 31 bits, from 2^15 on; what it has too much goes out, 16 bits at a time, and all lanes share one
//! row of such words. A step is a value of each lane, and its words are in the order of the lanes. Values are coded from the
//! last step to the first, so that they can be decoded from the first to the last.
//!
//! Symbols are 31 consecutive residuals, and one that stands for all others: an escape. Or they are those of [`super::joint`].

mod table;

#[cfg_attr(not(target_arch = "x86_64"), allow(unused_imports, reason = "for kernels that gather"))]
pub(crate) use table::{
    Alphabet, BUCKET, BySymbol, DecodeTable, EncodeTable, Frequencies, LIMIT, LOW, PLACE, SHIFT, TAIL,
};

/// Lanes, and values of a step.
pub(crate) const LANES: usize = 32;
/// Steps of a row, which are the values that a lane has in it.
pub(crate) const LANE_VALUES: usize = 4;
/// Values of a row.
pub(crate) const ROW_VALUES: usize = LANES * LANE_VALUES;
/// Symbols of a table.
pub(crate) const SYMBOLS: usize = 32;
/// The symbol of residuals that have none of their own.
pub(crate) const ESCAPE: u8 = 31;
/// Bits of a probability.
pub(crate) const SCALE_BITS: u32 = 12;
/// Slots of a table: what the frequencies of its symbols add up to.
pub(crate) const SLOTS: usize = 1 << SCALE_BITS;
/// The lowest state; words are read and written so that states stay in `LOWEST..LOWEST << WORD_BITS`.
pub(crate) const LOWEST: u32 = 1 << 15;
/// Bits of a word.
pub(crate) const WORD_BITS: u32 = 16;
/// Bytes of a word.
pub(crate) const WORD: usize = 2;
/// Bytes of lists that kernels may write in front of what they return.
pub(crate) const ROOM_PAD: usize = 64;

/// A state for each lane.
pub(crate) type States = [u32; LANES];

/// Buffers for words and escapes: they are filled from their ends, from the last value to the first.
pub(crate) struct Room<'a> {
    /// Room for two bytes per value, and [`ROOM_PAD`] in front.
    pub(crate) words: &'a mut [u8],
    /// Room for a byte per value, and [`ROOM_PAD`] in front.
    pub(crate) escapes: &'a mut [u8],
}

/// Words and escapes to decode.
#[derive(Clone, Copy)]
pub(crate) struct Stream<'a> {
    /// If the values ask for more, they read zeros.
    pub(crate) words: &'a [u8],
    /// Missing escapes read as zeros as well.
    pub(crate) escapes: &'a [u8],
}

/// Numbers of words and of escapes: those in the lists, or those that values have asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) words: usize,
    pub(crate) escapes: usize,
}

/// See [`super::Kernel::encode_rans`].
pub(crate) fn encode_rans(
    residuals: &[u8],
    table: &EncodeTable,
    states: &mut States,
    room: &mut Room<'_>,
) -> Used {
    let mut used = Used::default();
    encode_rows(residuals, table, states, room, &mut used);
    used
}

/// Codes residuals in front of what is in the lists already. Only the first call can be for a part of a row.
#[inline(always)]
pub(crate) fn encode_rows(
    residuals: &[u8],
    table: &EncodeTable,
    states: &mut States,
    room: &mut Room<'_>,
    used: &mut Used,
) {
    let mut words = room.words.len() - WORD * used.words;
    let mut escapes = room.escapes.len() - used.escapes;
    for row in residuals.chunks(ROW_VALUES).rev() {
        for step in (0..LANE_VALUES).rev() {
            for (residual, state) in row.iter().skip(step).step_by(LANE_VALUES).zip(&mut *states).rev() {
                let symbol = usize::from(table.symbol(*residual));
                let out = table.exceeds(*state, symbol);
                // Written even if it does not go out: then the next one takes its place.
                room.words[words - WORD..words].copy_from_slice(&(*state as u16).to_le_bytes());
                words -= if out { WORD } else { 0 };
                let state_before = if out { *state >> WORD_BITS } else { *state };
                *state = table.coded(state_before, symbol);
            }
        }
        for residual in row.iter().rev() {
            let escape = table.is_escape(table.symbol(*residual));
            room.escapes[escapes - 1] = *residual;
            escapes -= usize::from(escape);
        }
    }
    used.words = (room.words.len() - words) / WORD;
    used.escapes = room.escapes.len() - escapes;
}

/// A block's codes, and what comes of them.
pub(crate) struct Job<'a> {
    pub(crate) stream: Stream<'a>,
    /// States that the encoder has left; after decoding, those that it began with. Each is at least [`LOWEST`] and has 31 bits.
    pub(crate) states: States,
    pub(crate) residuals: &'a mut [u8],
    /// How many words and escapes the residuals have asked for.
    pub(crate) used: Used,
}

/// See [`super::Kernel::decode_rans`].
pub(crate) fn decode_rans(jobs: &mut [Job<'_>], table: &DecodeTable) {
    jobs.iter_mut().for_each(|job| decode_rows(job, 0, table));
}

/// Decodes the residuals from the one at `from` on, a multiple of [`ROW_VALUES`].
#[inline(always)]
pub(crate) fn decode_rows(job: &mut Job<'_>, from: usize, table: &DecodeTable) {
    let Job { stream, states, residuals, used } = job;
    for row in residuals[from..].chunks_mut(ROW_VALUES) {
        for step in 0..LANE_VALUES {
            let words = stream.words.get(WORD * used.words..).unwrap_or_default();
            let residuals = row.iter_mut().skip(step).step_by(LANE_VALUES);
            used.words += if let Some(words) = words.first_chunk::<{ WORD * LANES }>() {
                decode_step(table, states, residuals, |number| words.as_chunks::<WORD>().0[number % LANES])
            } else {
                let words = words.as_chunks::<WORD>().0;
                decode_step(table, states, residuals, |number| words.get(number).copied().unwrap_or_default())
            };
        }
        for symbol in row {
            let escape = Some(*symbol) == table.escape;
            *symbol = symbol.wrapping_add(table.start);
            if escape {
                *symbol = stream.escapes.get(used.escapes).copied().unwrap_or(0);
                used.escapes += 1;
            }
        }
    }
}

/// Decodes the symbol of at most a value of each lane; returns how many words these read.
#[inline(always)]
fn decode_step<'a>(
    table: &DecodeTable,
    states: &mut States,
    symbols: impl Iterator<Item = &'a mut u8>,
    word: impl Fn(usize) -> [u8; WORD],
) -> usize {
    let mut words = 0;
    for (state, symbol) in states.iter_mut().zip(symbols) {
        let entry = table.slots[*state as usize % SLOTS];
        *symbol = entry as u8;
        let x = ((entry >> 8 & 0xfff) + 1) * (*state >> SCALE_BITS) + (entry >> 20);
        let read = x < LOWEST;
        let next = x << WORD_BITS | u32::from(u16::from_le_bytes(word(words)));
        *state = if read { next } else { x };
        words += usize::from(read);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frequencies of the symbols of these residuals, all others 0.
    fn frequencies(start: u8, some: &[(u8, u16)]) -> Frequencies {
        let mut of = [0; SYMBOLS];
        some.iter().for_each(|(symbol, frequency)| of[usize::from(*symbol)] = *frequency);
        assert_eq!(of.iter().sum::<u16>(), SLOTS as u16);
        Frequencies { start, of }
    }

    #[test]
    fn residuals_come_back_and_states_too() {
        let frequencies =
            frequencies(250, &[(4, 40), (5, 900), (6, 1600), (7, 1300), (8, 200), (ESCAPE, 56)]);
        let (encoder, decoder) = (EncodeTable::new(&frequencies), DecodeTable::new(&frequencies));
        for count in [0, 1, 3, 4, 127, 128, 129, 500] {
            let residuals: Vec<u8> = (0..count)
                .map(|i: u32| ((i.wrapping_mul(0x9e37_79b1) >> 28) as u8 % 9).wrapping_add(252))
                .collect();
            let (mut words, mut escapes) = (vec![0; ROOM_PAD + WORD * 500], vec![0; ROOM_PAD + 500]);
            let start: States =
                std::array::from_fn(|lane| LOWEST + (lane as u32) * 0x0311_2233 % 0x7000_0000);
            let mut states = start;
            let mut room = Room { words: &mut words, escapes: &mut escapes };
            let used = encode_rans(&residuals, &encoder, &mut states, &mut room);
            assert!(count < 500 || used.words > 10 && used.escapes > 10);
            let stream = Stream {
                words: &words[ROOM_PAD + WORD * (500 - used.words)..],
                escapes: &escapes[ROOM_PAD + 500 - used.escapes..],
            };
            let mut back = vec![0xee; residuals.len()];
            let mut jobs = [Job { stream, states, residuals: &mut back, used: Used::default() }];
            decode_rans(&mut jobs, &decoder);
            assert_eq!((jobs[0].used, jobs[0].states), (used, start));
            assert_eq!(back, residuals);
        }
    }
}
