//! Cost of short and long chunks in a container: `cargo run --release -p zipwire-codec --example chunks`.
//!
//! Gaussian BF16 values, one thread. Speeds are those of the fastest of several rounds, in which all lengths take turns, so
//! that what else the machine does falls on all of them.

#![allow(clippy::disallowed_types, reason = "examples may look at the clock")]

use std::error::Error;
use std::io::{Cursor, Read, Write};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use zipwire_codec::{DType, Reader, SeekReader, WriterOptions};

const VALUES: usize = 1 << 25;
const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let normal = Normal::new(0.0_f32, 0.02).map_err(|_| "the deviation is positive")?;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let data: Vec<u8> =
        (0..VALUES).flat_map(|_| ((normal.sample(&mut rng).to_bits() >> 16) as u16).to_le_bytes()).collect();
    let chunks: Vec<u32> = (13..=23).map(|bits| 1 << bits).collect();
    let mut fastest = vec![[Duration::MAX; 3]; chunks.len()];
    let (mut container, mut out) = (Vec::new(), Vec::new());
    let mut lens = vec![0; chunks.len()];
    for _ in 0..ROUNDS {
        for ((chunk_values, fastest), len) in chunks.iter().zip(&mut fastest).zip(&mut lens) {
            container.clear();
            out.clear();
            let mut clock = |what: usize, begin: Instant| fastest[what] = fastest[what].min(begin.elapsed());
            let options = WriterOptions::new(DType::Bf16).chunk_values(*chunk_values).chunks_at_once(1);
            let begin = Instant::now();
            let mut writer = options.open(&mut container)?;
            writer.write_all(&data)?;
            writer.finish()?;
            clock(0, begin);
            let begin = Instant::now();
            Reader::new(&container[..]).chunks_at_once(1).read_to_end(&mut out)?;
            clock(1, begin);
            assert!(out == data);
            let mut reader = SeekReader::new(Cursor::new(&container))?;
            let begin = Instant::now();
            reader.read_range(1 << 20..(1 << 20) + 1)?;
            clock(2, begin);
            *len = container.len();
        }
    }
    println!("values per chunk   size, %   write, GB/s   read, GB/s   one byte, us");
    for ((chunk_values, [write, read, one]), len) in chunks.iter().zip(fastest).zip(lens) {
        let gbps = |time: Duration| data.len() as f64 / time.as_secs_f64() / 1e9;
        println!(
            "{chunk_values:>16} {:>9.3} {:>13.2} {:>12.2} {:>14.1}",
            100.0 * len as f64 / data.len() as f64,
            gbps(write),
            gbps(read),
            one.as_secs_f64() * 1e6
        );
    }
    Ok(())
}
