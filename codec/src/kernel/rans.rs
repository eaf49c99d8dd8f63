//! rANS, range coding with asymmetric numeral systems (J. Duda, 2013), of residuals in 32 interleaved lanes.
//!
//! Values are taken in rows of 128, of which each lane has four in succession: so a warp and a vector of 512 bits read and write
//! whole words. A lane has a state of 31 bits, from 2^15 on; what it has too much goes out, 16 bits at a time, and all lanes share one
//! row of such words. A step is a value of each lane, and its words are in the order of the lanes. Values are coded from the
//! last step to the first, so that they can be decoded from the first to the last.
//!
//! Symbols are 31 consecutive residuals, and one that stands for all others: an escape. Or they are those of [`super::joint`].

use super::joint;

/// Lanes, and values of a step.
pub const LANES: usize = 32;
/// Steps of a row, which are the values that a lane has in it.
pub const LANE_VALUES: usize = 4;
/// Values of a row.
pub const ROW_VALUES: usize = LANES * LANE_VALUES;
/// Symbols of a table.
pub const SYMBOLS: usize = 32;
/// The symbol of residuals that have none of their own.
pub const ESCAPE: u8 = 31;
/// Bits of a probability.
pub const SCALE_BITS: u32 = 12;
/// Slots of a table: what the frequencies of its symbols add up to.
pub const SLOTS: usize = 1 << SCALE_BITS;
/// The lowest state; words are read and written so that states stay in `LOWEST..LOWEST << WORD_BITS`.
pub const LOWEST: u32 = 1 << 15;
/// Bits of a word.
pub const WORD_BITS: u32 = 16;
/// Bytes of a word.
pub const WORD: usize = 2;
/// Bytes of lists that kernels may write in front of what they return.
pub const ROOM_PAD: usize = 64;

/// A state for each lane.
pub type States = [u32; LANES];

/// Buffers for words and escapes: they are filled from their ends, from the last value to the first.
pub struct Room<'a> {
    /// Room for two bytes per value, and [`ROOM_PAD`] in front.
    pub words: &'a mut [u8],
    /// Room for a byte per value, and [`ROOM_PAD`] in front.
    pub escapes: &'a mut [u8],
}

/// Words and escapes to decode.
#[derive(Clone, Copy)]
pub struct Stream<'a> {
    /// If the values ask for more, they read zeros.
    pub words: &'a [u8],
    /// Missing escapes read as zeros as well.
    pub escapes: &'a [u8],
}

/// Numbers of words and of escapes: those in the lists, or those that values have asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub words: usize,
    pub escapes: usize,
}

pub fn encode_rans(residuals: &[u8], table: &EncodeTable, states: &mut States, room: &mut Room<'_>) -> Used {
    let mut used = Used::default();
    encode_rows(residuals, table, states, room, &mut used);
    used
}

/// Codes residuals in front of what is in the lists already. Only the first call can be for a part of a row.
#[inline(always)]
pub fn encode_rows(
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
pub struct Job<'a> {
    pub stream: Stream<'a>,
    /// States that the encoder has left; after decoding, those that it began with. Each is at least [`LOWEST`] and has 31 bits.
    pub states: States,
    pub residuals: &'a mut [u8],
    /// How many words and escapes the residuals have asked for.
    pub used: Used,
}

