//! rANS, sixteen lanes to a vector. What a table has for a symbol or a slot is looked up in registers.

use std::arch::x86_64::*;

use super::vector::{load, load_part, store};
use crate::kernel::rans::{
    self, BUCKET, DecodeTable, ESCAPE, EncodeTable, Job, LIMIT, LOW, LOWEST, ROW, Room, SCALE_BITS, SHIFT,
    SLOTS, STEPS, SYMBOLS, States, TAIL, Used, WORD, WORD_BITS,
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

/// Numbers of 32 bits for each symbol.
#[derive(Clone, Copy)]
struct BySymbol([__m512i; 2]);

impl BySymbol {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn new(numbers: &[u32; SYMBOLS]) -> Self {
        let [first, second] = numbers.as_chunks().0 else { unreachable!("32 numbers are twice 16") };
        Self([vector_of(first), vector_of(second)])
    }

    /// Those of symbols, whose bits above the fifth are of no meaning.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn get(&self, symbols: __m512i) -> __m512i {
        _mm512_permutex2var_epi32(self.0[0], symbols, self.0[1])
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

/// See [`crate::kernel::Kernel::encode_rans`].
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn encode(
    residuals: &[u8],
    table: &EncodeTable,
    states: &mut States,
    room: &mut Room<'_>,
) -> Used {
    let (rows, tail) = residuals.as_chunks::<ROW>();
    let mut used = Used::default();
    rans::encode_rows(tail, table, states, room, &mut used);
    let (mut words, mut escapes) = (room.words.len() - WORD * used.words, room.escapes.len() - used.escapes);

    let mut symbol_of = [0; 64];
    for (number, symbol) in (0..=ESCAPE).zip(&mut symbol_of) {
        *symbol = table.frequencies.symbol(table.frequencies.start.wrapping_add(number));
    }
    let symbol_of = load(&symbol_of);
    let start = _mm512_set1_epi8(table.frequencies.start.cast_signed());
    let escape = _mm512_set1_epi8(ESCAPE.cast_signed());
    let (limit, reciprocal, step) =
        (BySymbol::new(&table.limit), BySymbol::new(&table.reciprocal), BySymbol::new(&table.step));
    let numbers = load(&bytes_of(&NUMBERS));
    let low_words = _mm512_add_epi16(numbers, numbers);
    let (low, below) = (_mm512_set1_epi32(LOW as i32), _mm512_set1_epi32((1 << LIMIT) - 1));
    let mut lanes = states_of(states);
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
        // The symbol of a step is in the lowest byte; others do not count.
        let [a, b] = symbols;
        for symbols in [
            [_mm512_srli_epi32::<24>(a), _mm512_srli_epi32::<24>(b)],
            [_mm512_srli_epi32::<16>(a), _mm512_srli_epi32::<16>(b)],
            [_mm512_srli_epi32::<8>(a), _mm512_srli_epi32::<8>(b)],
            [a, b],
        ] {
            let limits = [limit.get(symbols[0]), limit.get(symbols[1])];
            let first = _mm512_cmpge_epu32_mask(_mm512_or_si512(lanes[0], below), limits[0]);
            let second = _mm512_cmpge_epu32_mask(_mm512_or_si512(lanes[1], below), limits[1]);
            let out = u32::from(first) | u32::from(second) << 16;
            let count = out.count_ones();
            // The words that go out, at the end of a vector.
            let both = _mm512_permutex2var_epi16(lanes[0], low_words, lanes[1]);
            let turned = _mm512_add_epi16(numbers, _mm512_set1_epi16(count as i16));
            let both = _mm512_permutexvar_epi16(turned, _mm512_maskz_compress_epi16(out, both));
            store(room.words[..words].last_chunk_mut().expect("there is room in front of the words"), both);
            words -= WORD * count as usize;
            let parts = limits.into_iter().zip([first, second]).zip(symbols);
            for (state, ((limit, out), symbols)) in lanes.iter_mut().zip(parts) {
                let x = _mm512_mask_srli_epi32::<WORD_BITS>(*state, out, *state);
                let (reciprocal, step) = (reciprocal.get(symbols), step.get(symbols));
                let even = _mm512_srli_epi64::<32>(_mm512_mul_epu32(x, reciprocal));
                let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(x), _mm512_srli_epi64::<32>(reciprocal));
                let quotient = _mm512_mask_blend_epi32(0xaaaa, even, odd);
                let quotient = _mm512_srlv_epi32(quotient, _mm512_srli_epi32::<SHIFT>(step));
                let scaled = _mm512_mullo_epi32(quotient, _mm512_and_si512(step, low));
                *state = _mm512_add_epi32(_mm512_add_epi32(x, _mm512_and_si512(limit, low)), scaled);
            }
        }
    }
    write_states(lanes, states);
    Used { words: (room.words.len() - words) / WORD, escapes: room.escapes.len() - escapes }
}

