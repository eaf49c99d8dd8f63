//! Words of symbols by permutations of tables in registers, joined to pairs and fours by shifts of whole lanes.

use std::arch::x86_64::*;

use super::vector::{load, store};
use crate::kernel::four::{self, ShortWords};

/// Fours of a step.
const STEP_FOURS: usize = 16;

#[target_feature(enable = "avx512bw,avx512vbmi")]
pub(super) fn fours(words: &ShortWords, symbols: &[[u8; 4]], out: &mut [u64]) {
    let (steps, tail) = symbols.as_chunks::<STEP_FOURS>();
    let (rooms, room) = out.split_at_mut(out.len().min(STEP_FOURS * steps.len()));
    let (low, high) = (Table::new(&words.low), Table::new(&words.high));
    for (step, room) in steps.iter().zip(rooms.as_chunks_mut::<STEP_FOURS>().0) {
        let Some(symbols) = step.as_flattened().first_chunk() else { return };
        let symbols = load(symbols);
        let (low, high) = (low.get(symbols), high.get(symbols));
        // Of each 16 symbols the first and the last eight.
        let first = four_words(_mm512_unpacklo_epi8(low, high));
        let last = four_words(_mm512_unpackhi_epi8(low, high));
        let order = |base| {
            _mm512_setr_epi64(base, base + 1, base + 8, base + 9, base + 2, base + 3, base + 10, base + 11)
        };
        let mut bytes = [[0; 64]; 2];
        store(&mut bytes[0], _mm512_permutex2var_epi64(first, order(0), last));
        store(&mut bytes[1], _mm512_permutex2var_epi64(first, order(4), last));
        for (out, word) in room.iter_mut().zip(bytes.as_flattened().as_chunks().0) {
            *out = u64::from_le_bytes(*word);
        }
    }
    four::fours(words, tail, room);
}

/// A table of 256 bytes.
struct Table([__m512i; 4]);

impl Table {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn new(bytes: &[u8; 256]) -> Self {
        let [a, b, c, d] = bytes.as_chunks().0 else { unreachable!("256 bytes are four times 64") };
        Self([load(a), load(b), load(c), load(d)])
    }

    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    fn get(&self, indexes: __m512i) -> __m512i {
        let Self([a, b, c, d]) = self;
        let (lower, upper) =
            (_mm512_permutex2var_epi8(*a, indexes, *b), _mm512_permutex2var_epi8(*c, indexes, *d));
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(indexes), lower, upper)
    }
}

/// Entries of 16 bits, a word of 11 and its length above, to words of four of them with their length.
#[inline]
#[target_feature(enable = "avx512bw")]
fn four_words(entries: __m512i) -> __m512i {
    let word = _mm512_set1_epi32(0x7ff);
    let first = _mm512_and_si512(entries, word);
    let second = _mm512_and_si512(_mm512_srli_epi32::<16>(entries), word);
    let first_length = _mm512_and_si512(_mm512_srli_epi32::<12>(entries), _mm512_set1_epi32(15));
    let second_length = _mm512_srli_epi32::<28>(entries);
    let pairs = _mm512_or_si512(first, _mm512_sllv_epi32(second, first_length));
    let lengths = _mm512_add_epi32(first_length, second_length);
    let lower = _mm512_set1_epi64(0xffff_ffff);
    let first_length = _mm512_and_si512(lengths, lower);
    let words = _mm512_or_si512(
        _mm512_and_si512(pairs, lower),
        _mm512_sllv_epi64(_mm512_srli_epi64::<32>(pairs), first_length),
    );
    let lengths = _mm512_add_epi64(first_length, _mm512_srli_epi64::<32>(lengths));
    _mm512_or_si512(words, _mm512_slli_epi64::<{ four::LENGTH_AT }>(lengths))
}
