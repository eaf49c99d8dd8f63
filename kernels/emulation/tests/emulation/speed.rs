//! A kernel that packs BF16 values: right, and how fast.

use std::time::Instant;

use crate::Test;
use crate::gpu::{Gpu, arg};

pub(crate) const TESTS: &[Test] = &[("speed::pack", pack)];

fn pack() {
    const TILES: usize = 4099;
    const BASE: u32 = 118;
    let value = |i: usize| {
        let hash = (i as u32).wrapping_mul(2_654_435_761);
        let exponent =
            if hash.is_multiple_of(50) { hash >> 16 & 0xff } else { BASE + hash.leading_zeros() % 7 };
        (hash >> 31 << 15 | exponent << 7 | (hash >> 3 & 0x7f)) as u16
    };
    let values: Vec<u16> = (0..TILES * 1024).map(value).collect();
    let near = |value: u16| u32::from(value >> 7 & 0xff).wrapping_sub(BASE).min(7);

    let gpu = Gpu::open(0);
    let input = gpu.upload(&values);
    let bytes = gpu.zeros::<u8>(values.len());
    let nibbles = gpu.zeros::<u32>(values.len() / 8);
    let far = gpu.zeros::<u32>(TILES);
    gpu.synchronize().unwrap();
    let start = Instant::now();
    let (mut base, mut tiles) = (BASE, TILES as u32);
    let mut parameters =
        [input.arg(), bytes.arg(), nibbles.arg(), far.arg(), arg(&mut base), arg(&mut tiles)];
    gpu.launch("pack", tiles.div_ceil(8), 256, 0, &mut parameters);
    gpu.synchronize().unwrap();
    let speed = input.bytes() as f64 / start.elapsed().as_secs_f64() / 1e6;
    eprintln!("pack: {speed:.0} MB/s of BF16 values");

    let expected: Vec<u8> = values.iter().map(|value| (value >> 8 & 0x80 | value & 0x7f) as u8).collect();
    assert!(gpu.download(&bytes) == expected, "signs and mantissas differ");
    // Eight values of a lane: even ones in the low half, odd ones in the high half.
    let word = |eight: &[u16]| {
        eight.iter().enumerate().fold(0, |word, (i, value)| word | near(*value) << (i / 2 * 4 + i % 2 * 16))
    };
    let expected: Vec<u32> = values.chunks(8).map(word).collect();
    assert!(gpu.download(&nibbles) == expected, "codes of exponents differ");
    let count = |tile: &[u16]| tile.iter().filter(|value| near(**value) == 7).count() as u32;
    let expected: Vec<u32> = values.chunks(1024).map(count).collect();
    assert_eq!(gpu.download(&far), expected);
}
