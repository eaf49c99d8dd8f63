//! One codec's work and nothing else, for tools that count the instructions of a process.
//!
//! `instructions SPEC LEVEL encode|decode TIMES`: codes 32 768 BF16 values, drawn from N(0, 0.02^2), that many times in the compact
//! layout. Two runs that differ in the number of times differ by the instructions of the work: `tools/neon instructions` counts them so.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an example may read its arguments")]

use std::error::Error;
use std::hint::black_box;

use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use zipwire_codec::{DType, Decoder, FrameShape, Layout, SimdLevel, Spec, force_simd};

const VALUES: usize = 1 << 15;

fn main() -> Result<(), Box<dyn Error>> {
    zipwire_paper_codecs::register();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [spec, level, work, times] = &arguments[..] else {
        return Err("usage: instructions SPEC LEVEL encode|decode TIMES".into());
    };
    force_simd(SimdLevel::from_name(level).ok_or("unknown level")?)?;
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let normal = Normal::new(0.0f32, 0.02).expect("the deviation is positive");
    // Rounded to nearest: the upper halves of FP32 values.
    let value = |x: f32| ((x.to_bits() + (1 << 15)) >> 16) as u16;
    let values: Vec<u8> = (0..VALUES).flat_map(|_| value(normal.sample(&mut rng)).to_le_bytes()).collect();

    let codec = spec.parse::<Spec>()?.codec();
    let shape = FrameShape::new(Layout::Compact, DType::Bf16, VALUES);
    let (mut frame, mut out) = (vec![1; codec.bound(shape)], vec![1; values.len()]);
    let mut encode = || codec.encode(Layout::Compact, DType::Bf16, black_box(&values), &mut [], &mut frame);
    let len = encode()?;
    let times: usize = times.parse()?;
    match work.as_str() {
        "encode" => {
            for _ in 0..times {
                encode()?;
            }
        }
        "decode" => {
            for _ in 0..times {
                Decoder::new().decode(
                    Layout::Compact,
                    DType::Bf16,
                    &[],
                    black_box(&frame[..len]),
                    &mut out,
                )?;
            }
            assert!(times == 0 || out == values, "{spec} is not lossless");
        }
        _ => return Err("the work is `encode` or `decode`".into()),
    }
    Ok(())
}
