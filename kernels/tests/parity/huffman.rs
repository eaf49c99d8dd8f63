//! Cases of `huffman` only: codes of any lengths, blocks that begin and end anywhere, an index that contradicts the
//! words.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::DType;
use zipwire_emulation::Controls;
use zipwire_kernels::Fault;

use crate::bench::{Bench, Frame};
use crate::content::Content;
use crate::forge::{Forged, values_of};

/// Lengths 1, 2, ... `longest`, and once more the last one.
fn lengths_to(longest: u8) -> [u8; 256] {
    let mut lengths = [0; 256];
    // Exponents anywhere among all.
    (1..=longest)
        .chain([longest])
        .zip((0..).map(|at| at * 91 % 256))
        .for_each(|(length, at)| lengths[at] = length);
    lengths
}

/// Exponents that have words of these lengths: a word of `n` bits with probability `2^-n`, or any of them once in `rare`.
fn exponents_of(lengths: &[u8; 256], count: usize, rare: u32, seed: u64) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut coded: Vec<u8> = (0..=255).filter(|exponent| lengths[usize::from(*exponent)] > 0).collect();
    coded.sort_by_key(|exponent| lengths[usize::from(*exponent)]);
    let mut next = || match rng.random_range(0..rare) {
        0 => coded[rng.random_range(0..coded.len())],
        _ => {
            let mut left = rng.random::<f64>();
            let found = coded.iter().find(|exponent| {
                left -= 0.5f64.powi(i32::from(lengths[usize::from(**exponent)]));
                left < 0.0
            });
            *found.unwrap_or(&coded[0])
        }
    };
    (0..count).map(|_| next()).collect()
}

/// Codes with words of up to 1 to 32 bits, and one with 127 prefixes of eight bits that have longer words behind them.
pub(crate) fn words_of_every_length(spec: &'static str, dtype: DType) {
    let mut codes: Vec<[u8; 256]> =
        [1, 2, 7, 8, 10, 11, 12, 13, 16, 17, 22, 23, 31, 32].map(lengths_to).to_vec();
    codes.push(std::array::from_fn(|exponent| match exponent {
        30 => 1,
        31 => 8,
        _ => 9,
    }));
    let bench = Bench::new(spec, dtype);
    let frames = codes.iter().zip(0..).flat_map(|(lengths, seed)| {
        [9, 40].map(|rare| {
            let exponents = exponents_of(lengths, 9000 + seed as usize, rare, seed);
            let (values, rests) = values_of(&exponents);
            let frame = Forged::new(*lengths, &exponents, rests).frame(&values);
            assert!(bench.decoded_on_cpu(&frame, values.len()).as_ref() == Some(&values), "the CPU reads it");
            (frame, values)
        })
    });
    bench.check_decoding(frames.collect(), "words of every length");
}

/// Values of words of one bit, and of two at the end, so that blocks end at every place of an octet, of a thread and of a tile; the last
/// thread may have no word, and the last block no value.
pub(crate) fn ends_of_blocks(spec: &'static str, dtype: DType) {
    let mut lengths = [0; 256];
    (lengths[100], lengths[101], lengths[7]) = (1, 2, 2);
    let bench = Bench::new(spec, dtype);
    let mut frames = Vec::new();
    let mut add = |exponents: &[u8]| {
        let (values, rests) = values_of(exponents);
        let forged = Forged::new(lengths, exponents, rests);
        let frame = forged.frame(&values);
        assert!(bench.decoded_on_cpu(&frame, values.len()).as_ref() == Some(&values), "the CPU reads it");
        frames.push((frame, values));
        forged
    };
    let mut without_values = 0;
    for bits in (16_384..16_400).chain([16_447, 16_448, 16_449, 2 * 16_384 + 1, 2 * 16_384 + 65]) {
        for pairs in 0..3 {
            let exponents = [vec![100; bits - 2 * pairs], vec![101; pairs]].concat();
            let forged = add(&exponents);
            without_values += usize::from(forged.positions.last() == Some(&(exponents.len() as u32)));
        }
    }
    // Pairs that move the beginning of the second block to any place of an octet.
    for pairs in 1..20 {
        add(&[vec![101; pairs], vec![100; 20_000]].concat());
    }
    assert!(without_values >= 2, "{without_values} blocks have no value");
    bench.check_decoding(frames, "ends of blocks");
}