fn bytes_of(numbers: &[u16; 32]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (bytes, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
        *bytes = number.to_le_bytes();
    }
    bytes
}

/// What slots are looked up in, if the table is narrow.
struct Lookup {
    buckets: [__m512i; 2],
    tail: [__m512i; 2],
    ends: BySymbol,
    places: BySymbol,
}

impl Lookup {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn new(table: &DecodeTable) -> Self {
        let halves = |bytes: &[u8; 128]| {
            let [first, second] = bytes.as_chunks().0 else { unreachable!("128 bytes are twice 64") };
            [*first, *second]
        };
        let ([a, b], [c, d]) = (halves(&table.buckets), halves(&table.tail));
        Self {
            buckets: [load(&a), load(&b)],
            tail: [load(&c), load(&d)],
            ends: BySymbol::new(&table.ends),
            places: BySymbol::new(&table.places),
        }
    }

    /// The ranks of the symbols that states stand for, in the lowest byte, and the states before they were coded.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    fn step(&self, states: __m512i) -> (__m512i, __m512i) {
        let slots = _mm512_and_si512(states, _mm512_set1_epi32(SLOTS as i32 - 1));
        // The upper bytes look up bucket 0, which has rank 0.
        let buckets = _mm512_srli_epi32::<{ BUCKET.ilog2() }>(slots);
        let ranks = _mm512_permutex2var_epi8(self.buckets[0], buckets, self.buckets[1]);
        let next = _mm512_cmpge_epu32_mask(slots, self.ends.get(ranks));
        let ranks = _mm512_mask_add_epi32(ranks, next, ranks, _mm512_set1_epi32(1));
        let in_tail = _mm512_cmpge_epu32_mask(slots, _mm512_set1_epi32((SLOTS - TAIL) as i32));
        let ranks_of_tail = _mm512_permutex2var_epi8(self.tail[0], slots, self.tail[1]);
        let ranks = _mm512_mask_mov_epi32(ranks, in_tail, ranks_of_tail);
        let places = self.places.get(ranks);
        let number = _mm512_sub_epi32(slots, _mm512_and_si512(places, _mm512_set1_epi32(0xffff)));
        let scaled =
            _mm512_mullo_epi32(_mm512_srli_epi32::<16>(places), _mm512_srli_epi32::<SCALE_BITS>(states));
        (ranks, _mm512_add_epi32(scaled, number))
    }
}

/// Lanes that are decoded, and where they are in their lists.
struct Lanes<'a> {
    states: [__m512i; 2],
    words: &'a [u8],
    used: Used,
}

impl Lanes<'_> {
    /// The ranks of the symbols of a step.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
    fn step(&mut self, lookup: &Lookup) -> [__m512i; 2] {
        let words = self.words.get(WORD * self.used.words..).unwrap_or_default();
        let words = match words.first_chunk() {
            Some(words) => load(words),
            None => load_part(words),
        };
        let lowest = _mm512_set1_epi32(LOWEST.cast_signed());
        let (first_ranks, first) = lookup.step(self.states[0]);
        let (second_ranks, second) = lookup.step(self.states[1]);
        let reads = [_mm512_cmplt_epu32_mask(first, lowest), _mm512_cmplt_epu32_mask(second, lowest)];
        let both = u32::from(reads[0]) | u32::from(reads[1]) << 16;
        let words = _mm512_maskz_expand_epi16(both, words);
        self.used.words += both.count_ones() as usize;
        let of_first = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(words));
        let of_second = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(words));
        self.states = [
            _mm512_mask_or_epi32(first, reads[0], _mm512_slli_epi32::<WORD_BITS>(first), of_first),
            _mm512_mask_or_epi32(second, reads[1], _mm512_slli_epi32::<WORD_BITS>(second), of_second),
        ];
        [first_ranks, second_ranks]
    }
}

