//! rANS, range coding with asymmetric numeral systems (J. Duda, 2013), of residuals in 32 interleaved lanes.
//!
//! Value `i` is coded in lane `i % 32`, so a warp takes one value per thread and a vector of 512 bits sixteen. A lane has a state of
//! 31 bits, from 2^15 on; what it has too much goes out, 16 bits at a time, and all lanes share one row of such words. A step
//! is 32 values, one of each lane: its words are in the order of the lanes, and values are coded from the last one to the first, so
//! that they can be decoded from the first to the last.
//!
//! Symbols are 31 consecutive residuals, and one that stands for all others: an escape.

/// Lanes, and values of a step.
pub(crate) const LANES: usize = 32;
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

/// What symbols there are, and how frequent they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frequencies {
    /// The residual of symbol 0; that of symbol `s` is `s` more, modulo 256.
    pub(crate) start: u8,
    /// Of each symbol; [`SLOTS`] in all, and at least 1 of the escape. A residual whose symbol has 0 is an escape.
    pub(crate) of: [u16; SYMBOLS],
}

impl Frequencies {
    /// The symbol that a residual is coded by.
    #[inline(always)]
    pub(crate) fn symbol(&self, residual: u8) -> u8 {
        let symbol = residual.wrapping_sub(self.start).min(ESCAPE);
        if self.of[usize::from(symbol)] == 0 { ESCAPE } else { symbol }
    }

    /// The symbols by descending frequency, the lower one of equals first: so they have their slots.
    fn ranked(&self) -> [u8; SYMBOLS] {
        let mut ranked: [u8; SYMBOLS] = std::array::from_fn(|symbol| symbol as u8);
        ranked.sort_by_key(|symbol| (SLOTS - usize::from(self.of[usize::from(*symbol)]), *symbol));
        ranked
    }

    /// The first slot of each symbol.
    fn first_slots(&self) -> [u16; SYMBOLS] {
        let mut slots = [0; SYMBOLS];
        let mut next = 0;
        for symbol in self.ranked().map(usize::from) {
            slots[symbol] = next;
            next += self.of[symbol];
        }
        slots
    }
}

/// What values are coded with. Entries of symbols without a slot are those of the escape.
#[derive(Clone, Debug)]
pub(crate) struct EncodeTable {
    pub(crate) frequencies: Frequencies,
    /// From this state on, a word goes out before the symbol is coded.
    pub(crate) limit: [u32; SYMBOLS],
    /// With which a division by the frequency is a multiplication.
    pub(crate) reciprocal: [u32; SYMBOLS],
    /// `SLOTS - frequency` in bits 0 to 12, what is added to the state in bits 13 to 25, a shift in bits 26 to 31.
    pub(crate) step: [u32; SYMBOLS],
}

impl EncodeTable {
    pub(crate) fn new(frequencies: &Frequencies) -> Self {
        let firsts = frequencies.first_slots();
        let symbols = (0..=ESCAPE).map(|symbol| frequencies.symbol(frequencies.start.wrapping_add(symbol)));
        let mut table = Self {
            frequencies: *frequencies,
            limit: [0; SYMBOLS],
            reciprocal: [0; SYMBOLS],
            step: [0; SYMBOLS],
        };
        for (entry, symbol) in symbols.map(usize::from).enumerate() {
            let (frequency, first) = (u32::from(frequencies.of[symbol]), u32::from(firsts[symbol]));
            // A state below 2^31 times the reciprocal, shifted, is their quotient: by 1 one less, which the bias makes up for.
            let (reciprocal, shift, bias) = if frequency < 2 {
                (u32::MAX, 0, first + SLOTS as u32 - 1)
            } else {
                let shift = (frequency - 1).ilog2();
                let reciprocal = (1u64 << (shift + 32)).div_ceil(u64::from(frequency));
                (reciprocal as u32, shift, first)
            };
            table.limit[entry] = frequency << (LOWEST.ilog2() + WORD_BITS - SCALE_BITS);
            table.reciprocal[entry] = reciprocal;
            table.step[entry] = (SLOTS as u32 - frequency) | bias << 13 | shift << 26;
        }
        table
    }
}

/// What values are decoded with.
#[derive(Clone, Debug)]
pub(crate) struct DecodeTable {
    pub(crate) start: u8,
    /// For each slot its symbol in bits 0 to 7, the symbol's frequency less 1 in bits 8 to 19, and the slot's number among
    /// those of the symbol in bits 20 to 31.
    pub(crate) slots: [u32; SLOTS],
    /// For each rank of a symbol its frequency in bits 16 to 31, and its first slot below.
    pub(crate) places: [u32; SYMBOLS],
    /// For each rank the slot behind its last.
    pub(crate) ends: [u32; SYMBOLS],
    /// For each rank its symbol.
    pub(crate) symbols: [u8; SYMBOLS],
    /// The ranks that the slots 0, 32, 64 and so on belong to.
    pub(crate) buckets: [u8; SLOTS / BUCKET],
    /// The ranks that the last slots belong to.
    pub(crate) tail: [u8; TAIL],
    /// Whether every slot but those of the tail has the rank of its bucket, or the next one.
    pub(crate) narrow: bool,
}

