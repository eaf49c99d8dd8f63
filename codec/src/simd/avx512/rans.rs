//! rANS, sixteen lanes to a vector. What a table has for a symbol or a slot is looked up in registers.

use std::arch::x86_64::*;

use super::vector::{load, load_part, store};
use crate::kernel::rans::{
    self, BUCKET, DecodeTable, ESCAPE, EncodeTable, LANES, LOWEST, Room, SCALE_BITS, SLOTS, SYMBOLS, States,
    Stream, TAIL, Used, WORD, WORD_BITS,
};

/// Values that are taken at a time: two steps.
const BOTH: usize = 2 * LANES;
/// The numbers from 0 on, modulo 32.
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

/// The four parts of sixteen bytes each, as numbers of 32 bits.
#[inline]
#[target_feature(enable = "avx512bw")]
fn widened(bytes: __m512i) -> [__m512i; 4] {
    [
        _mm512_cvtepu8_epi32(_mm512_castsi512_si128(bytes)),
        _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32::<1>(bytes)),
        _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32::<2>(bytes)),
        _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32::<3>(bytes)),
    ]
}

/// See [`crate::kernel::Kernel::encode_rans`].
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn encode(
    residuals: &[u8],
    table: &EncodeTable,
    states: &mut States,
    room: &mut Room<'_>,
) -> Used {
    let (steps, tail) = residuals.as_chunks::<BOTH>();
    let mut used = Used::default();
    rans::encode_steps(tail, table, states, room, &mut used);
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
    let mask = _mm512_set1_epi32(0x1fff);
    let mut lanes = states_of(states);
    for residuals in steps.iter().rev() {
        let residuals = load(residuals);
        let symbols = _mm512_min_epu8(_mm512_sub_epi8(residuals, start), escape);
        let symbols = _mm512_permutexvar_epi8(symbols, symbol_of);
        let escaped = _mm512_cmpeq_epi8_mask(symbols, escape);
        if escaped != 0 {
            let count = escaped.count_ones() as usize;
            let bytes = _mm512_maskz_compress_epi8(escaped, residuals);
            let mut in_front = [0; 64];
            store(&mut in_front, bytes);
            room.escapes[escapes - count..escapes].copy_from_slice(&in_front[..count]);
            escapes -= count;
        }
        let [a, b, c, d] = widened(symbols);
        for symbols in [[c, d], [a, b]] {
            let [first, second] =
                [0, 1].map(|half| _mm512_cmpge_epu32_mask(lanes[half], limit.get(symbols[half])));
            let out = u32::from(first) | u32::from(second) << 16;
            let halves = [_mm512_cvtepi32_epi16(lanes[0]), _mm512_cvtepi32_epi16(lanes[1])];
            let both = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(halves[0]), halves[1]);
            let count = out.count_ones();
            // The words that go out, at the end of a vector.
            let turned = _mm512_add_epi16(numbers, _mm512_set1_epi16(count as i16));
            let both = _mm512_permutexvar_epi16(turned, _mm512_maskz_compress_epi16(out, both));
            store(room.words[..words].last_chunk_mut().expect("there is room in front of the words"), both);
            words -= WORD * count as usize;
            for ((state, out), symbols) in lanes.iter_mut().zip([first, second]).zip(&symbols) {
                let x = _mm512_mask_srli_epi32::<WORD_BITS>(*state, out, *state);
                let (reciprocal, step) = (reciprocal.get(*symbols), step.get(*symbols));
                let even = _mm512_srli_epi64::<32>(_mm512_mul_epu32(x, reciprocal));
                let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(x), _mm512_srli_epi64::<32>(reciprocal));
                let quotient = _mm512_mask_blend_epi32(0xaaaa, even, odd);
                let quotient = _mm512_srlv_epi32(quotient, _mm512_srli_epi32::<26>(step));
                let bias = _mm512_and_si512(_mm512_srli_epi32::<13>(step), mask);
                let rest = _mm512_mullo_epi32(quotient, _mm512_and_si512(step, mask));
                *state = _mm512_add_epi32(_mm512_add_epi32(x, bias), rest);
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

/// See [`crate::kernel::Kernel::decode_rans`].
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn decode(
    stream: Stream<'_>,
    table: &DecodeTable,
    states: &mut States,
    residuals: &mut [u8],
) -> Used {
    if !table.narrow {
        return rans::decode(stream, table, states, residuals);
    }
    let lookup = Lookup::new(table);
    let mut residual_of = [0; 64];
    let mut escape = 0;
    for ((rank, symbol), residual) in (0..).zip(table.symbols).zip(&mut residual_of) {
        *residual = table.start.wrapping_add(symbol);
        if symbol == ESCAPE {
            escape = rank;
        }
    }
    let (residual_of, escape) = (load(&residual_of), _mm512_set1_epi8(escape));
    let lowest = _mm512_set1_epi32(LOWEST.cast_signed());
    let mut used = Used::default();
    let mut lanes = states_of(states);
    let (steps, tail) = residuals.as_chunks_mut::<BOTH>();
    for residuals in steps {
        let mut ranks = [_mm_setzero_si128(); 4];
        for ranks in ranks.as_chunks_mut::<2>().0 {
            let words = stream.words.get(WORD * used.words..).unwrap_or_default();
            let words = match words.first_chunk() {
                Some(words) => load(words),
                None => load_part(words),
            };
            let (first_ranks, first) = lookup.step(lanes[0]);
            let (second_ranks, second) = lookup.step(lanes[1]);
            *ranks = [_mm512_cvtepi32_epi8(first_ranks), _mm512_cvtepi32_epi8(second_ranks)];
            let reads = [_mm512_cmplt_epu32_mask(first, lowest), _mm512_cmplt_epu32_mask(second, lowest)];
            let both = u32::from(reads[0]) | u32::from(reads[1]) << 16;
            let words = _mm512_maskz_expand_epi16(both, words);
            used.words += both.count_ones() as usize;
            let of_first = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(words));
            let of_second = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(words));
            lanes = [
                _mm512_mask_or_epi32(first, reads[0], _mm512_slli_epi32::<WORD_BITS>(first), of_first),
                _mm512_mask_or_epi32(second, reads[1], _mm512_slli_epi32::<WORD_BITS>(second), of_second),
            ];
        }
        let [a, b, c, d] = ranks;
        let ranks = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
        let ranks = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(ranks, c), d);
        let mut found = _mm512_permutexvar_epi8(ranks, residual_of);
        let escaped = _mm512_cmpeq_epi8_mask(ranks, escape);
        if escaped != 0 {
            let escapes = stream.escapes.get(used.escapes..).unwrap_or_default();
            let escapes = load_part(&escapes[..escapes.len().min(64)]);
            found = _mm512_mask_expand_epi8(found, escaped, escapes);
            used.escapes += escaped.count_ones() as usize;
        }
        store(residuals, found);
    }
    write_states(lanes, states);
    rans::decode_steps(stream, table, states, tail, &mut used);
    used
}