/// The matrices of a transformer block, each a frame, in one launch: one kernel that opens them and one that decodes.
pub(crate) fn many_frames(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    // Queries, keys, values, output, gate, up, down, and the norms.
    let counts = [64 * 64, 64 * 16, 64 * 16, 64 * 64, 64 * 224, 64 * 224, 224 * 64, 64, 64];
    let frames: Vec<(Frame, Vec<u8>)> = counts
        .iter()
        .zip(0..)
        .map(|(count, seed)| {
            let values = Content::Gaussian.values(dtype, *count, seed);
            (bench.on_cpu(&values), values)
        })
        .collect();
    let before = Controls::find().map(|controls| controls.launches());
    bench.check_decoding(frames, "a transformer block");
    // Older forms have other launches.
    let is_usual = std::env::var_os("ZIPWIRE_KERNELS").is_none();
    if let (Some(controls), Some(before), true) = (Controls::find(), before, is_usual) {
        assert_eq!(controls.launches() - before, 3, "kernels of the launch");
    }
}

/// Fault that the kernels report for a frame of these values.
fn fault_of(bench: &Bench, frame: Frame, values: &[u8]) -> Option<Fault> {
    bench.decode(&[(frame, values.len())])[0].as_ref().err().copied()
}

/// Contradictory indices and words. Each frame has a right checksum, so only the check of that part can find it.
pub(crate) fn contradictions(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let lengths = lengths_to(12);
    let exponents = exponents_of(&lengths, 30_000, 40, 1);
    let (values, rests) = values_of(&exponents);
    let whole = Forged::new(lengths, &exponents, rests);
    assert!(whole.positions.len() > 3, "there are blocks in the middle");
    assert_eq!(bench.decode(&[(whole.frame(&values), values.len())]), [Ok(values.clone())]);
    let refused = |what: &str, on_cpu: bool, expected: Fault, change: &dyn Fn(&mut Forged)| {
        let mut forged = whole.clone();
        change(&mut forged);
        let frame = forged.frame(&values);
        assert_eq!(bench.decoded_on_cpu(&frame, values.len()).is_none(), on_cpu, "{what}, on the CPU");
        assert_eq!(fault_of(&bench, frame, &values), Some(expected), "{what}");
    };
    refused("no first block", true, Fault::Positions, &|forged| forged.positions[0] = 1);
    refused("a block before another", true, Fault::Positions, &|forged| forged.positions[2] = 1);
    refused("a block behind all", true, Fault::Positions, &|forged| forged.positions[2] = 30_001);
    refused("a block far behind all", true, Fault::Positions, &|forged| forged.positions[1] = u32::MAX);
    refused("a value too many", true, Fault::Words, &|forged| forged.positions[2] += 1);
    refused("a value too few", true, Fault::Words, &|forged| forged.positions[1] -= 1);
    refused("another first bit of a block", true, Fault::Words, &|forged| forged.gaps[256] ^= 1);
    refused("a late first bit", true, Fault::Words, &|forged| forged.gaps[0] = 31);
    // The CPU reads blocks from their beginning, whatever the gaps of their threads are.
    refused("another first bit of a thread", false, Fault::Words, &|forged| forged.gaps[300] ^= 1);
    let last = whole.words.len() - 1;
    let used = whole.words.iter().rposition(|byte| *byte != 0).unwrap();
    assert!(used < last, "the last thread is not full");
    refused("filling that is not zero", true, Fault::Words, &|forged| forged.words[last] = 0x80);
    refused("a bit that is another word", true, Fault::Words, &|forged| forged.words[700] ^= 1);
    refused("a thread too many", true, Fault::Words, &|forged| {
        forged.threads += 1;
        forged.gaps.push(0);
        forged.words.extend([0; 8]);
    });
    refused("a block too many", true, Fault::Words, &|forged| {
        forged.gaps.resize(256 * forged.positions.len() + 1, 0);
        forged.positions.push(30_000);
        forged.threads = forged.gaps.len() as u32;
        forged.words.resize(8 * forged.gaps.len(), 0);
    });
    refused("fewer threads than there are", true, Fault::Length, &|forged| forged.threads -= 1);
    refused("more threads than bytes can have", true, Fault::Length, &|forged| forged.threads = u32::MAX);
    refused("no thread", true, Fault::Positions, &|forged| {
        (forged.threads, forged.words, forged.gaps, forged.positions) = (0, vec![], vec![], vec![]);
    });
    refused("an exponent without a word", true, Fault::Lengths, &|forged| forged.lengths[0] = 0);
    refused("too many words", true, Fault::Lengths, &|forged| forged.lengths[3] = 2);
    refused("a word of 33 bits", true, Fault::Lengths, &|forged| forged.lengths[0] = 33);
    refused("no words", true, Fault::Lengths, &|forged| forged.lengths = [0; 256]);
    // Words of two bits, all the same: from another bit on there are as many, and the same ones.
    let mut same = [0; 256];
    same[..4].fill(2);
    let (zeros, rests) = values_of(&[0; 20_000]);
    let aligned = Forged::new(same, &[0; 20_000], rests);
    for (thread, on_cpu) in [(256, true), (300, false)] {
        let mut forged = aligned.clone();
        forged.gaps[thread] = 1;
        let frame = forged.frame(&zeros);
        assert_eq!(bench.decoded_on_cpu(&frame, zeros.len()).is_none(), on_cpu, "thread {thread}");
        assert_eq!(fault_of(&bench, frame, &zeros), Some(Fault::Words), "thread {thread}");
    }
    let mut reserved = whole.frame(&values);
    reserved.fixed[36] = 1;
    assert_eq!(fault_of(&bench, reserved, &values), Some(Fault::Padding));
}