/// Slots of a bucket.
pub(crate) const BUCKET: usize = 32;
/// Slots of the tail.
pub(crate) const TAIL: usize = 128;

impl DecodeTable {
    pub(crate) fn new(frequencies: &Frequencies) -> Self {
        let symbols = frequencies.ranked();
        let mut table = Self {
            start: frequencies.start,
            slots: [0; SLOTS],
            places: [0; SYMBOLS],
            ends: [SLOTS as u32; SYMBOLS],
            symbols,
            buckets: [0; SLOTS / BUCKET],
            tail: [0; TAIL],
            narrow: true,
        };
        let mut ranks = [0; SLOTS];
        let mut first = 0;
        for (rank, symbol) in symbols.into_iter().enumerate() {
            let frequency = usize::from(frequencies.of[usize::from(symbol)]);
            let own = first..first + frequency;
            for (slot, number) in table.slots[own.clone()].iter_mut().zip(0..) {
                *slot = u32::from(symbol) | (frequency as u32 - 1) << 8 | number << 20;
            }
            ranks[own].fill(rank as u8);
            table.places[rank] = (frequency as u32) << 16 | first as u32;
            first += frequency;
            table.ends[rank] = first as u32;
        }
        for (bucket, ranks) in table.buckets.iter_mut().zip(ranks.as_chunks::<BUCKET>().0) {
            *bucket = ranks[0];
        }
        let (wide, tail) = ranks.split_at(SLOTS - TAIL);
        table.tail.copy_from_slice(tail);
        table.narrow = wide.as_chunks::<BUCKET>().0.iter().all(|ranks| ranks[BUCKET - 1] - ranks[0] < 2);
        table
    }
}

/// Where values are coded to: the ends of both lists, so that they can be written from the last to the first.
pub(crate) struct Room<'a> {
    /// Room for two bytes per value, and [`ROOM_PAD`] in front.
    pub(crate) words: &'a mut [u8],
    /// Room for a byte per value, and [`ROOM_PAD`] in front.
    pub(crate) escapes: &'a mut [u8],
}

/// What is decoded.
#[derive(Clone, Copy)]
pub(crate) struct Stream<'a> {
    /// If the values ask for more, they read zeros.
    pub(crate) words: &'a [u8],
    /// As with words.
    pub(crate) escapes: &'a [u8],
}

/// Numbers of words and of escapes: those in the lists, or those that values have asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) words: usize,
    pub(crate) escapes: usize,
}

/// See [`super::Kernel::encode_rans`].
pub(crate) fn encode(
    residuals: &[u8],
    table: &EncodeTable,
    states: &mut States,
    room: &mut Room<'_>,
) -> Used {
    let mut used = Used::default();
    encode_steps(residuals, table, states, room, &mut used);
    used
}

/// Codes residuals in front of what is in the lists already. Only the last call before others may be for a part of a step.
#[inline(always)]
pub(crate) fn encode_steps(
    residuals: &[u8],
    table: &EncodeTable,
    states: &mut States,
    room: &mut Room<'_>,
    used: &mut Used,
) {
    let (mut words, mut escapes) = (room.words.len() - WORD * used.words, room.escapes.len() - used.escapes);
    for step in residuals.chunks(LANES).rev() {
        for (state, residual) in states.iter_mut().zip(step).rev() {
            let symbol = table.frequencies.symbol(*residual);
            // Written even if it is none: then the next one takes its place.
            room.escapes[escapes - 1] = *residual;
            escapes -= usize::from(symbol == ESCAPE);
            let symbol = usize::from(symbol);
            let out = *state >= table.limit[symbol];
            let word = words - WORD..words;
            room.words[word].copy_from_slice(&(*state as u16).to_le_bytes());
            words -= if out { WORD } else { 0 };
            let x = if out { *state >> WORD_BITS } else { *state };
            let step = table.step[symbol];
            let quotient = (u64::from(x) * u64::from(table.reciprocal[symbol]) >> 32) as u32 >> (step >> 26);
            *state = x + (step >> 13 & 0x1fff) + quotient * (step & 0x1fff);
        }
    }
    used.words = (room.words.len() - words) / WORD;
    used.escapes = room.escapes.len() - escapes;
}

/// See [`super::Kernel::decode_rans`].
pub(crate) fn decode(
    stream: Stream<'_>,
    table: &DecodeTable,
    states: &mut States,
    residuals: &mut [u8],
) -> Used {
    let mut used = Used::default();
    decode_steps(stream, table, states, residuals, &mut used);
    used
}

