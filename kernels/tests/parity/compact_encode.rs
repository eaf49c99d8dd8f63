//! Frames in the compact layout that the kernels write: what [`crate::bench::Bench::check`] does not have.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{DType, Spec};
use zipwire_emulation::Controls;
use zipwire_kernels::{Coder, GpuError};

use crate::Extent;
use crate::bench::Bench;
use crate::content::Content;

/// Values of a tile.
const TILE: usize = 8192;

/// Tiles of which nothing is zero, as many values as a mask needs to pay and one less or more, all but one, and all; in whole tiles and in a last one,
/// where the first of a frame has no other before it.
pub(crate) fn zeros(spec: &'static str, dtype: DType) {
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
    for tail in [0, 7, 1000, 5003] {
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

/// Frames of a few values and of many, of every kind, one behind the other, so that bodies and frames begin at every byte of a word and end at every one.
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

/// The bytes do not depend on the order in which threads and blocks come to run: also where tiles have masks, or are stored, one behind the other.
pub(crate) fn any_order(spec: &'static str, dtype: DType, extent: Extent) {
    let Some(controls) = Controls::find() else { return };
    let bench = Bench::new(spec, dtype).twice();
    let all_values: Vec<Vec<u8>> = Content::ALL.map(|content| content.values(dtype, 50_001, 8)).to_vec();
    for seed in 1..=extent.of(1, 6) {
        controls.set_seed(seed);
        controls.set_workers(1 + seed as u32 % 4);
        controls.set_delay_us(if seed % 2 == 0 { 200 } else { 0 });
        bench.check_compact_encoding(&all_values, &format!("seed {seed}"));
    }
    controls.set_seed(0);
    controls.set_workers(2);
    controls.set_delay_us(0);
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
