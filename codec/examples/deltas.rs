//! Sizes and speeds of tensors as differences from the same tensors of another file, such as the checkpoint before.
//!
//! `cargo run --release -p zipwire-codec --example deltas -- BASE FILE...`: each file is compared with the one before it, safetensors all
//! of them. A line for each tensor of 8 KiB or more: raw bytes, share of the values that differ, and for every coding the size in percent of raw
//! and the speeds of one thread from the caches, the best of some repetitions, in GB/s of raw bytes. The tensor is repeated up to 1 MiB for
//! the speeds, so that headers count as in tensors of usual sizes.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example may read files and clocks"
)]

use std::error::Error;
use std::time::Instant;

use safetensors::SafeTensors;
use zipwire_codec::{
    Base, Codec, DType, Decoder, Delta, DeltaCoding, FrameShape, Layout, Planes, Rans, Tiered, simd_level,
};

const MIN_BYTES: usize = 8 << 10;
const SPEED_BYTES: usize = 1 << 20;
const REPETITIONS: usize = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    println!("level {}", simd_level());
    for pair in files.windows(2) {
        let [old, new] = pair else { continue };
        let (old, bytes) = (std::fs::read(old)?, std::fs::read(new)?);
        println!("{}", new.rsplit('/').next().unwrap_or(new));
        let (old, new) = (SafeTensors::deserialize(&old)?, SafeTensors::deserialize(&bytes)?);
        for (name, view) in new.tensors() {
            let known = DType::ALL.into_iter().find(|dtype| view.dtype().to_string() == dtype.name());
            let Some(dtype) = known.filter(|_| view.data().len() >= MIN_BYTES) else { continue };
            let Ok(base) = old.tensor(&name) else { continue };
            if base.shape() == view.shape() && base.dtype() == view.dtype() {
                print_tensor(&name, dtype, base.data(), view.data())?;
            }
        }
    }
    Ok(())
}

fn print_tensor(name: &str, dtype: DType, base: &[u8], values: &[u8]) -> Result<(), Box<dyn Error>> {
    let width = dtype.width();
    let differ = values.chunks(width).zip(base.chunks(width)).filter(|(value, base)| value != base).count();
    let changed = 100.0 * (differ * width) as f64 / values.len() as f64;
    print!("  {name:<24} {dtype} {:>9} changed {changed:6.2} %", values.len());
    let plain: [&dyn Codec; 3] = [&Rans::new(), &Tiered::new(), &Planes::new()];
    for (coding, plain) in DeltaCoding::ALL.into_iter().zip(plain) {
        let frame = Delta::new(coding, Base::new(dtype, base.to_vec())).encode_to_vec(
            Layout::Compact,
            dtype,
            values,
        )?;
        let alone = plain.encode_to_vec(Layout::Compact, dtype, values)?;
        let size = |frame: &[u8]| 100.0 * frame.len() as f64 / values.len() as f64;
        print!(" | {} {:6.2} % (alone {:6.2} %)", coding.id(), size(&frame), size(&alone));
        let times = SPEED_BYTES.div_ceil(values.len());
        let (base, values) = (Base::new(dtype, base.repeat(times)), values.repeat(times));
        let codec = Delta::new(coding, base.clone());
        let mut frame = vec![0; codec.bound(FrameShape::new(Layout::Compact, dtype, values.len() / width))];
        let mut decoder = Decoder::new();
        decoder.add_base(base)?;
        let mut out = vec![0; values.len()];
        let (mut encode, mut decode) = (f64::MAX, f64::MAX);
        for _ in 0..REPETITIONS {
            let start = Instant::now();
            let len = codec.encode(Layout::Compact, dtype, &values, &mut [], &mut frame)?;
            encode = encode.min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            decoder.decompress_into(&frame[..len], &mut out)?;
            decode = decode.min(start.elapsed().as_secs_f64());
        }
        assert!(out == values, "a frame must give back its values");
        let speed = |seconds: f64| values.len() as f64 / seconds / 1e9;
        print!(" {:5.2} / {:5.2} GB/s", speed(encode), speed(decode));
    }
    println!();
    Ok(())
}