/// Frames whose index, words or lengths are anything at some places, with a checksum that fits; and the values that they are made of.
fn hostile(seed: u64) -> (Vec<Forged>, Vec<u8>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let lengths = lengths_to(20);
    let exponents = exponents_of(&lengths, 25_000 + seed as usize, 30, 2);
    let (values, rests) = values_of(&exponents);
    let whole = Forged::new(lengths, &exponents, rests);
    let frame = |number| {
        let mut forged = whole.clone();
        for _ in 0..=number % 3 {
            let (gaps, positions) = (forged.gaps.len(), forged.positions.len());
            match rng.random_range(0..6) {
                0 => forged.gaps[rng.random_range(0..gaps)] = rng.random_range(0..32),
                1 => forged.positions[rng.random_range(0..positions)] = rng.random_range(0..30_000),
                2 => forged.positions[rng.random_range(0..positions)] = rng.random(),
                3 => forged.lengths.swap(rng.random_range(0..256), 0),
                4 => forged.words.iter_mut().skip(rng.random_range(0..5000)).for_each(|byte| *byte = !*byte),
                _ => forged.words[rng.random_range(0..5000)] = rng.random(),
            }
        }
        forged
    };
    ((0..120).map(frame).collect(), values)
}

/// The kernels report at least what the CPU refuses; what they do not report are the CPU's values.
fn assert_reported(on_cpu: impl Iterator<Item = Option<Vec<u8>>>, found: Vec<Result<Vec<u8>, Fault>>) {
    let mut reported = 0;
    for (expected, found) in on_cpu.zip(found) {
        match (expected, found) {
            (None, Ok(_)) => panic!("damage goes unnoticed"),
            (Some(expected), Ok(found)) => assert!(found == expected, "other values"),
            (_, Err(_)) => reported += 1,
        }
    }
    assert!(reported > 100, "{reported}");
}

/// The kernels end and stay within the regions, whatever is in a frame.
pub(crate) fn hostile_frames(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let (forged, values) = hostile(6);
    let frames: Vec<_> = forged.iter().map(|forged| (forged.frame(&values), values.len())).collect();
    assert_reported(
        frames.iter().map(|(frame, len)| bench.decoded_on_cpu(frame, *len)),
        bench.decode(&frames),
    );
}

/// Hostile compact frames, whose words lie at any byte.
pub(crate) fn hostile_compact_frames(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    for seed in [7, 8, 9] {
        let (forged, values) = hostile(seed);
        let frames: Vec<_> = forged.iter().map(|forged| (forged.compact(&values), values.len())).collect();
        assert_reported(
            frames.iter().map(|(frame, len)| bench.compact_decoded_on_cpu(frame, *len)),
            bench.decode_compact(&frames),
        );
    }
}
