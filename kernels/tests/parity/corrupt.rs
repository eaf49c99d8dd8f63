//! Damaged frames: a kernel stays within its regions, ends, and says so.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::DType;
use zipwire_kernels::Fault;

use crate::bench::{Bench, Frame};
use crate::content::Content;

/// Frames of which some bits are flipped, anywhere or where lengths and tables are. A frame that the CPU refuses is
/// reported, any other one gives the same values.
pub(crate) fn flipped_bits(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    for content in [Content::Gaussian, Content::Rows, Content::Noise, Content::Special] {
        let count = 20_011;
        let values = content.values(dtype, count, 4);
        let whole = bench.on_cpu(&values);
        let damaged = |number: usize| {
            let mut frame = whole.clone();
            for _ in 0..=number % 3 {
                let (fixed, dynamic) = (frame.fixed.len(), frame.dynamic.len());
                let near_front = fixed.min(256);
                let byte = match number % 4 {
                    0 => &mut frame.fixed[rng.random_range(0..near_front)],
                    1 if dynamic > 0 => &mut frame.dynamic[rng.random_range(0..dynamic)],
                    _ => &mut frame.fixed[rng.random_range(0..fixed)],
                };
                *byte ^= 1 << rng.random_range(0..8);
            }
            (frame, values.len())
        };
        let frames: Vec<(Frame, usize)> = (0..150).map(damaged).collect();
        for ((frame, len), found) in frames.iter().zip(bench.decode(&frames)) {
            match (bench.decoded_on_cpu(frame, *len), found) {
                (None, Ok(_)) => panic!("{content:?}: damage goes unnoticed"),
                (Some(expected), Ok(found)) => assert!(found == expected, "{content:?}: other values"),
                (Some(_), Err(fault)) => panic!("{content:?}: {fault}, where the CPU sees nothing wrong"),
                (None, Err(_)) => {}
            }
        }
    }
}

/// Each field of the header, and both lengths.
pub(crate) fn headers(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let values = Content::Noise.values(dtype, 10_000, 4);
    let whole = bench.on_cpu(&values);
    for (byte, expected) in
        [(0, Fault::Header), (4, Fault::Header), (5, Fault::Header), (6, Fault::Header), (7, Fault::Header)]
            .into_iter()
            .chain([(8, Fault::Header), (16, Fault::Header), (24, Fault::Checksum), (28, Fault::Header)])
    {
        let mut frame = whole.clone();
        frame.fixed[byte] ^= 1;
        assert_eq!(bench.decode(&[(frame, values.len())]), [Err(expected)], "byte {byte}");
    }
    let mut shorter = whole.clone();
    // The sixteen exponents of F8_E4M3 leave nothing to escape.
    assert_eq!(shorter.dynamic.pop().is_none(), dtype == DType::F8E4M3, "there are tiles that are stored");
    if dtype != DType::F8E4M3 {
        assert_eq!(bench.decode(&[(shorter, values.len())]), [Err(Fault::Header)], "a byte is missing");
    }
    // The others of a batch are not touched by a bad one.
    let mut bad = whole.clone();
    bad.fixed[0] ^= 1;
    let found = bench.decode(&[(whole.clone(), values.len()), (bad, values.len()), (whole, values.len())]);
    assert_eq!(found, [Ok(values.clone()), Err(Fault::Header), Ok(values)]);
}