/// What ranks stand for.
struct Symbols {
    residual_of: __m512i,
    escape: __m512i,
}

impl Symbols {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn new(table: &DecodeTable) -> Self {
        let mut residual_of = [0; 64];
        let mut escape = 0;
        for ((rank, symbol), residual) in (0..).zip(table.symbols).zip(&mut residual_of) {
            *residual = table.start.wrapping_add(symbol);
            if symbol == ESCAPE {
                escape = rank;
            }
        }
        Self { residual_of: load(&residual_of), escape: _mm512_set1_epi8(escape) }
    }

    /// The residuals of ranks; of those that are escapes the next ones.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
    fn residuals(&self, ranks: __m512i, escapes: &[u8], used: &mut usize) -> __m512i {
        let found = _mm512_permutexvar_epi8(ranks, self.residual_of);
        let escaped = _mm512_cmpeq_epi8_mask(ranks, self.escape);
        if escaped == 0 {
            return found;
        }
        let escapes = escapes.get(*used..).unwrap_or_default();
        *used += escaped.count_ones() as usize;
        _mm512_mask_expand_epi8(found, escaped, load_part(&escapes[..escapes.len().min(64)]))
    }
}

/// See [`crate::kernel::Kernel::decode_rans`].
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn decode(jobs: &mut [Job<'_>], table: &DecodeTable) {
    if !table.narrow {
        return rans::decode(jobs, table);
    }
    let (lookup, symbols) = (Lookup::new(table), Symbols::new(table));
    let (pairs, last) = jobs.as_chunks_mut::<2>();
    for jobs in pairs {
        let rows = jobs.iter().map(|job| job.residuals.len() / ROW).min().unwrap_or(0);
        decode_rows(jobs, 0..rows, &lookup, &symbols);
        for job in jobs {
            let all = job.residuals.len() / ROW;
            decode_rows(std::array::from_mut(job), rows..all, &lookup, &symbols);
            rans::decode_rows(job, all * ROW, table);
        }
    }
    for job in last {
        let all = job.residuals.len() / ROW;
        decode_rows(std::array::from_mut(job), 0..all, &lookup, &symbols);
        rans::decode_rows(job, all * ROW, table);
    }
}

/// Decodes these rows of some blocks side by side, so that none waits for the look-ups of another.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn decode_rows<const JOBS: usize>(
    jobs: &mut [Job<'_>; JOBS],
    rows: std::ops::Range<usize>,
    lookup: &Lookup,
    symbols: &Symbols,
) {
    let mut lanes = [const { None }; JOBS];
    for (lanes, job) in lanes.iter_mut().zip(&*jobs) {
        *lanes = Some(Lanes { states: states_of(&job.states), words: job.stream.words, used: job.used });
    }
    let mut lanes = lanes.map(|lanes| lanes.expect("there are lanes for each job"));
    for row in rows {
        let mut ranks = [[_mm512_setzero_si512(); 2]; JOBS];
        for step in 0..STEPS {
            for (lanes, ranks) in lanes.iter_mut().zip(&mut ranks) {
                let found = lanes.step(lookup);
                for (ranks, found) in ranks.iter_mut().zip(found) {
                    // Above the lowest byte of a rank is something.
                    *ranks = match step {
                        0 => found,
                        1 => _mm512_mask_blend_epi8(
                            0x2222_2222_2222_2222,
                            *ranks,
                            _mm512_slli_epi32::<8>(found),
                        ),
                        2 => _mm512_mask_blend_epi8(
                            0x4444_4444_4444_4444,
                            *ranks,
                            _mm512_slli_epi32::<16>(found),
                        ),
                        _ => _mm512_mask_blend_epi8(
                            0x8888_8888_8888_8888,
                            *ranks,
                            _mm512_slli_epi32::<24>(found),
                        ),
                    };
                }
            }
        }
        for ((job, lanes), ranks) in jobs.iter_mut().zip(&mut lanes).zip(&ranks) {
            let out =
                job.residuals[row * ROW..].first_chunk_mut::<ROW>().expect("there is room for each row");
            for (ranks, out) in ranks.iter().zip(out.as_chunks_mut().0) {
                store(out, symbols.residuals(*ranks, job.stream.escapes, &mut lanes.used.escapes));
            }
        }
    }
    for (job, lanes) in jobs.iter_mut().zip(lanes) {
        write_states(lanes.states, &mut job.states);
        job.used = lanes.used;
    }
}
