//! Frames in the compact layout, which the CPU writes and the kernels read: those of files and of held weights.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::DType;
use zipwire_kernels::{Fault, GpuError};

use crate::Extent;
use crate::bench::Bench;
use crate::content::Content;
use crate::corrupt::agree;

/// The kernels read these values out of the CPU's frames, all in one launch.
fn check(bench: &Bench, all_values: &[Vec<u8>], context: &str) {
    let frames: Vec<_> =
        all_values.iter().map(|values| (bench.compact_on_cpu(values), values.len())).collect();
    for (number, (found, expected)) in bench.decode_compact(&frames).into_iter().zip(all_values).enumerate() {
        let what = format!("{context}, frame {number} of {} bytes", expected.len());
        assert!(&found.unwrap_or_else(|fault| panic!("{what}: {fault}")) == expected, "{what}: other values");
    }
}

/// All kinds of values in lengths around those of groups and tiles, and of every remainder, so that what follows them lies at every byte of
/// a word.
pub(crate) fn every_content_and_length(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype).twice();
    let lens = [1, 13, 33, 1023, 5000, 5001, 5002, 5003, 8191, 8193, 20_011, 33_004];
    for (number, content) in Content::ALL.into_iter().enumerate() {
        let values = |&count: &usize| content.values(dtype, count, (100 * number + count) as u64);
        check(&bench, &lens.iter().map(values).collect::<Vec<_>>(), &format!("{content:?}"));
    }
}

/// The matrices of a transformer block and longer ones, under several orders of threads.
pub(crate) fn many_frames(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let counts = [64 * 64, 64 * 16, 64 * 16 + 1, 64 * 64, 64 * 224, 64 * 224 + 3, 224 * 64, 64, 63, 200_003];
    let values = counts.iter().zip(0..).map(|(count, seed)| Content::Gaussian.values(dtype, *count, seed));
    let values: Vec<Vec<u8>> = values.collect();
    if let Some(controls) = zipwire_emulation::Controls::find() {
        for seed in [3, 0] {
            controls.set_seed(seed);
            check(&bench, &values, &format!("a transformer block, seed {seed}"));
        }
    } else {
        check(&bench, &values, "a transformer block");
    }
}

/// Each field of the header, both lengths, and a frame of the other layout.
pub(crate) fn headers(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let values = Content::Gaussian.values(dtype, 10_001, 4);
    let whole = bench.compact_on_cpu(&values);
    let refused = |expected: Fault, what: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = whole.clone();
        change(&mut frame);
        assert!(bench.compact_decoded_on_cpu(&frame, values.len()).is_none(), "{what}, on the CPU");
        assert_eq!(bench.decode_compact(&[(frame, values.len())]), [Err(expected)], "{what}");
    };
    for byte in [0, 4, 5, 6, 7, 8, 16, 28] {
        refused(Fault::Header, &format!("byte {byte}"), &|frame| frame[byte] ^= 1);
    }
    refused(Fault::Checksum, "the checksum", &|frame| frame[24] ^= 1);
    refused(Fault::Header, "a byte is missing", &|frame| frame.truncate(frame.len() - 1));
    refused(Fault::Header, "a byte too many", &|frame| frame.push(0));
    let mut bad = whole.clone();
    bad[0] ^= 1;
    let found = bench.decode_compact(&[
        (whole.clone(), values.len()),
        (bad, values.len()),
        (whole.clone(), values.len()),
    ]);
    assert_eq!(found, [Ok(values.clone()), Err(Fault::Header), Ok(values.clone())]);
    let split = bench.on_cpu(&values);
    let split = [split.fixed, split.dynamic].concat();
    assert_eq!(bench.decode_compact(&[(split, values.len())]), [Err(Fault::Header)]);
}

/// Frames of which some bits are flipped. One that the CPU refuses is reported, any other one gives the same values.
pub(crate) fn flipped_bits(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype);
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    let kinds = [
        (Content::Gaussian, 20_011),
        (Content::Rows, 40_002),
        (Content::SomeZeros, 32_769),
        (Content::Noise, 20_012),
        (Content::Special, 33_000),
    ];
    for (content, count) in kinds {
        let values = content.values(dtype, count, 4);
        let whole = bench.compact_on_cpu(&values);
        let damaged = |number: usize| {
            let mut frame = whole.clone();
            let len = frame.len();
            for _ in 0..=number % 3 {
                let byte = match number % 4 {
                    0 => rng.random_range(0..256),
                    1 => rng.random_range(len - 100..len),
                    _ => rng.random_range(0..len),
                };
                frame[byte] ^= 1 << rng.random_range(0..8);
            }
            (frame, values.len())
        };
        let frames: Vec<_> = (0..extent.of(18, 150)).map(damaged).collect();
        for ((frame, len), found) in frames.iter().zip(bench.decode_compact(&frames)) {
            agree(content, bench.compact_decoded_on_cpu(frame, *len), found);
        }
    }
}

/// A codec without such kernels says so.
pub(crate) fn is_refused(spec: &'static str, dtype: DType) {
    let error = Bench::new(spec, dtype).compact_error().unwrap();
    assert!(matches!(error, GpuError::NoCompact { codec } if codec == spec), "{error}");
    assert!(error.to_string().contains("\nhelp: there are some for `huffman`"), "{error}");
}
