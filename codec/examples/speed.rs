//! Speed and size of all codecs on one core, beside `memcpy` in the same run.
//!
//! `cargo run --release -p zipwire-codec --example speed [FILE...]`: without files the values are drawn from
//! N(0, 0.02^2); a file holds little-endian BF16 values and nothing else. GB/s count raw bytes (10^9); the best of
//! several rounds over a buffer larger than the caches.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example may read clocks and files"
)]

use std::error::Error;
use std::time::Instant;

use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use zipwire_codec::{DType, Layout, Spec, decode};

const BYTES: usize = 64 << 20;
const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        return measure("N(0, 0.02^2)", &gaussian());
    }
    for file in files {
        let mut values = std::fs::read(&file)?;
        values.truncate(values.len() / 2 * 2);
        measure(&file, &values)?;
    }
    Ok(())
}

fn measure(name: &str, values: &[u8]) -> Result<(), Box<dyn Error>> {
    println!("{name}: {} values", values.len() / 2);
    if values.is_empty() {
        return Ok(());
    }
    // Small inputs are repeated, so that a round takes long enough to be measured.
    let repeats = (BYTES / values.len()).max(1);
    let mut out = vec![1; values.len()];
    let copy = best(values.len() * repeats, || {
        for _ in 0..repeats {
            std::hint::black_box(&mut out).copy_from_slice(std::hint::black_box(values));
        }
    });
    println!("  memcpy {copy:.2} GB/s");
    for text in ["raw", "window7", "window7:scale=std", "window7:scale=mean-abs"] {
        let codec = text.parse::<Spec>()?.codec();
        for layout in Layout::ALL {
            let count = values.len() / 2;
            let static_len = codec.static_len(layout, DType::Bf16, count);
            let mut static_section = vec![1; static_len];
            let mut dynamic_section = vec![1; codec.bound(layout, DType::Bf16, count) - static_len];
            let mut dynamic_len = 0;
            let encode_speed = best(values.len() * repeats, || {
                for _ in 0..repeats {
                    dynamic_len = codec
                        .encode(layout, DType::Bf16, values, &mut static_section, &mut dynamic_section)
                        .expect("the buffers have the lengths that the codec asks for");
                }
            });
            let dynamic_section = &dynamic_section[..dynamic_len];
            out.fill(1);
            let decode_speed = best(values.len() * repeats, || {
                for _ in 0..repeats {
                    decode(layout, DType::Bf16, &static_section, dynamic_section, &mut out)
                        .expect("the frame has just been encoded");
                }
            });
            assert!(out == values, "{text} in layout {layout} is not lossless");
            println!(
                "  {text:<23} {:<8} {:6.2} %  encode {encode_speed:5.2} GB/s  decode {decode_speed:5.2} GB/s",
                layout.name(),
                100.0 * (static_len + dynamic_len) as f64 / values.len() as f64,
            );
        }
    }
    Ok(())
}

/// GB/s of the fastest round.
fn best(bytes: usize, mut round: impl FnMut()) -> f64 {
    let seconds = (0..ROUNDS).map(|_| {
        let begin = Instant::now();
        round();
        begin.elapsed().as_secs_f64()
    });
    bytes as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e9
}

fn gaussian() -> Vec<u8> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let normal = Normal::new(0.0f32, 0.02).expect("the deviation is positive");
    let bf16 = |x: f32| (((x.to_bits() + 0x7fff + ((x.to_bits() >> 16) & 1)) >> 16) as u16).to_le_bytes();
    (0..BYTES / 2).flat_map(|_| bf16(normal.sample(&mut rng))).collect()
}