pub fn decode_rans(jobs: &mut [Job<'_>], table: &DecodeTable) {
    jobs.iter_mut().for_each(|job| decode_rows(job, 0, table));
}

/// Decodes the residuals from the one at `from` on, a multiple of [`ROW_VALUES`].
#[inline(always)]
pub fn decode_rows(job: &mut Job<'_>, from: usize, table: &DecodeTable) {
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

/// Symbols and their frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequencies {
    /// The residual of symbol 0; that of symbol `s` is `s` more, modulo 256.
    pub start: u8,
    /// Frequency of each symbol; [`SLOTS`] in all, and at least 1 of the escape. A residual whose symbol has 0 is an escape.
    pub of: [u16; SYMBOLS],
}

impl Frequencies {
    /// The symbol that a residual is coded by.
    #[inline(always)]
    pub fn symbol(&self, residual: u8) -> u8 {
        let symbol = residual.wrapping_sub(self.start).min(ESCAPE);
        if self.of[usize::from(symbol)] == 0 { ESCAPE } else { symbol }
    }
}

/// The symbols with these frequencies, of which no more than [`joint::SYMBOLS`], by descending frequency, the lower one of equals first: so
/// they have their slots.
fn ranked(of: &[u16]) -> Vec<u8> {
    let mut ranked: Vec<u8> = (0..of.len() as u8).collect();
    ranked.sort_by_key(|symbol| (SLOTS - usize::from(of[usize::from(*symbol)]), *symbol));
    ranked
}

/// The first slot of each symbol.
fn first_slots(of: &[u16]) -> Vec<u16> {
    let mut slots = vec![0; of.len()];
    let mut next = 0;
    for symbol in ranked(of).into_iter().map(usize::from) {
        slots[symbol] = next;
        next += of[symbol];
    }
    slots
}

/// Numbers that there are for each symbol.
pub type BySymbol = [u32; joint::SYMBOLS];

/// Kind of bytes that are coded.
#[derive(Clone, Copy, Debug)]
pub enum Alphabet {
    /// Residuals.
    Residuals(Frequencies),
    /// Symbols of [`joint`], which have escapes of their own.
    Joint,
}

/// Table that values are coded with. Entries of symbols without a slot are those of the escape.
#[derive(Clone, Debug)]
pub struct EncodeTable {
    pub alphabet: Alphabet,
    /// The frequency in the bits from [`LIMIT`] on: a word goes out before the symbol is coded if the state has as much there, or
    /// more. In bits 0 to 12 what is added to the state.
    pub limit: BySymbol,
    /// Reciprocal of the frequency, which turns a division into a multiplication.
    pub reciprocal: BySymbol,
    /// `SLOTS - frequency` in bits 0 to 12, and a shift in the bits from [`SHIFT`] on.
    pub step: BySymbol,
}

/// See [`EncodeTable::limit`].
pub const LIMIT: u32 = LOWEST.ilog2() + WORD_BITS - SCALE_BITS;
/// See [`EncodeTable::step`].
pub const SHIFT: u32 = 13;
/// Bits 0 to 12.
pub const LOW: u32 = (1 << SHIFT) - 1;

impl EncodeTable {
    pub fn new(frequencies: &Frequencies) -> Self {
        Self::with(Alphabet::Residuals(*frequencies), &frequencies.of)
    }

    /// For symbols of [`joint`] with these frequencies.
    pub fn joint(of: &[u16; joint::SYMBOLS]) -> Self {
        Self::with(Alphabet::Joint, of)
    }

    fn with(alphabet: Alphabet, of: &[u16]) -> Self {
        let firsts = first_slots(of);
        let [limit, reciprocal, step] = [[0; joint::SYMBOLS]; 3];
        let mut table = Self { alphabet, limit, reciprocal, step };
        for entry in 0..of.len() {
            let symbol = match alphabet {
                Alphabet::Residuals(_) if of[entry] == 0 => usize::from(ESCAPE),
                Alphabet::Residuals(_) | Alphabet::Joint => entry,
            };
            let (frequency, first) = (u32::from(of[symbol]), u32::from(firsts[symbol]));
            // A state below 2^31 times the reciprocal, shifted, is their quotient: by 1 one less, which the bias makes up for.
            let (reciprocal, shift, bias) = if frequency < 2 {
                (u32::MAX, 0, first + SLOTS as u32 - 1)
            } else {
                let shift = (frequency - 1).ilog2();
                let reciprocal = (1u64 << (shift + 32)).div_ceil(u64::from(frequency));
                (reciprocal as u32, shift, first)
            };
            table.limit[entry] = frequency << LIMIT | bias;
            table.reciprocal[entry] = reciprocal;
            table.step[entry] = (SLOTS as u32 - frequency) | shift << SHIFT;
        }
        table
    }

    /// The symbol that a byte is coded by.
    #[inline(always)]
    fn symbol(&self, code: u8) -> u8 {
        match &self.alphabet {
            Alphabet::Residuals(frequencies) => frequencies.symbol(code),
            Alphabet::Joint => code % joint::SYMBOLS as u8,
        }
    }

    /// Whether a byte with this symbol goes into the list of escapes.
    #[inline(always)]
    fn is_escape(&self, symbol: u8) -> bool {
        matches!(self.alphabet, Alphabet::Residuals(_)) && symbol == ESCAPE
    }

    /// Whether a word goes out before a symbol is coded.
    #[inline(always)]
    fn exceeds(&self, state: u32, symbol: usize) -> bool {
        // What is below the frequency does not count.
        state | ((1 << LIMIT) - 1) >= self.limit[symbol]
    }

    /// The state after a symbol, coded in one that does not exceed the limit.
    #[inline(always)]
    fn coded(&self, state: u32, symbol: usize) -> u32 {
        let step = self.step[symbol];
        let product = u64::from(state) * u64::from(self.reciprocal[symbol]);
        let quotient = (product >> 32) as u32 >> (step >> SHIFT);
        state + (self.limit[symbol] & LOW) + quotient * (step & LOW)
    }
}

/// Table that values are decoded with.
#[derive(Clone, Debug)]
pub struct DecodeTable {
    /// Offset added to symbols; 0 with those of [`joint`].
    pub start: u8,
    /// The symbol in whose place there is the next escape; none of [`joint`], which has escapes of its own.
    pub escape: Option<u8>,
    /// For each slot its symbol in bits 0 to 7, the symbol's frequency less 1 in bits 8 to 19, and the slot's number among
    /// those of the symbol in bits 20 to 31.
    pub slots: Box<[u32; SLOTS]>,
    /// For each rank its first slot in the bits from [`PLACE`] on, less its symbol in the bits from [`SHIFT`] on and its frequency below,
    /// plus all bits below `PLACE`. A slot, moved up to `PLACE` and with all bits set below, is a number for which this is true: less
    /// the place of its rank, it has its number among those of the symbol, the symbol and the frequency; and less a place that
    /// begins behind it, or before its own, it is more than that. Behind the last rank is a copy of it.
    pub places: [u32; SYMBOLS + 1],
    /// The ranks that the slots 0, 32, 64 and so on belong to.
    pub buckets: [u8; SLOTS / BUCKET],
    /// The ranks that the last slots belong to.
    pub tail: [u8; TAIL],
    /// Whether every slot but those of the tail has the rank of its bucket, or the next one: then places, buckets and tail are enough.
    pub narrow: bool,
}

/// See [`DecodeTable::places`].
pub const PLACE: u32 = 32 - SCALE_BITS;
/// Slots of a bucket.
pub const BUCKET: usize = 32;
/// Slots of the tail.
pub const TAIL: usize = 128;

impl DecodeTable {
    pub fn new(frequencies: &Frequencies) -> Self {
        let mut table = Self::with(frequencies.start, Some(ESCAPE), &frequencies.of);
        table.look_up_by_rank(&frequencies.of);
        table
    }

    /// For symbols of [`joint`] with these frequencies.
    pub fn joint(of: &[u16; joint::SYMBOLS]) -> Self {
        Self::with(0, None, of)
    }

    fn with(start: u8, escape: Option<u8>, of: &[u16]) -> Self {
        let mut slots = vec![0; SLOTS];
        let mut first = 0;
        for symbol in ranked(of) {
            let frequency = usize::from(of[usize::from(symbol)]);
            for (slot, number) in slots[first..first + frequency].iter_mut().zip(0..) {
                *slot = u32::from(symbol) | (frequency as u32 - 1) << 8 | number << 20;
            }
            first += frequency;
        }
        Self {
            start,
            escape,
            slots: slots.try_into().expect("it has this length"),
            places: [0; SYMBOLS + 1],
            buckets: [0; SLOTS / BUCKET],
            tail: [0; TAIL],
            narrow: false,
        }
    }

    /// Fills in what slots are looked up in without gathering.
    fn look_up_by_rank(&mut self, of: &[u16; SYMBOLS]) {
        let table = self;
        let mut ranks = [0; SLOTS];
        let mut first = 0;
        for (rank, symbol) in ranked(of).into_iter().enumerate() {
            let frequency = usize::from(of[usize::from(symbol)]);
            ranks[first..first + frequency].fill(rank as u8);
            if frequency > 0 {
                let low = u32::from(symbol) << SHIFT | frequency as u32;
                table.places[rank..].fill((first as u32) << PLACE | ((1 << PLACE) - 1 - low));
            }
            first += frequency;
        }
        for (bucket, ranks) in table.buckets.iter_mut().zip(ranks.as_chunks::<BUCKET>().0) {
            *bucket = ranks[0];
        }
        let (wide, tail) = ranks.split_at(SLOTS - TAIL);
        table.tail.copy_from_slice(tail);
        table.narrow = wide.as_chunks::<BUCKET>().0.iter().all(|ranks| ranks[BUCKET - 1] - ranks[0] < 2);
    }
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

    #[test]
    fn steps_are_those_of_the_definition() {
        let wide = [(0, 1), (1, 2), (2, 3), (3, 1000), (4, 1365), (5, 1701), (9, 23), (ESCAPE, 1)];
        for frequencies in [
            frequencies(250, &wide),
            frequencies(7, &[(30, 4095), (ESCAPE, 1)]),
            frequencies(7, &[(ESCAPE, 4096)]),
        ] {
            let (encode, decode) = (EncodeTable::new(&frequencies), DecodeTable::new(&frequencies));
            let firsts = first_slots(&frequencies.of);
            for symbol in 0..SYMBOLS {
                let coded = usize::from(frequencies.symbol(frequencies.start.wrapping_add(symbol as u8)));
                let (frequency, first) = (u32::from(frequencies.of[coded]), u32::from(firsts[coded]));
                let limit = frequency << 19;
                // Around every power of two, and some others.
                let states = (3..31)
                    .flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1, 0x5555_5555 >> (30 - bit)]);
                for x in states.chain([limit - 1, limit]).filter(|x| *x < 1 << 31) {
                    assert_eq!(encode.exceeds(x, symbol), x >= limit, "{symbol} {x}");
                    if x >= limit {
                        continue;
                    }
                    let expected = (x / frequency * SLOTS as u32) + x % frequency + first;
                    assert_eq!(encode.coded(x, symbol), expected, "{symbol} {x}");
                    let entry = decode.slots[expected as usize % SLOTS];
                    assert_eq!(entry as usize % 256, coded);
                    assert_eq!(((entry >> 8 & 0xfff) + 1) * (expected >> SCALE_BITS) + (entry >> 20), x);
                }
            }
        }
    }

    #[test]
    fn ranks_are_found_in_buckets_and_in_the_tail() {
        let mut narrow = 0;
        for frequencies in [
            frequencies(0, &[(3, 2000), (2, 1000), (9, 900), (ESCAPE, 100), (4, 60), (5, 30), (6, 6)]),
            frequencies(0, &[(3, 3900), (2, 60), (9, 40), (ESCAPE, 96)]),
            frequencies(
                0,
                &[
                    (0, 3946),
                    (1, 15),
                    (2, 15),
                    (3, 15),
                    (4, 15),
                    (5, 15),
                    (6, 15),
                    (7, 15),
                    (8, 15),
                    (9, 15),
                    (ESCAPE, 15),
                ],
            ),
            Frequencies { start: 0, of: [128; SYMBOLS] },
        ] {
            let table = DecodeTable::new(&frequencies);
            narrow += usize::from(table.narrow);
            for slot in (0..SLOTS).filter(|_| table.narrow) {
                let rank = if slot >= SLOTS - TAIL {
                    table.tail[slot - (SLOTS - TAIL)]
                } else {
                    table.buckets[slot / BUCKET]
                };
                let rank = usize::from(rank);
                let above = (slot as u32) << PLACE | ((1 << PLACE) - 1);
                let [own, next] = [rank, rank + 1].map(|rank| above.wrapping_sub(table.places[rank]));
                let (found, entry) = (own.min(next), table.slots[slot]);
                assert_eq!(found >> PLACE, entry >> 20, "{slot}");
                assert_eq!(found >> SHIFT & 31, entry & 0xff, "{slot}");
                assert_eq!(found & LOW, (entry >> 8 & 0xfff) + 1, "{slot}");
            }
        }
        assert_eq!(narrow, 3);
    }

    #[test]
    fn joint_symbols_have_entries_of_their_own() {
        let mut of = [60; joint::SYMBOLS];
        of[9] = SLOTS as u16 - 63 * 60;
        let (encode, decode) = (EncodeTable::joint(&of), DecodeTable::joint(&of));
        let firsts = first_slots(&of);
        assert!(decode.escape.is_none() && decode.start == 0 && !decode.narrow);
        for symbol in 0..joint::SYMBOLS {
            assert!(encode.symbol(symbol as u8) == symbol as u8 && !encode.is_escape(symbol as u8));
            let (frequency, first) = (u32::from(of[symbol]), u32::from(firsts[symbol]));
            for x in [LOWEST, 0x12_3456, (frequency << LIMIT) - 1] {
                let coded = encode.coded(x, symbol);
                assert_eq!(coded, x / frequency * SLOTS as u32 + x % frequency + first);
                assert_eq!(decode.slots[coded as usize % SLOTS] & 0xff, symbol as u32);
            }
        }
    }
}
