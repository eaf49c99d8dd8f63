//! Frames in the compact layout that the kernels write: what [`crate::bench::Bench::check`] does not have.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{DType, Spec};
use zipwire_kernels::{Coder, GpuError};

use crate::Extent;
use crate::bench::Bench;
use crate::content::Content;
use crate::frames::in_orders;

/// Values of a tile.
const TILE: usize = 8192;

/// Tiles with no zeros, with as many zeros as a mask needs to pay and one less or more, with all but one, and all; in whole tiles and in a last one,
/// where the first of a frame has no other before it.
pub(crate) fn zeros(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype).twice();
    let width = dtype.width();
    // Without zeros, but with values of an exponent 0: a zero is all of a value.
    let sound = |count: usize, seed: u64| {
        let mut values = Content::Gaussian.values(dtype, count, seed);
        for (i, value) in values.chunks_mut(width).enumerate() {
            if value.iter().all(|byte| *byte == 0) || i % 700 == 3 {
                value.fill(0);
                value[if i % 2 == 0 { 0 } else { width - 1 }] = 1 << (7 * (i % 2));
            }
        }
        values
    };
    for &tail in extent.of(&[1000][..], &[0, 7, 1000, 5003]) {
        let count = 4 * TILE + tail;
        let mut all_values = Vec::new();
        // Between one value in 8 and one in 40: codes and rests of a value take so many bits more than one of a mask.
        for zeros in (6..44).map(|part| TILE / part).chain([0, 1, 2, TILE - 2, TILE - 1, TILE]) {
            let mut values = sound(count, (tail + zeros) as u64);
            for (tile, values) in
                values.chunks_mut(width * TILE).enumerate().skip(usize::from(zeros % 2 == 0))
            {
                let of_tile = values.len() / width;
                // One more in every other tile; as many in proportion in the last one.
                let share = (zeros + tile % 2).min(TILE) * of_tile / TILE;
                for k in 0..share {
                    values[width * (k * of_tile / share)..][..width].fill(0);
                }
            }
            all_values.push(values);
        }
        bench.check_compact_encoding(&all_values, &format!("{tail} values behind"));
    }
}

/// Adjacent frames of few and of many values of every kind, so that bodies and frames begin and end at every byte of a word.
pub(crate) fn anywhere(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype);
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for round in 0..extent.of(1, 10) {
        let frame = |number: usize| {
            let count = match number % 8 {
                0 => rng.random_range(1..40_000),
                1..4 => rng.random_range(1..300),
                _ => rng.random_range(1..9000),
            };
            Content::ALL[rng.random_range(0..Content::ALL.len())].values(dtype, count, rng.random())
        };
        let all_values: Vec<Vec<u8>> = (0..64).map(frame).collect();
        bench.check_compact_encoding(&all_values, &format!("round {round}"));
    }
}

/// The bytes do not depend on the order in which threads and blocks run, also where tiles have masks or are stored, one after another.
pub(crate) fn any_order(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype).twice();
    let all_values: Vec<Vec<u8>> = Content::ALL.map(|content| content.values(dtype, 50_001, 8)).to_vec();
    in_orders(extent.of(1, 6), |seed| bench.check_compact_encoding(&all_values, &format!("seed {seed}")));
}

/// A region that is shorter than the longest frame, or begins where frames may not, is refused before anything is launched. What is as long is enough.
pub(crate) fn regions(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let count = 9001;
    let bound = bench.compact_bound(count);
    for (at, len, fits) in
        [(0, bound, true), (16, bound, true), (0, bound - 1, false), (8, bound, spec != "huffman")]
    {
        let found = bench.compact_encoder_at(count, at, len);
        match found {
            Ok(()) => assert!(fits, "{len} bytes at {at}"),
            Err(GpuError::Region { what: "a frame", found, needed, .. }) => {
                assert!(!fits && found == len, "{len} bytes at {at}");
                assert!(needed.contains(&format!("at least {bound} bytes")), "{needed}");
            }
            Err(other) => panic!("{len} bytes at {at}: {other}"),
        }
    }
}

