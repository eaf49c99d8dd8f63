//! rANS, sixteen lanes to a vector. What a table has for a symbol or a slot is looked up in registers.

use std::arch::x86_64::*;

use super::vector::{load, load_half, load_part, select, store};
use crate::kernel::rans::{
    self, Alphabet, BUCKET, BySymbol, DecodeTable, ESCAPE, EncodeTable, Job, LANE_VALUES, LIMIT, LOW, LOWEST,
    PLACE, ROW_VALUES, Room, SCALE_BITS, SHIFT, SLOTS, SYMBOLS, States, TAIL, Used, WORD, WORD_BITS,
};

/// The numbers from 0 on.
static NUMBERS: [u16; 32] = {
    let mut numbers = [0; 32];
    let mut i = 0;
    while i < 32 {
        numbers[i] = i as u16;
        i += 1;
    }
    numbers
};

/// Numbers of 32 bits for each of 32 or, if it is wide, 64 symbols.
#[derive(Clone, Copy)]
struct Table<const WIDE: bool>([__m512i; 4]);

impl<const WIDE: bool> Table<WIDE> {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn new(numbers: &BySymbol) -> Self {
        let [a, b, c, d] = numbers.as_chunks().0 else { unreachable!("64 numbers are four times 16") };
        Self([vector_of(a), vector_of(b), vector_of(c), vector_of(d)])
    }

