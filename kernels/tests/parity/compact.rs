//! Frames in the compact layout, which the CPU writes and the kernels read: those of files and of held weights.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{Codec, DType, Layout, Spec};
use zipwire_kernels::Fault;

use crate::Extent;
use crate::bench::Bench;
use crate::content::Content;
use crate::corrupt::agree;

/// All kinds of values in lengths around those of groups and tiles, and of every remainder, so that what follows them lies at every byte of
/// a word.
pub(crate) fn every_content_and_length(spec: &'static str, dtype: DType) {
    let (bench, codec) = (Bench::new(spec, dtype).twice(), spec.parse::<Spec>().unwrap().codec());
    let lens = [1, 33, 5000, 5001, 5002, 5003, 33_004];
    for (number, content) in Content::ALL.into_iter().enumerate() {
        let values = |&count: &usize| content.values(dtype, count, (100 * number + count) as u64);
        let values: Vec<_> = lens.iter().map(values).collect();
        bench.check_compact(&*codec, &values, &format!("{content:?}"));
    }
}

/// The matrices of a transformer block and longer ones, under several orders of threads.
pub(crate) fn many_frames(spec: &'static str, dtype: DType) {
    let (bench, codec) = (Bench::new(spec, dtype), spec.parse::<Spec>().unwrap().codec());
    let counts = [64 * 64, 64 * 16, 64 * 16 + 1, 64 * 64, 64 * 224, 64 * 224 + 3, 224 * 64, 64, 63, 200_003];
    let values = counts.iter().zip(0..).map(|(count, seed)| Content::Gaussian.values(dtype, *count, seed));
    let values: Vec<Vec<u8>> = values.collect();
    if let Some(controls) = zipwire_emulation::Controls::find() {
        for seed in [3, 0] {
            controls.set_seed(seed);
            bench.check_compact(&*codec, &values, &format!("a transformer block, seed {seed}"));
        }
    } else {
        bench.check_compact(&*codec, &values, "a transformer block");
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

/// Frames with flipped bits. One that the CPU refuses is reported, any other one gives the same values.
pub(crate) fn flipped_bits(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype);
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    let kinds = [
        (Content::Gaussian, 20_011),
        (Content::Rows, 40_002),
        (Content::SomeZeros, 32_769),
        (Content::Noise, 20_012),
        (Content::Special, 33_000),
        (Content::Sums, 33_001),
        (Content::Columns, 9000),
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

/// Every bit of short frames, one at a time: also of what fills up parts, where nothing else says so. The first group is all zeros.
pub(crate) fn every_bit(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype);
    for (content, count) in [(Content::SomeZeros, 101), (Content::Gaussian, 37), (Content::Sums, 41)] {
        let zeros = if matches!(content, Content::SomeZeros) { 256 } else { 0 };
        let mut values = vec![0; zeros * dtype.width()];
        values.extend(content.values(dtype, count, 6));
        let whole = bench.compact_on_cpu(&values);
        let bits = (0..8 * whole.len()).step_by(extent.of(29, 1));
        let flipped = |bit: usize| {
            let mut frame = whole.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            (frame, values.len())
        };
        let frames: Vec<_> = bits.clone().map(flipped).collect();
        for (((frame, len), bit), found) in frames.iter().zip(bits).zip(bench.decode_compact(&frames)) {
            agree((content, bit), bench.compact_decoded_on_cpu(frame, *len), found);
        }
    }
}

/// Offsets of columns, in rows of several lengths, with and without masks; and such as no encoder writes.
pub(crate) fn columns(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let mut has_offsets = 0;
    for row in [7, 300] {
        let codec = format!("{spec}:row={row}").parse::<Spec>().unwrap().codec();
        // Columns that differ in scale, wherever rows begin and end; and zeros among them.
        let of_rows = |zeros: bool| -> Vec<u8> {
            let width = dtype.width();
            let mut out = Content::Gaussian.values(dtype, 20_003, row);
            let scaled = Content::Columns.values(dtype, 1500, row);
            for (i, value) in out.chunks_mut(width).enumerate() {
                let column = i % row as usize;
                if column % 3 == 1 {
                    value.copy_from_slice(&scaled[width * (8 * (i % 180) + 3)..][..width]);
                }
                if zeros && i % 5 == 2 {
                    value.fill(0);
                }
            }
            out
        };
        let all_values = [of_rows(false), of_rows(true), Content::Columns.values(dtype, 20_000, row)];
        bench.check_compact(&*codec, &all_values, &format!("rows of {row}"));
        for values in &all_values {
            let whole = codec.encode_to_vec(Layout::Compact, dtype, values).unwrap();
            if whole[32] & 0x40 == 0 {
                continue;
            }
            has_offsets += 1;
            // Behind an entry and what fills it up.
            let damaged: Vec<_> = (0..8 * 16)
                .step_by(13)
                .map(|bit| {
                    let mut frame = whole.clone();
                    frame[48 + bit / 8] ^= 1 << (bit % 8);
                    (frame, values.len())
                })
                .collect();
            for ((frame, len), found) in damaged.iter().zip(bench.decode_compact(&damaged)) {
                agree(row, bench.compact_decoded_on_cpu(frame, *len), found);
            }
        }
    }
    assert!(has_offsets > 2 || dtype == DType::F8E4M3, "{has_offsets} frames have offsets");
}

/// Byte planes of F32 in every form, with and without a mask; and damaged ones.
pub(crate) fn planes_of_every_form(spec: &'static str) {
    let (bench, codec) = (Bench::new(spec, DType::F32), spec.parse::<Spec>().unwrap().codec());
    let noise = |i: u32| i.wrapping_mul(0x9e37_79b1);
    let few = |i: u32| noise(i).leading_zeros() * 3 + 7;
    let kinds: [fn(u32, u32, u32) -> u32; 6] = [
        |noise, _, _| noise,
        |noise, _, _| noise & 0x7fff_ffff,
        |noise, _, _| noise & 0xffff_0000 | 0x1234,
        |noise, _, i| if i.is_multiple_of(9) { noise } else { noise & 0xffff_ff00 },
        |noise, few, _| noise & 0xff00_0000 | few << 16 | few << 8 | few,
        |noise, few, i| if i % 40 == 3 { noise } else { noise & 0xff7f_0000 | few << 8 },
    ];
    let mut forms = [0; 5];
    for (number, kind) in kinds.into_iter().enumerate() {
        for zeros in [false, true] {
            let value = |i: u32| {
                // Some exponents only.
                let value = kind(noise(i + 1) & 0x83ff_ffff, few(i) & 0xff, i) | 0x3c00_0000;
                if zeros && noise(i) % 5 == 0 { 0 } else { value }
            };
            let values: Vec<u8> = (0..35_001).flat_map(|i| value(i).to_le_bytes()).collect();
            let frame = bench.compact_on_cpu(&values);
            // In `rans`, a table may be in front of the rest, and codes are behind it.
            let has_table = [32, 44].iter().any(|entry: &usize| frame[*entry] & 0x30 == 0x30);
            let forms_at = 56
                + if spec == "tiered" {
                    8192
                } else if has_table {
                    56
                } else {
                    0
                };
            if !zeros {
                assert_eq!(frame[32] & 15, 0, "the first block has one base");
                (0..3).for_each(|plane| forms[usize::from(frame[forms_at + 4 * plane])] += 1);
            }
            bench.check_compact(&*codec, std::slice::from_ref(&values), &format!("planes of kind {number}"));
            // Around the forms, and where the last block's planes end.
            let len = frame.len();
            let near = (forms_at..forms_at + 48).chain(len - 200..len).step_by(7);
            let damaged: Vec<_> = near
                .map(|byte| {
                    let mut frame = frame.clone();
                    frame[byte] ^= 1 << (byte % 8);
                    (frame, values.len())
                })
                .collect();
            for ((frame, len), found) in damaged.iter().zip(bench.decode_compact(&damaged)) {
                agree((number, zeros), bench.compact_decoded_on_cpu(frame, *len), found);
            }
        }
    }
    assert!(forms.iter().all(|times| *times > 0), "{forms:?}");
}