/// Decodes residuals behind those for which so much has been used.
#[inline(always)]
pub(crate) fn decode_steps(
    stream: Stream<'_>,
    table: &DecodeTable,
    states: &mut States,
    residuals: &mut [u8],
    used: &mut Used,
) {
    let mut residuals = residuals;
    // As long as no step can ask for a word that there is not.
    while residuals.len() >= LANES
        && let Some(words) = stream.words.get(WORD * used.words..)
        && let Some(words) = words.first_chunk::<{ WORD * LANES }>()
        && let Some(step) = residuals.split_off_mut(..LANES)
    {
        used.words += decode_step(stream, table, states, step, &mut used.escapes, |number| {
            let word = words.as_chunks::<WORD>().0[number % LANES];
            u16::from_le_bytes(word)
        });
    }
    for step in residuals.chunks_mut(LANES) {
        let words = stream.words.get(WORD * used.words..).unwrap_or_default().as_chunks::<WORD>().0;
        used.words += decode_step(stream, table, states, step, &mut used.escapes, |number| {
            words.get(number).map_or(0, |word| u16::from_le_bytes(*word))
        });
    }
}

/// Decodes at most a value of each lane; returns how many words these read.
#[inline(always)]
fn decode_step(
    stream: Stream<'_>,
    table: &DecodeTable,
    states: &mut States,
    residuals: &mut [u8],
    escapes: &mut usize,
    word: impl Fn(usize) -> u16,
) -> usize {
    let mut words = 0;
    for (state, residual) in states.iter_mut().zip(residuals) {
        let entry = table.slots[*state as usize % SLOTS];
        let symbol = entry as u8;
        *residual = symbol.wrapping_add(table.start);
        if symbol == ESCAPE {
            *residual = stream.escapes.get(*escapes).copied().unwrap_or(0);
            *escapes += 1;
        }
        let x = ((entry >> 8 & 0xfff) + 1) * (*state >> SCALE_BITS) + (entry >> 20);
        let read = x < LOWEST;
        let next = x << WORD_BITS | u32::from(word(words));
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
    fn steps_are_those_of_the_definition() {
        let wide = [(0, 1), (1, 2), (2, 3), (3, 1000), (4, 1365), (5, 1701), (9, 23), (ESCAPE, 1)];
        for frequencies in [
            frequencies(250, &wide),
            frequencies(7, &[(30, 4095), (ESCAPE, 1)]),
            frequencies(7, &[(ESCAPE, 4096)]),
        ] {
            let (encode, decode) = (EncodeTable::new(&frequencies), DecodeTable::new(&frequencies));
            let firsts = frequencies.first_slots();
            for symbol in 0..SYMBOLS {
                let coded = usize::from(frequencies.symbol(frequencies.start.wrapping_add(symbol as u8)));
                let (frequency, first) = (u32::from(frequencies.of[coded]), u32::from(firsts[coded]));
                let limit = u64::from(frequency) << 19;
                assert_eq!(u64::from(encode.limit[symbol]), limit);
                // Around every multiple of a power of two, and some others.
                let states =
                    (0..31).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1, 0x5555_5555 >> bit]);
                for x in states.filter(|x| (8..limit).contains(x)).map(|x| x as u32) {
                    let expected = (x / frequency * SLOTS as u32) + x % frequency + first;
                    let step = encode.step[symbol];
                    let quotient =
                        (u64::from(x) * u64::from(encode.reciprocal[symbol]) >> 32) as u32 >> (step >> 26);
                    assert_eq!(
                        x + (step >> 13 & 0x1fff) + quotient * (step & 0x1fff),
                        expected,
                        "{symbol} {x}"
                    );
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
                    let rank = table.buckets[slot / BUCKET];
                    rank + u8::from(slot as u32 >= table.ends[usize::from(rank)])
                };
                assert_eq!(table.symbols[usize::from(rank)], table.slots[slot] as u8, "{slot}");
                let place = table.places[usize::from(rank)];
                assert_eq!(place >> 16, (table.slots[slot] >> 8 & 0xfff) + 1);
                assert_eq!(place & 0xffff, slot as u32 - (table.slots[slot] >> 20));
            }
        }
        assert_eq!(narrow, 3);
    }

    #[test]
    fn residuals_come_back_and_states_too() {
        let frequencies =
            frequencies(250, &[(4, 40), (5, 900), (6, 1600), (7, 1300), (8, 200), (ESCAPE, 56)]);
        let (encoder, decoder) = (EncodeTable::new(&frequencies), DecodeTable::new(&frequencies));
        for count in [0, 1, 31, 32, 33, 500] {
            let residuals: Vec<u8> = (0..count)
                .map(|i: u32| ((i.wrapping_mul(0x9e37_79b1) >> 28) as u8 % 9).wrapping_add(252))
                .collect();
            let (mut words, mut escapes) = (vec![0; ROOM_PAD + WORD * 500], vec![0; ROOM_PAD + 500]);
            let start: States =
                std::array::from_fn(|lane| LOWEST + (lane as u32) * 0x0311_2233 % 0x7000_0000);
            let mut states = start;
            let mut room = Room { words: &mut words, escapes: &mut escapes };
            let used = encode(&residuals, &encoder, &mut states, &mut room);
            assert!(count < 500 || used.words > 10 && used.escapes > 10);
            let stream = Stream {
                words: &words[ROOM_PAD + WORD * (500 - used.words)..],
                escapes: &escapes[ROOM_PAD + 500 - used.escapes..],
            };
            let mut back = vec![0xee; residuals.len()];
            assert_eq!(decode(stream, &decoder, &mut states, &mut back), used);
            assert_eq!((back, states), (residuals, start));
        }
    }
}
