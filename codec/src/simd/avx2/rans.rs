//! rANS, eight lanes to a vector. What a table has for a symbol or a slot is gathered.

use std::arch::x86_64::*;

use super::vector::{bits, load, load_half, store, store_half};
use crate::kernel::rans::{
    self, Alphabet, BySymbol, DecodeTable, ESCAPE, EncodeTable, Job, LANE_VALUES, LANES, LIMIT, LOW, LOWEST,
    ROW_VALUES, Room, SCALE_BITS, SHIFT, SLOTS, States, Used, WORD, WORD_BITS,
};

/// Lanes of a vector, and vectors of all lanes.
const WIDTH: usize = 8;
const VECTORS: usize = LANES / WIDTH;

/// For each mask of lanes the lanes that it marks, at the end: the first numbers are of no meaning.
static AT_END: [[u8; WIDTH]; 256] = {
    let mut all = [[0; WIDTH]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut place) = (WIDTH, WIDTH);
        while lane > 0 {
            lane -= 1;
            if mask >> lane & 1 == 1 {
                place -= 1;
                all[mask][place] = lane as u8;
            }
        }
        mask += 1;
    }
    all
};

/// For each mask of lanes how many marked lanes are before each lane.
static BEFORE: [[u8; WIDTH]; 256] = {
    let mut all = [[0; WIDTH]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut before) = (0, 0);
        while lane < WIDTH {
            all[mask][lane] = before;
            before += (mask >> lane & 1) as u8;
            lane += 1;
        }
        mask += 1;
    }
    all
};

/// The numbers of a row as a vector.
#[inline]
#[target_feature(enable = "avx2")]
fn numbers(row: &[u8; WIDTH]) -> __m256i {
    _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(*row)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn states_of(states: &States) -> [__m256i; VECTORS] {
    let mut vectors = [_mm256_setzero_si256(); VECTORS];
    for (vector, states) in vectors.iter_mut().zip(states.as_chunks::<WIDTH>().0) {
        let mut bytes = [0; 32];
        for (bytes, state) in bytes.as_chunks_mut().0.iter_mut().zip(states) {
            *bytes = state.to_le_bytes();
        }
        *vector = load(&bytes);
    }
    vectors
}

#[inline]
#[target_feature(enable = "avx2")]
fn write_states(vectors: [__m256i; VECTORS], states: &mut States) {
    for (vector, states) in vectors.iter().zip(states.as_chunks_mut::<WIDTH>().0) {
        let mut bytes = [0; 32];
        store(&mut bytes, *vector);
        for (bytes, state) in bytes.as_chunks().0.iter().zip(states) {
            *state = u32::from_le_bytes(*bytes);
        }
    }
}

/// Entries by the lowest bits of numbers; others do not count.
#[inline]
#[target_feature(enable = "avx2")]
fn gather<const LEN: usize>(table: &[u32; LEN], numbers: __m256i) -> __m256i {
    const { assert!(LEN.is_power_of_two()) };
    let numbers = _mm256_and_si256(numbers, _mm256_set1_epi32(LEN as i32 - 1));
    // SAFETY: each number is below the length of the table, whose entries have the four bytes of the scale.
    unsafe { _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), numbers) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn encode_rans(
    codes: &[u8],
    table: &EncodeTable,
    states: &mut States,
    room: &mut Room<'_>,
) -> Used {
    let (rows, tail) = codes.as_chunks::<ROW_VALUES>();
    let mut used = Used::default();
    rans::encode_rows(tail, table, states, room, &mut used);
    let mut words = room.words.len() - WORD * used.words;
    let mut escapes = room.escapes.len() - used.escapes;
    let mut lanes = states_of(states);
    let alphabet = Symbols::new(&table.alphabet);
    for row in rows.iter().rev() {
        // A word of each lane has the symbols of its steps.
        let mut of_lanes = [_mm256_setzero_si256(); VECTORS];
        for (symbols, codes) in of_lanes.iter_mut().zip(row.as_chunks::<32>().0).rev() {
            let (found, mut escaped) = alphabet.symbols(load(codes));
            *symbols = found;
            while escaped != 0 {
                let place = escaped.ilog2();
                escapes -= 1;
                room.escapes[escapes] = codes[place as usize];
                escaped ^= 1 << place;
            }
        }
        for step in (0..LANE_VALUES).rev() {
            let shift = _mm_cvtsi32_si128(8 * step as i32);
            for (state, symbols) in lanes.iter_mut().zip(&of_lanes).rev() {
                let symbols = _mm256_srl_epi32(*symbols, shift);
                let (coded, out, count) = encode_step(*state, symbols, table);
                *state = coded;
                let room = room.words[..words].last_chunk_mut().expect("there is room in front of the words");
                store_half(room, out);
                words -= WORD * count;
            }
        }
    }
    write_states(lanes, states);
    Used { words: (room.words.len() - words) / WORD, escapes: room.escapes.len() - escapes }
}

/// Mapping of bytes to symbols.
struct Symbols {
    /// Whether the bytes are symbols already.
    joint: bool,
    start: __m256i,
    /// The symbols of the first 16 residuals, and of the others; in each half.
    of: [__m256i; 2],
}

impl Symbols {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(alphabet: &Alphabet) -> Self {
        let Alphabet::Residuals(frequencies) = alphabet else {
            return Self { joint: true, start: _mm256_setzero_si256(), of: [_mm256_setzero_si256(); 2] };
        };
        let of = [0, 16].map(|first: u8| {
            let symbol =
                |place: usize| frequencies.symbol(frequencies.start.wrapping_add(first + place as u8 % 16));
            load(&std::array::from_fn(symbol))
        });
        Self { joint: false, start: _mm256_set1_epi8(frequencies.start.cast_signed()), of }
    }

    /// The symbols, and a bit for each byte that is an escape.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn symbols(&self, codes: __m256i) -> (__m256i, u32) {
        if self.joint {
            return (codes, 0);
        }
        let escape = _mm256_set1_epi8(ESCAPE.cast_signed());
        let places = _mm256_min_epu8(_mm256_sub_epi8(codes, self.start), escape);
        let [low, high] = self.of.map(|symbols| _mm256_shuffle_epi8(symbols, places));
        let symbols = _mm256_blendv_epi8(low, high, _mm256_slli_epi16::<3>(places));
        (symbols, bits(_mm256_cmpeq_epi8(symbols, escape)))
    }
}