/// Codecs whose compact frames are decoded only say so, with what there is instead.
pub(crate) fn refused(spec: &'static str, dtype: DType) {
    let parsed: Spec = spec.parse().unwrap();
    let error = Coder::check_compact(&parsed, dtype).unwrap_err();
    assert!(matches!(&error, GpuError::NoCompact { codec, .. } if *codec == spec));
    let text = error.to_string();
    assert!(text.contains(spec) && text.contains("help: ") && text.contains("`split`"), "{text}");
    Coder::check(&parsed, dtype).unwrap();
}

/// Values of a block of `tiered`, and of a group of it.
const BLOCK: usize = 32_768;
const GROUP: usize = 256;

/// Blocks of `tiered` of every form, whole and last ones: groups that are left out, alone and beside a mask; as many zeros as a mask needs to pay and one
/// less or more; bases of groups as nibbles and as bytes; and blocks of zeros and stored ones among them.
pub(crate) fn blocks(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype).twice();
    let width = dtype.width();
    let rest_bits = match dtype {
        DType::F16 => 11,
        DType::F8E4M3 => 4,
        DType::F8E5M2 => 3,
        DType::Bf16 | DType::F32 => 8 * width - 8,
    };
    // Groups that are left out, by their number in a frame.
    let left_out: [fn(usize) -> bool; 6] = [
        |_| false,
        |group| group == 0,
        |group| group % 3 == 1,
        |group| group % 128 >= 120,
        |group| group % 128 != 5,
        |group| group / 128 == 1,
    ];
    let mut forms = std::collections::BTreeSet::new();
    for &tail in extent.of(&[257][..], &[0, 1, 63, 256, 257, 5003]) {
        let mut all_values = Vec::new();
        for (number, left_out) in left_out.into_iter().enumerate() {
            for zeros in 0..4 {
                let content = [Content::Gaussian, Content::Rows, Content::Columns][(number + zeros) % 3];
                let mut values = content.values(dtype, 2 * BLOCK + tail, (10 * tail + number) as u64);
                // Nothing is zero but what is made so.
                for (i, value) in values.chunks_mut(width).enumerate() {
                    if value.iter().all(|byte| *byte == 0) {
                        value[0] = 1 + (i % 3) as u8;
                    }
                }
                if number == zeros {
                    values[..BLOCK * width].copy_from_slice(&Content::Noise.values(
                        dtype,
                        BLOCK,
                        number as u64,
                    ));
                }
                for (block, values) in values.chunks_mut(BLOCK * width).enumerate() {
                    let groups = values.chunks_mut(GROUP * width).enumerate();
                    let mut kept: Vec<&mut [u8]> = Vec::new();
                    for (group, values) in groups {
                        match left_out(block * BLOCK / GROUP + group) {
                            true => values.fill(0),
                            false => kept.extend(values.chunks_mut(width)),
                        }
                    }
                    // A mask pays from this many zeros on.
                    let count = kept.len();
                    let least = count / (16 + rest_bits) + 1;
                    let zeros = [0, least - 1, least, least + 1][zeros].min(count);
                    for k in 0..zeros {
                        kept[k * count / zeros].fill(0);
                    }
                }
                all_values.push(values);
            }
        }
        for values in &all_values {
            let entries = bench.compact_on_cpu(values)[32..].to_vec();
            forms.extend((0..values.len().div_ceil(BLOCK * width)).map(|block| entries[12 * block] & 0x8f));
        }
        bench.check_compact_encoding(&all_values, &format!("{tail} values behind"));
    }
    let expected: &[u8] = &[0x00, 0x80, 0x01, 0x02, 0x03, 0x83];
    assert!(expected.iter().all(|form| forms.contains(form)), "forms {forms:02x?}");
    let has_bytes = forms.contains(&0x04) && forms.contains(&0x84);
    assert!(has_bytes || dtype != DType::Bf16, "forms {forms:02x?}");
}
