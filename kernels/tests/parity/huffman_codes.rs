//! Cases of the encoder of `huffman` only: the code of the CPU whatever the counts are, and blocks that end anywhere.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::DType;

use crate::Extent;
use crate::bench::{Bench, Frame};
use crate::forge::values_of;

const THREADS_AT: usize = 32;
const LENGTHS_AT: usize = 40;

/// Number of threads; 0 if exponents are stored.
fn threads(frame: &Frame) -> usize {
    u32::from_le_bytes(*frame.fixed[THREADS_AT..].first_chunk().unwrap()) as usize
}

/// The length of the longest word.
fn longest(frame: &Frame) -> u8 {
    let three = frame.fixed[LENGTHS_AT..].as_chunks::<3>().0[..64].iter();
    let four = three.map(|[a, b, c]| [a & 63, (a >> 6 | b << 2) & 63, (b >> 4 | c << 4) & 63, c >> 2]);
    four.flatten().max().unwrap()
}

/// The position of the last block.
fn last_position(frame: &Frame) -> u32 {
    u32::from_le_bytes(*frame.dynamic.last_chunk().unwrap())
}

/// Symbols that occur equally often, and packages that are as heavy as symbols: lengths depend on which of them comes first.
pub(crate) fn equal_counts(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut coded = 0;
    let mut all_values = Vec::new();
    for case in 0..80 {
        let symbols = [2, 3, 5, 17, 60, 200, 256][case % 7];
        let mut exponents = Vec::new();
        let first = rng.random_range(0..256);
        for symbol in 0..symbols {
            // Powers of two, all the same, or one of three.
            let times = match case % 4 {
                0 => 1 << rng.random_range(0..10),
                1 => 16,
                2 => 1 << (symbol % 11),
                _ => rng.random_range(1..4),
            };
            exponents.resize(exponents.len() + times, ((first + symbol * 91) % 256) as u8);
        }
        exponents.resize(exponents.len() + rng.random_range(0..4000), first as u8);
        // In any order.
        for at in (1..exponents.len()).rev() {
            exponents.swap(at, rng.random_range(0..=at));
        }
        let (values, _) = values_of(&exponents);
        coded += usize::from(threads(&bench.on_cpu(&values)) > 0);
        all_values.push(values);
    }
    assert!((40..80).contains(&coded), "{coded} frames have words, the others are stored");
    bench.check(&all_values, "equal counts");
}

/// Blocks of a frame, its last thread and its last tile end at every place of an octet, of a word of 32 bits and of a thread; the last thread
/// may have no word, and the last block no value.
pub(crate) fn ends_of_blocks(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let mut all_values = Vec::new();
    let mut without_values = 0;
    // Words of a bit, and of two: one in front, so that all that follow are moved by two bits, and some at the end.
    for count in (16_380..16_400).chain([16_447, 16_448, 16_449, 2 * 16_384 - 5, 2 * 16_384 + 65]) {
        for pairs in [0, 1, 2] {
            let exponents = [vec![7; pairs.min(1)], vec![100; count - 2 * pairs], vec![101; pairs]].concat();
            let (values, _) = values_of(&exponents);
            without_values += usize::from(last_position(&bench.on_cpu(&values)) == exponents.len() as u32);
            all_values.push(values);
        }
    }
    // Of equal exponents, frames around those that are too short for words.
    all_values
        .extend([9, 10, 11, 12, 24, 25, 26, 63, 64, 65, 8191, 8193].map(|len| values_of(&vec![3; len]).0));
    assert!(without_values >= 2, "{without_values} blocks have no value");
    bench.check(&all_values, "ends of blocks");
}

/// Counts as Fibonacci's numbers make the longest words. In order, so that all words of a tile are long and it ends several blocks. The whole form has
/// so many values that the limit of 32 bits binds.
pub(crate) fn long_words(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype);
    let symbols = extent.of(22, 35);
    let mut exponents: Vec<u8> = Vec::new();
    let (mut times, mut next) = (1, 1);
    for symbol in 0..symbols {
        exponents.resize(exponents.len() + times, (symbol * 7 % 256) as u8);
        (times, next) = (next, times + next);
    }
    let (values, _) = values_of(&exponents);
    assert_eq!(longest(&bench.on_cpu(&values)), extent.of(21, 32), "bits of the longest word");
    exponents.reverse();
    let reversed = values_of(&exponents).0;
    bench.check(&extent.of(vec![values.clone(), reversed], vec![values]), "long words");
}