    /// Numbers of these symbols, whose bits above the fifth, or the sixth, are of no meaning; `upper` marks those with the sixth.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn get(&self, symbols: __m512i, upper: u16) -> __m512i {
        let low = _mm512_permutex2var_epi32(self.0[0], symbols, self.0[1]);
        if !WIDE {
            return low;
        }
        let high = _mm512_permutex2var_epi32(self.0[2], symbols, self.0[3]);
        _mm512_mask_mov_epi32(low, upper, high)
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn vector_of(numbers: &[u32; 16]) -> __m512i {
    let mut bytes = [0; 64];
    for (bytes, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
        *bytes = number.to_le_bytes();
    }
    load(&bytes)
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn states_of(states: &States) -> [__m512i; 2] {
    let [first, second] = states.as_chunks().0 else { unreachable!("32 lanes are twice 16") };
    [vector_of(first), vector_of(second)]
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn write_states(vectors: [__m512i; 2], states: &mut States) {
    for (vector, states) in vectors.iter().zip(states.as_chunks_mut::<16>().0) {
        let mut bytes = [0; 64];
        store(&mut bytes, *vector);
        for (bytes, state) in bytes.as_chunks().0.iter().zip(states) {
            *state = u32::from_le_bytes(*bytes);
        }
    }
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn encode_rans(
    residuals: &[u8],
    table: &EncodeTable,
    states: &mut States,
    room: &mut Room<'_>,
) -> Used {
    let Alphabet::Residuals(frequencies) = &table.alphabet else {
        return encode_joint(residuals, table, states, room);
    };
    let (rows, tail) = residuals.as_chunks::<ROW_VALUES>();
    let mut used = Used::default();
    rans::encode_rows(tail, table, states, room, &mut used);
    let words = room.words.len() - WORD * used.words;
    let mut escapes = room.escapes.len() - used.escapes;

    let mut symbol_of = [0; 64];
    for (number, symbol) in (0..=ESCAPE).zip(&mut symbol_of) {
        *symbol = frequencies.symbol(frequencies.start.wrapping_add(number));
    }
    let symbol_of = load(&symbol_of);
    let start = _mm512_set1_epi8(frequencies.start.cast_signed());
    let escape = _mm512_set1_epi8(ESCAPE.cast_signed());
    let tables = Tables::<false>::new(table);
    let mut lanes = Coding { states: states_of(states), words };
    for row in rows.iter().rev() {
        let [first, second] = row.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
        let mut symbols = [_mm512_setzero_si512(); 2];
        for (residuals, symbols) in [first, second].into_iter().zip(&mut symbols).rev() {
            let residuals = load(residuals);
            *symbols = _mm512_min_epu8(_mm512_sub_epi8(residuals, start), escape);
            *symbols = _mm512_permutexvar_epi8(*symbols, symbol_of);
            let escaped = _mm512_cmpeq_epi8_mask(*symbols, escape);
            if escaped != 0 {
                let count = escaped.count_ones() as usize;
                let mut in_front = [0; 64];
                store(&mut in_front, _mm512_maskz_compress_epi8(escaped, residuals));
                room.escapes[escapes - count..escapes].copy_from_slice(&in_front[..count]);
                escapes -= count;
            }
        }
        lanes.row(symbols, &tables, room.words);
    }
    write_states(lanes.states, states);
    Used { words: (room.words.len() - lanes.words) / WORD, escapes: room.escapes.len() - escapes }
}

/// [`encode`] for symbols of [`crate::kernel::joint`].
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn encode_joint(symbols: &[u8], table: &EncodeTable, states: &mut States, room: &mut Room<'_>) -> Used {
    let (rows, tail) = symbols.as_chunks::<ROW_VALUES>();
    let mut used = Used::default();
    rans::encode_rows(tail, table, states, room, &mut used);
    let tables = Tables::<true>::new(table);
    let mut lanes = Coding { states: states_of(states), words: room.words.len() - WORD * used.words };
    for row in rows.iter().rev() {
        let [first, second] = row.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
        lanes.row([load(first), load(second)], &tables, room.words);
    }
    write_states(lanes.states, states);
    Used { words: (room.words.len() - lanes.words) / WORD, ..used }
}

/// Tables for coding symbols, in registers.
struct Tables<const WIDE: bool> {
    limit: Table<WIDE>,
    reciprocal: Table<WIDE>,
    step: Table<WIDE>,
    numbers: __m512i,
}

impl<const WIDE: bool> Tables<WIDE> {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn new(table: &EncodeTable) -> Self {
        Self {
            limit: Table::new(&table.limit),
            reciprocal: Table::new(&table.reciprocal),
            step: Table::new(&table.step),
            numbers: load(&bytes_of(&NUMBERS)),
        }
    }
}

/// Lanes that are coded, and where the last of their words is.
struct Coding {
    states: [__m512i; 2],
    words: usize,
}

impl Coding {
    /// Codes four symbols of each lane.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
    fn row<const WIDE: bool>(&mut self, [a, b]: [__m512i; 2], tables: &Tables<WIDE>, words: &mut [u8]) {
        // The symbol of a step is in the lowest byte; others do not count.
        self.step([_mm512_srli_epi32::<24>(a), _mm512_srli_epi32::<24>(b)], tables, words);
        self.step([_mm512_srli_epi32::<16>(a), _mm512_srli_epi32::<16>(b)], tables, words);
        self.step([_mm512_srli_epi32::<8>(a), _mm512_srli_epi32::<8>(b)], tables, words);
        self.step([a, b], tables, words);
    }

    /// Codes a symbol of each lane.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
    fn step<const WIDE: bool>(&mut self, symbols: [__m512i; 2], tables: &Tables<WIDE>, words: &mut [u8]) {
        let sixth = _mm512_set1_epi32(SYMBOLS as i32);
        let upper = symbols.map(|symbols| if WIDE { _mm512_test_epi32_mask(symbols, sixth) } else { 0 });
        let (low, below) = (_mm512_set1_epi32(LOW as i32), _mm512_set1_epi32((1 << LIMIT) - 1));
        let limits = [tables.limit.get(symbols[0], upper[0]), tables.limit.get(symbols[1], upper[1])];
        let first = _mm512_cmpge_epu32_mask(_mm512_or_si512(self.states[0], below), limits[0]);
        let second = _mm512_cmpge_epu32_mask(_mm512_or_si512(self.states[1], below), limits[1]);
        let out = u32::from(first) | u32::from(second) << 16;
        let count = out.count_ones();
        // The words that go out, at the end of a vector.
        let low_words = _mm512_add_epi16(tables.numbers, tables.numbers);
        let both = _mm512_permutex2var_epi16(self.states[0], low_words, self.states[1]);
        let turned = _mm512_add_epi16(tables.numbers, _mm512_set1_epi16(count as i16));
        let both = _mm512_permutexvar_epi16(turned, _mm512_maskz_compress_epi16(out, both));
        store(words[..self.words].last_chunk_mut().expect("there is room in front of the words"), both);
        self.words -= WORD * count as usize;
        let parts = limits.iter().zip([first, second]).zip(symbols.iter().zip(upper));
        for (state, ((limit, out), (symbols, upper))) in self.states.iter_mut().zip(parts) {
            let x = _mm512_mask_srli_epi32::<WORD_BITS>(*state, out, *state);
            let (reciprocal, step) =
                (tables.reciprocal.get(*symbols, upper), tables.step.get(*symbols, upper));
            let even = _mm512_mul_epu32(x, reciprocal);
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(x), _mm512_srli_epi64::<32>(reciprocal));
            // The upper halves of the products; those of even lanes are in the odd ones beside them.
            let quotient = _mm512_mask_shuffle_epi32::<_MM_PERM_DDBB>(odd, 0x5555, even);
            let quotient = _mm512_srlv_epi32(quotient, _mm512_srli_epi32::<SHIFT>(step));
            let scaled = _mm512_mullo_epi32(quotient, _mm512_and_si512(step, low));
            *state = _mm512_add_epi32(_mm512_add_epi32(x, _mm512_and_si512(*limit, low)), scaled);
        }
    }
}

fn bytes_of(numbers: &[u16; 32]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (bytes, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
        *bytes = number.to_le_bytes();
    }
    bytes
}

/// Lookup of slots: in registers, if the table is narrow; or in memory.
struct Lookup<'a> {
    buckets: [__m512i; 2],
    tail: [__m512i; 2],
    places: [__m512i; 2],
    next_places: [__m512i; 2],
    slots: &'a [u32; SLOTS],
}

impl<'a> Lookup<'a> {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn new(table: &'a DecodeTable) -> Self {
        let halves = |bytes: &[u8; 128]| {
            let [first, second] = bytes.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
            [*first, *second]
        };
        let ([a, b], [c, d]) = (halves(&table.buckets), halves(&table.tail));
        let places = |first: usize| {
            let [low, high] = table.places[first..first + SYMBOLS].as_chunks().0 else {
                unreachable!("32 numbers are twice 16")
            };
            [vector_of(low), vector_of(high)]
        };
        Self {
            buckets: [load(&a), load(&b)],
            tail: [load(&c), load(&d)],
            places: places(0),
            next_places: places(1),
            slots: &table.slots,
        }
    }

    /// Symbols that states stand for, with their numbers ([`together`]), and the states before these were coded.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    fn step<const NARROW: bool>(&self, states: __m512i) -> (__m512i, __m512i) {
        if !NARROW {
            let found = gather(self.slots, states);
            let less_1 = _mm512_and_si512(_mm512_srli_epi32::<8>(found), _mm512_set1_epi32(SLOTS as i32 - 1));
            let quotient = _mm512_srli_epi32::<SCALE_BITS>(states);
            let scaled = _mm512_add_epi32(_mm512_mullo_epi32(less_1, quotient), quotient);
            return (found, _mm512_add_epi32(scaled, _mm512_srli_epi32::<PLACE>(found)));
        }
        let below = _mm512_set1_epi32((1 << PLACE) - 1);
        let slots = _mm512_or_si512(_mm512_slli_epi32::<PLACE>(states), below);
        // Of the bytes of a number only the lowest one counts, and of that seven bits.
        let buckets = _mm512_srli_epi32::<{ BUCKET.ilog2() }>(states);
        let ranks = _mm512_permutex2var_epi8(self.buckets[0], buckets, self.buckets[1]);
        let in_tail = _mm512_cmpge_epu32_mask(slots, _mm512_set1_epi32(((SLOTS - TAIL) << PLACE) as i32));
        let ranks_of_tail = _mm512_permutex2var_epi8(self.tail[0], states, self.tail[1]);
        let ranks = _mm512_mask_mov_epi32(ranks, in_tail, ranks_of_tail);
        let places = _mm512_permutex2var_epi32(self.places[0], ranks, self.places[1]);
        let next_places = _mm512_permutex2var_epi32(self.next_places[0], ranks, self.next_places[1]);
        let own = _mm512_sub_epi32(slots, places);
        let next = _mm512_sub_epi32(slots, next_places);
        let found = _mm512_min_epu32(own, next);
        let frequency = _mm512_and_si512(found, _mm512_set1_epi32(LOW as i32));
        let scaled = _mm512_mullo_epi32(frequency, _mm512_srli_epi32::<SCALE_BITS>(states));
        (found, _mm512_add_epi32(scaled, _mm512_srli_epi32::<PLACE>(found)))
    }
}

/// The entries of the slots of states, which are their lowest bits.
#[inline]
#[target_feature(enable = "avx512bw")]
fn gather(slots: &[u32; SLOTS], states: __m512i) -> __m512i {
    let numbers = _mm512_and_si512(states, _mm512_set1_epi32(SLOTS as i32 - 1));
    // SAFETY: each number is below the length of the array, whose entries have the four bytes of the scale.
    unsafe { _mm512_i32gather_epi32::<4>(numbers, slots.as_ptr().cast()) }
}

/// The symbols of four steps, a byte each.
#[inline]
#[target_feature(enable = "avx512bw")]
fn together<const NARROW: bool>(found: [__m512i; LANE_VALUES]) -> __m512i {
    let [first, second, third, fourth] = found;
    // From where they are found to the bytes of their steps; what is around them does not count.
    let [first, second, third, fourth] = if NARROW {
        [
            _mm512_srli_epi32::<SHIFT>(first),
            _mm512_srli_epi32::<{ SHIFT - 8 }>(second),
            _mm512_slli_epi32::<{ 16 - SHIFT }>(third),
            _mm512_slli_epi32::<{ 24 - SHIFT }>(fourth),
        ]
    } else {
        [
            first,
            _mm512_slli_epi32::<8>(second),
            _mm512_slli_epi32::<16>(third),
            _mm512_slli_epi32::<24>(fourth),
        ]
    };
    let low = select(_mm512_set1_epi32(0xff), first, second);
    let high = select(_mm512_set1_epi32(0xff_ffff), third, fourth);
    let symbols = select(_mm512_set1_epi32(0xffff), low, high);
    if NARROW { _mm512_and_si512(symbols, _mm512_set1_epi8(0x1f)) } else { symbols }
}

/// Bytes of the words that a row reads at most.
const ROW_WORD_BYTES: usize = WORD * ROW_VALUES;

/// Decodes a step: what has been found of its symbols, and the states before they were coded. `words` are those of the row, of which
/// `read` have been read.
///
/// The words of each half of the lanes are expanded by themselves: that takes no more operations than to expand both and pull them
/// apart, but a third less time from states to states.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn decode_step<const NARROW: bool>(
    states: [__m512i; 2],
    lookup: &Lookup<'_>,
    words: &[u8; ROW_WORD_BYTES],
    read: &mut usize,
) -> ([__m512i; 2], [__m512i; 2]) {
    let lowest = _mm512_set1_epi32(LOWEST.cast_signed());
    let mut half = |state| {
        let (found, next) = lookup.step::<NARROW>(state);
        let words = load_half(words[*read..].first_chunk().expect("a half reads half a vector at most"));
        let reads = _mm512_cmplt_epu32_mask(next, lowest);
        let words = _mm512_maskz_expand_epi32(reads, _mm512_cvtepu16_epi32(words));
        *read += WORD * reads.count_ones() as usize;
        (found, _mm512_mask_or_epi32(next, reads, _mm512_slli_epi32::<WORD_BITS>(next), words))
    };
    let (first, second) = (half(states[0]), half(states[1]));
    ([first.0, second.0], [first.1, second.1])
}