/// Codes a symbol of each lane: the states, and the words that go out, at the end of a vector, and their number.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn encode_step(states: __m256i, symbols: __m256i, table: &EncodeTable) -> (__m256i, __m128i, usize) {
    let get = |numbers: &BySymbol| gather(numbers, symbols);
    let (limit, reciprocal, step) = (get(&table.limit), get(&table.reciprocal), get(&table.step));
    let (low, below) = (_mm256_set1_epi32(LOW as i32), _mm256_set1_epi32((1 << LIMIT) - 1));
    let counts = _mm256_or_si256(states, below);
    let exceeds = _mm256_cmpeq_epi32(_mm256_max_epu32(counts, limit), counts);
    let mask = _mm256_movemask_ps(_mm256_castsi256_ps(exceeds)) as usize;
    let out = _mm256_permutevar8x32_epi32(states, numbers(&AT_END[mask]));
    let out = _mm256_and_si256(out, _mm256_set1_epi32(0xffff));
    let out = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(out, out));
    let x = _mm256_blendv_epi8(states, _mm256_srli_epi32::<{ WORD_BITS as i32 }>(states), exceeds);
    let even = _mm256_srli_epi64::<32>(_mm256_mul_epu32(x, reciprocal));
    let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(x), _mm256_srli_epi64::<32>(reciprocal));
    let quotient = _mm256_blend_epi32::<0b1010_1010>(even, odd);
    let quotient = _mm256_srlv_epi32(quotient, _mm256_srli_epi32::<{ SHIFT as i32 }>(step));
    let scaled = _mm256_mullo_epi32(quotient, _mm256_and_si256(step, low));
    let coded = _mm256_add_epi32(_mm256_add_epi32(x, _mm256_and_si256(limit, low)), scaled);
    (coded, _mm256_castsi256_si128(out), mask.count_ones() as usize)
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn decode_rans(jobs: &mut [Job<'_>], table: &DecodeTable) {
    let (pairs, last) = jobs.as_chunks_mut::<2>();
    for jobs in pairs {
        let rows = jobs.iter().map(|job| job.residuals.len() / ROW_VALUES).min().unwrap_or(0);
        decode_rows(jobs, 0..rows, table);
        jobs.iter_mut().for_each(|job| decode_end(job, rows, table));
    }
    last.iter_mut().for_each(|job| decode_end(job, 0, table));
}

/// Decodes what is behind some rows.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn decode_end(job: &mut Job<'_>, rows: usize, table: &DecodeTable) {
    let all = job.residuals.len() / ROW_VALUES;
    decode_rows(std::array::from_mut(job), rows..all, table);
    rans::decode_rows(job, all * ROW_VALUES, table);
}

