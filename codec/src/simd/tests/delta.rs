//! Differences from a base, and values that differ, against the portable kernels.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::kernels;
use crate::kernel::delta::{BitReader, BitWriter, How, JoinFrom, LOW_BYTES, SplitMut};
use crate::kernel::{Kernel, PORTABLE};

/// Values of a base, and others of which some are near, some the same, and some anything.
fn pairs(width: usize, count: usize, seed: u64) -> [Vec<u8>; 2] {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let near = 8 * width as u32 - 1;
    let pair = |_| {
        let base: u32 = if rng.random_range(0..20) == 0 { rng.random_range(0..3) } else { rng.random() };
        // Mostly of about the same exponent.
        let base =
            if rng.random_range(0..4) > 0 && width > 1 { base & 0x83ff_03ff | 0x3c00_3c00 } else { base };
        let value = match rng.random_range(0..8) {
            0 => base,
            1 => rng.random(),
            _ => base.wrapping_add(rng.random::<u32>() >> rng.random_range(32 - near..32)),
        };
        [base, value]
    };
    let pairs: Vec<[u32; 2]> = (0..count).map(pair).collect();
    [0, 1].map(|number| {
        pairs.iter().flat_map(|pair| pair[number].to_le_bytes().into_iter().take(width)).collect()
    })
}

/// All that a kernel makes of values.
#[derive(Debug, PartialEq)]
struct Made {
    symbols: Vec<u8>,
    bytes: Vec<u8>,
    words: Vec<u8>,
    large: Vec<u8>,
}

fn split(kernel: &Kernel, width: usize, how: How, [base, values]: [&[u8]; 2]) -> Made {
    let count = values.len() / width;
    let (mut symbols, room) = (vec![0xee; count], LOW_BYTES * count + 64);
    let (mut bytes, mut words, mut large) =
        (vec![0xee; room], vec![0xee; room], vec![0xee; values.len() + 64]);
    let mut out = SplitMut {
        symbols: &mut symbols,
        bytes: &mut bytes,
        bytes_len: 0,
        bits: BitWriter::new(&mut words),
        large: &mut large,
        large_len: 0,
    };
    (kernel.delta_split)(width, values, base, how, &mut out);
    let (bytes_len, words_len, large_len) = (out.bytes_len, out.bits.finish(), out.large_len);
    bytes.truncate(bytes_len);
    words.truncate(words_len);
    large.truncate(large_len);
    Made { symbols, bytes, words, large }
}

/// The values, and whether nothing was missing and nothing is left.
fn join(kernel: &Kernel, width: usize, how: How, base: &[u8], made: &Made) -> (Vec<u8>, bool) {
    let mut from = JoinFrom {
        symbols: &made.symbols,
        bytes: &made.bytes,
        bits: BitReader::new(made.words.as_chunks().0),
        large: &made.large,
        failed: false,
    };
    let mut out = vec![0xee; base.len()];
    (kernel.delta_join)(width, base, how, &mut from, &mut out);
    let at_end = from.bytes.is_empty() && from.large.is_empty() && from.bits.is_at_end();
    (out, !from.failed && at_end)
}

#[test]
fn differences_are_those_of_the_portable_kernel_and_come_back() {
    let counts = [0, 1, 63, 64, 65, 640, 1000];
    let counts = counts.iter().filter(|count| !cfg!(miri) || [65].contains(*count));
    for (seed, count) in (0..).zip(counts) {
        for (width, mantissa, last_exponent) in
            [(1, 3, 15), (1, 2, 31), (2, 7, 255), (2, 10, 31), (4, 23, 255)]
        {
            let [base, values] = pairs(width, *count, seed);
            let references =
                [0, 5, 15, 31, 121, 130, 255].into_iter().filter(|number| *number <= last_exponent);
            let references = references.filter(|number| width > 1 || *number == 0);
            for (reference, less) in references.flat_map(|reference| [(reference, 0), (reference, 1)]) {
                for xor in [false, true] {
                    let how = How { mantissa, last_exponent, reference, xor, less };
                    let made = split(&PORTABLE, width, how, [&base, &values]);
                    assert_eq!(join(&PORTABLE, width, how, &base, &made), (values.clone(), true), "{how:?}");
                    for kernel in kernels() {
                        assert_eq!(split(kernel, width, how, [&base, &values]), made, "{how:?}");
                        assert_eq!(join(kernel, width, how, &base, &made), (values.clone(), true), "{how:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_missing_too_much_or_too_large_is_noticed() {
    let how = How { mantissa: 7, last_exponent: 255, reference: 125, xor: false, less: 0 };
    let [base, values] = pairs(2, 640, 9);
    let damages: [fn(&mut Made); 7] = [
        |made| _ = made.bytes.pop(),
        |made| made.bytes.push(0),
        |made| made.words.truncate(made.words.len() - 8),
        |made| made.words.extend([0; 8]),
        |made| made.large.truncate(made.large.len() - 2),
        |made| made.large.extend([0; 2]),
        |made| made.large.fill(0xff),
    ];
    let good = || split(&PORTABLE, 2, how, [&base, &values]);
    assert!(!good().words.is_empty() && !good().large.is_empty());
    for (number, damage) in damages.into_iter().enumerate() {
        let mut made = good();
        if number == 0 && made.bytes.is_empty() {
            continue;
        }
        damage(&mut made);
        for kernel in kernels().chain([&PORTABLE]) {
            assert!(!join(kernel, 2, how, &base, &made).1, "damage {number}");
        }
    }
}

#[test]
fn values_that_differ_are_found_taken_out_and_put_back() {
    for (width, count) in
        [1, 2, 4].into_iter().flat_map(|width| [0, 1, 31, 64, 65, 999].map(|count| (width, count)))
    {
        let [base, values] = pairs(width, count, 3);
        let made = |kernel: &Kernel| {
            let mut mask = vec![0xee; count.div_ceil(8)];
            let changed = (kernel.changes)(width, &values, &base, &mut mask);
            let mut kept = vec![0xee; values.len() + 64];
            (kernel.gather)(width, &mask, &values, &mut kept);
            let mut back = base.clone();
            (kernel.scatter)(width, &mask, &kept, &mut back);
            assert!(back == values);
            kept.truncate(changed * width);
            (changed, mask, kept)
        };
        let expected = made(&PORTABLE);
        let differ =
            values.chunks(width).zip(base.chunks(width)).filter(|(value, base)| value != base).count();
        assert_eq!(expected.0, differ);
        for kernel in kernels() {
            assert_eq!(made(kernel), expected);
        }
    }
}