/// Mapping of symbols to residuals.
struct Symbols {
    start: __m512i,
    escape: __m512i,
}

impl Symbols {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn new(table: &DecodeTable) -> Self {
        // No symbol is 255.
        let escape = table.escape.unwrap_or(u8::MAX);
        Self {
            start: _mm512_set1_epi8(table.start.cast_signed()),
            escape: _mm512_set1_epi8(escape.cast_signed()),
        }
    }

    /// The residuals of symbols; of those that are escapes the next ones.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
    fn residuals(&self, symbols: __m512i, escapes: &[u8], used: &mut usize) -> __m512i {
        let found = _mm512_add_epi8(symbols, self.start);
        let escaped = _mm512_cmpeq_epi8_mask(symbols, self.escape);
        if escaped == 0 {
            return found;
        }
        let escapes = escapes.get(*used..).unwrap_or_default();
        *used += escaped.count_ones() as usize;
        _mm512_mask_expand_epi8(found, escaped, load_part(&escapes[..escapes.len().min(64)]))
    }
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn decode_rans(jobs: &mut [Job<'_>], table: &DecodeTable) {
    if table.narrow { decode_jobs::<true>(jobs, table) } else { decode_jobs::<false>(jobs, table) }
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn decode_jobs<const NARROW: bool>(jobs: &mut [Job<'_>], table: &DecodeTable) {
    let (lookup, symbols) = (Lookup::new(table), Symbols::new(table));
    let (fours, jobs) = jobs.as_chunks_mut::<4>();
    fours.iter_mut().for_each(|jobs| decode_all::<4, NARROW>(jobs, &lookup, &symbols, table));
    let (pairs, jobs) = jobs.as_chunks_mut::<2>();
    pairs.iter_mut().for_each(|jobs| decode_all::<2, NARROW>(jobs, &lookup, &symbols, table));
    for job in jobs {
        decode_all::<1, NARROW>(std::array::from_mut(job), &lookup, &symbols, table);
    }
}

/// Decodes some blocks, side by side as long as all of them have rows.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn decode_all<const JOBS: usize, const NARROW: bool>(
    jobs: &mut [Job<'_>; JOBS],
    lookup: &Lookup<'_>,
    symbols: &Symbols,
    table: &DecodeTable,
) {
    let rows = jobs.iter().map(|job| job.residuals.len() / ROW_VALUES).min().unwrap_or(0);
    decode_rows::<JOBS, NARROW>(jobs, 0..rows, lookup, symbols);
    for job in jobs {
        let all = job.residuals.len() / ROW_VALUES;
        decode_rows::<1, NARROW>(std::array::from_mut(job), rows..all, lookup, symbols);
        rans::decode_rows(job, all * ROW_VALUES, table);
    }
}

/// Decodes these rows of some blocks side by side, so that none waits for the look-ups of another.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn decode_rows<const JOBS: usize, const NARROW: bool>(
    jobs: &mut [Job<'_>; JOBS],
    rows: std::ops::Range<usize>,
    lookup: &Lookup<'_>,
    symbols: &Symbols,
) {
    let mut states = [[_mm512_setzero_si512(); 2]; JOBS];
    for number in 0..JOBS {
        states[number] = states_of(&jobs[number].states);
    }
    let mut at_end = [[0; ROW_WORD_BYTES]; JOBS];
    for row in rows {
        let mut words = [&[0; ROW_WORD_BYTES]; JOBS];
        for ((words, at_end), job) in words.iter_mut().zip(&mut at_end).zip(&*jobs) {
            let left = job.stream.words.get(WORD * job.used.words..).unwrap_or_default();
            *words = left.first_chunk().unwrap_or_else(|| {
                at_end.fill(0);
                at_end[..left.len()].copy_from_slice(left);
                at_end
            });
        }
        let mut read = [0; JOBS];
        let mut steps = [[[_mm512_setzero_si512(); 2]; JOBS]; LANE_VALUES];
        for found in &mut steps {
            let mut decode = |number: usize| {
                (found[number], states[number]) =
                    decode_step::<NARROW>(states[number], lookup, words[number], &mut read[number]);
            };
            // Written out, so that all states are in registers.
            const { assert!(JOBS <= 4) };
            decode(0);
            if JOBS > 1 {
                decode(1);
            }
            if JOBS > 2 {
                decode(2);
            }
            if JOBS > 3 {
                decode(3);
            }
        }
        for number in 0..JOBS {
            jobs[number].used.words += read[number] / WORD;
        }
        for (number, job) in jobs.iter_mut().enumerate() {
            let out = job.residuals[row * ROW_VALUES..]
                .first_chunk_mut::<ROW_VALUES>()
                .expect("there is room for each row");
            let [first, second, third, fourth] = steps.map(|step| step[number]);
            for (half, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
                let found = together::<NARROW>([first[half], second[half], third[half], fourth[half]]);
                store(out, symbols.residuals(found, job.stream.escapes, &mut job.used.escapes));
            }
        }
    }
    for number in 0..JOBS {
        write_states(states[number], &mut jobs[number].states);
    }
}