/// Bytes of the words that a row reads at most, and half a vector behind them.
const ROW_WORD_BYTES: usize = WORD * ROW_VALUES + 16;

/// Decodes these rows of some blocks side by side, so that none waits for the look-ups of another.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn decode_rows<const JOBS: usize>(
    jobs: &mut [Job<'_>; JOBS],
    rows: std::ops::Range<usize>,
    table: &DecodeTable,
) {
    let mut states = [[_mm256_setzero_si256(); VECTORS]; JOBS];
    for number in 0..JOBS {
        states[number] = states_of(&jobs[number].states);
    }
    let start = _mm256_set1_epi8(table.start.cast_signed());
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
        let mut symbols = [[_mm256_setzero_si256(); VECTORS]; JOBS];
        for step in 0..LANE_VALUES {
            let shift = _mm_cvtsi32_si128(8 * step as i32);
            for vector in 0..VECTORS {
                for number in 0..JOBS {
                    let (found, next) =
                        decode_step(states[number][vector], table, words[number], &mut read[number]);
                    states[number][vector] = next;
                    let found = _mm256_sll_epi32(found, shift);
                    symbols[number][vector] = _mm256_or_si256(symbols[number][vector], found);
                }
            }
        }
        for (job, (read, symbols)) in jobs.iter_mut().zip(read.iter().zip(&symbols)) {
            job.used.words += read / WORD;
            let out = job.residuals[row * ROW_VALUES..]
                .first_chunk_mut::<ROW_VALUES>()
                .expect("there is room for each row");
            for (symbols, out) in symbols.iter().zip(out.as_chunks_mut::<32>().0) {
                store(out, _mm256_add_epi8(*symbols, start));
                let Some(escape) = table.escape else { continue };
                let mut escaped = bits(_mm256_cmpeq_epi8(*symbols, _mm256_set1_epi8(escape.cast_signed())));
                while escaped != 0 {
                    let place = escaped.trailing_zeros() as usize;
                    out[place] = job.stream.escapes.get(job.used.escapes).copied().unwrap_or(0);
                    job.used.escapes += 1;
                    escaped &= escaped - 1;
                }
            }
        }
    }
    for (job, states) in jobs.iter_mut().zip(states) {
        write_states(states, &mut job.states);
    }
}

/// Decodes a symbol of each lane: the symbols, and the states before they were coded. `words` are those of the row, of which `read`
/// bytes have been read.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn decode_step(
    states: __m256i,
    table: &DecodeTable,
    words: &[u8; ROW_WORD_BYTES],
    read: &mut usize,
) -> (__m256i, __m256i) {
    let found = gather(&table.slots, states);
    let less_1 = _mm256_and_si256(_mm256_srli_epi32::<8>(found), _mm256_set1_epi32(SLOTS as i32 - 1));
    let quotient = _mm256_srli_epi32::<{ SCALE_BITS as i32 }>(states);
    let scaled = _mm256_add_epi32(_mm256_mullo_epi32(less_1, quotient), quotient);
    let next = _mm256_add_epi32(scaled, _mm256_srli_epi32::<20>(found));
    // States have 31 bits, so they are not negative.
    let reads = _mm256_cmpgt_epi32(_mm256_set1_epi32(LOWEST.cast_signed()), next);
    let mask = _mm256_movemask_ps(_mm256_castsi256_ps(reads)) as usize;
    let words = load_half(words[*read..].first_chunk().expect("a vector reads half a vector at most"));
    let words = _mm256_permutevar8x32_epi32(_mm256_cvtepu16_epi32(words), numbers(&BEFORE[mask]));
    *read += WORD * mask.count_ones() as usize;
    let with_words = _mm256_or_si256(_mm256_slli_epi32::<{ WORD_BITS as i32 }>(next), words);
    let symbols = _mm256_and_si256(found, _mm256_set1_epi32(0xff));
    (symbols, _mm256_blendv_epi8(next, with_words, reads))
}
