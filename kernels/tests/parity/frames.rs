//! Values of many kinds, there and back.

use zipwire_codec::{DType, Spec};
use zipwire_emulation::Controls;
use zipwire_paper_codecs::Codebook;

use crate::Extent;
use crate::bench::{Bench, cpu_frame};
use crate::content::Content;

/// Every bit pattern of the type, several times and in several orders.
pub(crate) fn all_patterns(spec: &'static str, dtype: DType) {
    // Of F32 all upper halves, each with other lower ones: the lowest bits go through the multiples of an odd number.
    let (patterns, lower) = match dtype {
        DType::F32 => (1usize << 16, 16),
        _ => (1 << (8 * dtype.width()), 0),
    };
    let values = |step: usize| -> Vec<u8> {
        let of_lower = |i: usize| i.wrapping_mul(40_505) % (1 << lower);
        let pattern = |i: usize| (((i.wrapping_mul(step) % patterns) << lower) | of_lower(i)).to_le_bytes();
        (0..patterns.max(1 << 15)).flat_map(|i| pattern(i)[..dtype.width()].to_vec()).collect()
    };
    Bench::new(spec, dtype).twice().check(&[values(1), values(257), values(40_503)], "all patterns");
}

/// All kinds of values in lengths around those of groups, tiles and words; each batch has frames of several lengths.
pub(crate) fn every_content_and_length(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype);
    for (number, content) in Content::ALL.into_iter().enumerate() {
        let lens: &[usize] = extent.of(
            &[1, 13, 33, 1023, 8191, 8193],
            &[1, 2, 7, 12, 13, 31, 33, 255, 513, 1023, 1025, 1500, 5000, 8191, 8192, 8193, 20_011, 33_001],
        );
        let values: Vec<Vec<u8>> =
            lens.iter().map(|&count| content.values(dtype, count, (100 * number + count) as u64)).collect();
        bench.check(&values, &format!("{content:?}"));
    }
}

/// Many tiles, so that places in the dynamic section are sums over many, in frames of different lengths.
pub(crate) fn many_tiles(spec: &'static str, dtype: DType) {
    let kinds = [Content::Gaussian, Content::Rows, Content::SomeZeros];
    let values: Vec<Vec<u8>> = kinds
        .into_iter()
        .zip([400_000usize, 70_001, 8192 * 9])
        .map(|(content, count)| content.values(dtype, count, count as u64))
        .collect();
    Bench::new(spec, dtype).check(&values, "many tiles");
}

/// More frames in a launch than a grid has places for in its second dimension.
pub(crate) fn more_frames_than_a_grid(spec: &'static str, dtype: DType) {
    Bench::new(spec, dtype).check_many(65_536 + 1);
}

/// The bytes do not depend on the order in which threads and blocks come to run.
pub(crate) fn any_order(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype);
    let values: Vec<Vec<u8>> = [Content::Gaussian, Content::Rows, Content::Noise, Content::Special]
        .into_iter()
        .map(|content| content.values(dtype, 33_003, 5))
        .collect();
    in_orders(extent.of(1, 4), |seed| bench.check(&values, &format!("seed {seed}")));
}

/// Does something under so many orders of threads and blocks, by seed, every other one with delays.
pub(crate) fn in_orders(seeds: u64, check: impl Fn(u64)) {
    let Some(controls) = Controls::find() else { return };
    for seed in 1..=seeds {
        controls.set_seed(seed);
        controls.set_workers(1 + seed as u32 % 4);
        controls.set_delay_us(if seed % 2 == 0 { 200 } else { 0 });
        check(seed);
    }
    controls.set_seed(0);
    controls.set_workers(2);
    controls.set_delay_us(0);
}

/// Options change what an encoder chooses, never how frames are read.
pub(crate) fn other_options(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let options: &[&str] = match spec {
        "window7" => &["window7:scale=std", "window7:scale=mean-abs"],
        _ => &[],
    };
    for option in options {
        let codec = option.parse::<Spec>().unwrap().codec();
        let values = Content::ALL.map(|content| content.values(dtype, 20_011, 3));
        let frames = values.into_iter().map(|values| (cpu_frame(&*codec, dtype, &values), values));
        bench.check_decoding(frames.collect(), option);
    }
    if spec == "codebook16" {
        // A book that was calibrated to other values: many escapes, and whole chunks of them.
        for calibrated in [Content::Gaussian, Content::Rows, Content::Special] {
            let sample = calibrated.values(dtype, 5000, 7);
            let codec = Codebook::calibrate(dtype, [&sample[..]]).unwrap().codec();
            let values = Content::ALL.map(|content| content.values(dtype, 20_011, 3));
            let frames = values.into_iter().map(|values| (cpu_frame(&*codec, dtype, &values), values));
            bench.check_decoding(frames.collect(), &format!("a book of {calibrated:?}"));
        }
    }
}

/// Exponents with many values in every tier, so that a tier passes on more values than a block of threads takes at a time.
pub(crate) fn long_lists(spec: &'static str, dtype: DType) {
    let mantissa_bits = match dtype {
        DType::F32 => 23,
        DType::F16 => 10,
        DType::Bf16 => 7,
        DType::F8E4M3 => 3,
        DType::F8E5M2 => 2,
    };
    // Types of four and five bits have not so many exponents.
    let has_many = matches!(dtype, DType::Bf16 | DType::F32);
    let values = |spread: u32, number: u32| -> Vec<u8> {
        let value = |i: u32| {
            let noise = i.wrapping_add(number << 20).wrapping_mul(0x9e37_79b1) >> 8;
            // The largest of two, as there are more large exponents than small ones.
            let exponent = (noise % spread).max((noise >> 8) % spread) + number;
            (noise >> 16 & 1 | exponent << mantissa_bits).to_le_bytes()
        };
        (0..70_000).flat_map(|i| value(i)[..dtype.width()].to_vec()).collect()
    };
    let spreads = [4, 7, 9, 11, 12, 13, 14, 16];
    let all_values: Vec<Vec<u8>> =
        spreads.iter().zip(0..).map(|(spread, i)| values(*spread, i % 3)).collect();
    let bench = Bench::new(spec, dtype);
    for list in if has_many { 1..5 } else { 1..2 } {
        // Of the first block: values in tiers 2 to 4, and escapes.
        let at = 34 + 2 * list;
        let len = |values| u16::from_le_bytes(*bench.on_cpu(values).fixed[at..].first_chunk().unwrap());
        assert!(all_values.iter().any(|values| len(values) > 4096), "list {list} is long");
    }
    bench.check(&all_values, "long lists");
}
