//! Damaged frames: a kernel stays within its regions, ends, and says so.

use std::fmt::Debug;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{DType, Spec};
use zipwire_kernels::Fault;
use zipwire_paper_codecs::Codebook;

use crate::Extent;
use crate::bench::{Bench, Frame, cpu_frame};
use crate::content::Content;

/// Frames with bits flipped anywhere, or where lengths and tables are. A frame that the CPU refuses is
/// reported, any other one gives the same values.
pub(crate) fn flipped_bits(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype);
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let kinds = [
        (Content::Gaussian, 20_011),
        (Content::Rows, 40_003),
        (Content::SomeZeros, 32_768),
        (Content::Noise, 20_011),
        (Content::Special, 33_000),
    ];
    for (content, count) in kinds {
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
        let frames: Vec<(Frame, usize)> = (0..extent.of(18, 150)).map(damaged).collect();
        for ((frame, len), found) in frames.iter().zip(bench.decode(&frames)) {
            agree(content, bench.decoded_on_cpu(frame, *len), found);
        }
    }
}

/// Asserts that the kernels report what the CPU refuses, and otherwise decode the same values.
#[track_caller]
pub(crate) fn agree(name: impl Debug, on_cpu: Option<Vec<u8>>, found: Result<Vec<u8>, Fault>) {
    match (on_cpu, found) {
        (None, Ok(_)) => panic!("{name:?}: damage goes unnoticed"),
        (Some(expected), Ok(found)) => assert!(found == expected, "{name:?}: other values"),
        (Some(_), Err(fault)) => panic!("{name:?}: {fault}, where the CPU sees nothing wrong"),
        (None, Err(_)) => {}
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
    // codebook16 has codes for all exponents of F8_E4M3, so nothing is left for the dynamic section.
    let is_static = spec == "codebook16" && dtype == DType::F8E4M3;
    assert_eq!(shorter.dynamic.pop().is_none(), is_static);
    if !is_static {
        assert_eq!(bench.decode(&[(shorter, values.len())]), [Err(Fault::Header)], "a byte is missing");
    }
    // The others of a batch are not touched by a bad one.
    let mut bad = whole.clone();
    bad.fixed[0] ^= 1;
    let found = bench.decode(&[(whole.clone(), values.len()), (bad, values.len()), (whole, values.len())]);
    assert_eq!(found, [Ok(values.clone()), Err(Fault::Header), Ok(values)]);
}

/// Lists of escapes and books that no encoder writes: each one is found by the kernels as by the CPU.
pub(crate) fn books_and_lists(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    // Exponents of two kinds, of which the book has one, so that some escapes are behind one another.
    let mut values = Content::Gaussian.values(dtype, 9000, 4);
    let width = dtype.width();
    for (i, value) in values.chunks_mut(width).enumerate() {
        if i % 400 < 3 {
            value[width - 1] = 0x7b;
        }
        if dtype == DType::F8E5M2 && i % 997 == 0 {
            value[0] = 0x04;
        }
    }
    let sample = Content::Gaussian.values(dtype, 9000, 4);
    let codec = Codebook::calibrate(dtype, [&sample[..]]).unwrap().codec();
    let whole = cpu_frame(&*codec, dtype, &values);
    assert_eq!(bench.decode(&[(whole.clone(), values.len())]), [Ok(values.clone())]);
    let refused = |change: &dyn Fn(&mut Frame), expected: Fault| {
        let mut frame = whole.clone();
        change(&mut frame);
        assert!(bench.decoded_on_cpu(&frame, values.len()).is_none(), "the CPU refuses it: {expected}");
        assert_eq!(bench.decode(&[(frame, values.len())]), [Err(expected)]);
    };
    refused(&|frame| frame.fixed.swap(32, 33), Fault::Book);
    refused(&|frame| frame.fixed[47] = frame.fixed[46], Fault::Book);
    if dtype != DType::Bf16 {
        refused(&|frame| frame.fixed[47] |= 0x80, Fault::Book);
    }
    if dtype == DType::F8E4M3 {
        return;
    }
    // Form, number of escapes and number of values of the first tile.
    refused(&|frame| frame.fixed[49] = 2, Fault::Tile);
    refused(&|frame| frame.fixed[48] = 3, Fault::Tile);
    refused(&|frame| frame.fixed[52] ^= 1, Fault::Tile);
    // Of the first tile's list: numbers of the chunks, then positions, then exponents.
    assert_eq!(whole.fixed[49], 1, "narrow");
    let escapes = usize::from(u16::from_le_bytes([whole.fixed[50], whole.fixed[51]]));
    assert!(whole.dynamic[0] > 1 && escapes > 2, "the first chunk has several");
    refused(&|frame| frame.dynamic[0] += 1, Fault::Codes);
    refused(&|frame| frame.dynamic.swap(32, 33), Fault::Codes);
    refused(&|frame| frame.dynamic[33] = frame.dynamic[32], Fault::Codes);
    if dtype == DType::F8E5M2 {
        refused(&|frame| frame.dynamic[32 + escapes] |= 0x20, Fault::Codes);
    }
}

/// Entries, bases, codes and escapes of tiered that no encoder writes, and what the kernels do not know: columns.
pub(crate) fn tiers(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    // Groups have bases in bytes or nibbles, or one for all of them.
    let has_byte = matches!(dtype, DType::Bf16 | DType::F32);
    let of_groups = if has_byte { 4 } else { 3 };
    for (content, form) in [(Content::Gaussian, 0), (Content::SomeZeros, 0), (Content::Rows, of_groups)] {
        // The values of the last group, of the last word of codes and of its last byte are not all there.
        let values = content.values(dtype, 32_768 + 9_321, 4);
        let whole = bench.on_cpu(&values);
        // The entries of the full block and of the other one.
        let (full, last) = (32, 44);
        assert_eq!((whole.fixed[full] & 15, whole.fixed[last] & 15), (form, form), "{content:?}: the form");
        let refused = |change: &dyn Fn(&mut Frame), expected: &[Fault]| {
            let mut frame = whole.clone();
            change(&mut frame);
            assert!(
                bench.decoded_on_cpu(&frame, values.len()).is_none(),
                "{content:?}: the CPU accepts {expected:?}"
            );
            let found = bench.decode(&[(frame, values.len())]).remove(0).expect_err("it is damaged");
            assert!(expected.contains(&found), "{content:?}: {found} instead of {expected:?}");
        };
        for entry in [full, last] {
            refused(&|frame| frame.fixed[entry] |= 0x80, &[Fault::Tile]);
            refused(&|frame| frame.fixed[entry] = 2, &[Fault::Tile]);
            refused(&|frame| frame.fixed[entry] = 0x30, &[Fault::Tile]);
            refused(&|frame| frame.fixed[entry] = 0x13, &[Fault::Tile]);
            refused(&|frame| frame.fixed[entry] = 1, &[Fault::Tile]);
            refused(&|frame| frame.fixed[entry] |= 0x40, &[Fault::Columns]);
            refused(&|frame| frame.fixed[entry + 1] = 255, &[Fault::Tile]);
            // Exponents that the type has not, other ones, and a base that is not used.
            let of_base = match has_byte {
                true if form == 0 => Fault::Checksum,
                true => Fault::Tile,
                false => Fault::Codes,
            };
            refused(&|frame| frame.fixed[entry + 1] = 254, &[of_base]);
            // Another number of values in tier 1, more escapes than values in tier 4, other numbers in tiers 2 and 3.
            refused(&|frame| frame.fixed[entry + 2] ^= 1, &[Fault::Tile]);
            refused(&|frame| frame.fixed[entry + 11] |= 0x80, &[Fault::Tile]);
            refused(&|frame| frame.fixed[entry + 4] ^= 1, &[Fault::Codes, Fault::Length]);
            refused(&|frame| frame.fixed[entry + 6] ^= 1, &[Fault::Codes, Fault::Length]);
        }
        // The last byte of the dynamic section fills up the escapes, if these are no multiple of eight.
        let escapes = u16::from_le_bytes([whole.fixed[last + 10], whole.fixed[last + 11]]);
        if !escapes.is_multiple_of(8) {
            refused(&|frame| *frame.dynamic.last_mut().unwrap() = 1, &[Fault::Codes]);
        }
        // So do the last byte of the rest of BF16, and the last bit of each plane of FP8.
        refused(&|frame| *frame.fixed.last_mut().unwrap() |= 0x80, &[Fault::Codes]);
    }
    if dtype == DType::F8E4M3 {
        return; // Its exponents are too few for columns to differ.
    }
    let codec = "tiered:row=8".parse::<Spec>().unwrap().codec();
    let values = Content::Columns.values(dtype, 40_000, 4);
    let frame = cpu_frame(&*codec, dtype, &values);
    assert!(frame.fixed[32] & 0x40 != 0, "there are offsets of columns");
    assert_eq!(bench.decode(&[(frame, values.len())]), [Err(Fault::Columns)]);
}
