//! Moves a KV cache from one thread to another, a group at a time: one encodes and copies, the other decodes. All of it is compared once.
//!
//!     cargo run --release -p zipwire-kv --example move_groups -- FILE.safetensors [--codec SPEC]... [--heads N] [--head-size N] [--mib N] [--hnd]
//!
//! Takes the values of all BF16 tensors of the file whose name has a `.k` or `.v` in it, repeated until there are so many MiB (1024 by default) of each of keys and
//! values. The first thread has a buffer of a group, and one is between them: that is all the memory that moving takes beside the cache. Prints, for each codec
//! (`tiered`, `window7`, `codebook16`, `rans` and `raw` by default), the size, and GB/s of raw bytes of encoding alone, of decoding alone, and of moving.

use std::error::Error;
use std::hint::black_box;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use safetensors::{Dtype, SafeTensors};
use zipwire_kv::{DType, Geometry, KvCodec, Order, Place};

/// Times that each is measured; the median counts.
const TURNS: usize = 3;

struct Arguments {
    file: String,
    codecs: Vec<String>,
    heads: u32,
    head_size: u32,
    mib: usize,
    order: Order,
}

/// Keys and values, as groups of 256 tokens.
struct Cache {
    planes: [Vec<u8>; 2],
    group_len: usize,
}

fn place(group: usize) -> Place {
    Place { layer: 0, token: 256 * group as u64 }
}

impl Cache {
    fn read(file: &str, mib: usize, group_len: usize) -> Result<Self, Box<dyn Error>> {
        let bytes = std::fs::read(file)?;
        let tensors = SafeTensors::deserialize(&bytes)?;
        let plane = |part: &str| -> Result<Vec<u8>, Box<dyn Error>> {
            let named =
                tensors.iter().filter(|(name, view)| name.contains(part) && view.dtype() == Dtype::BF16);
            let values: Vec<u8> = named.flat_map(|(_, view)| view.data().iter().copied()).collect();
            if values.is_empty() {
                return Err(format!("`{file}` has no BF16 tensor with `{part}` in its name").into());
            }
            let len = (mib << 20) / group_len * group_len;
            Ok(values.iter().copied().cycle().take(len).collect())
        };
        Ok(Self { planes: [plane(".k")?, plane(".v")?], group_len })
    }

    fn groups(&self) -> usize {
        self.planes[0].len() / self.group_len
    }

    fn group(&self, group: usize) -> [&[u8]; 2] {
        self.planes.each_ref().map(|plane| &plane[group * self.group_len..][..self.group_len])
    }

    /// Encodes all groups in turn and hands each to `take`.
    fn encode(
        &self,
        codec: &KvCodec,
        mut take: impl FnMut(&[u8]) -> Result<(), Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        let mut buffer = vec![0; codec.bound(256)];
        for group in 0..self.groups() {
            let len = codec.encode(place(group), &self.group(group), &mut buffer)?;
            take(&buffer[..len])?;
        }
        Ok(())
    }

    /// Moves all groups to another thread, which decodes them.
    fn move_all(&self, codec: &KvCodec) -> Result<(), Box<dyn Error>> {
        let (sender, receiver) = sync_channel::<Vec<u8>>(1);
        let (back, free) = sync_channel::<Vec<u8>>(1);
        back.send(Vec::with_capacity(codec.bound(256)))?;
        std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
            let receives = scope.spawn(move || {
                let (mut keys, mut values) = (vec![0; self.group_len], vec![0; self.group_len]);
                for (group, bytes) in receiver.iter().enumerate() {
                    let info = codec.decode(&bytes, &mut [&mut keys, &mut values]);
                    assert_eq!(info.expect("nobody damages it").place, place(group));
                    let _ = back.send(bytes);
                }
            });
            self.encode(codec, |coded| {
                // The copy stands for a network.
                let mut bytes = free.recv()?;
                bytes.clear();
                bytes.extend_from_slice(coded);
                Ok(sender.send(bytes)?)
            })?;
            drop(sender);
            receives.join().map_err(|_| "the receiver panicked".into())
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    zipwire_paper_codecs::register();
    let Arguments { file, codecs, heads, head_size, mib, order } = arguments()?;
    let geometry = Geometry::grouped(1, heads, head_size, DType::Bf16)?.with_order(order);
    let cache = Cache::read(&file, mib, geometry.row_len() * geometry.group_tokens() as usize)?;
    println!("{} groups of 256 tokens, {heads} heads of {head_size}, {}", cache.groups(), order.name());
    println!("| codec | size % | encode GB/s | decode GB/s | moved GB/s |\n|---|---|---|---|---|");
    for spec in codecs {
        let codec = KvCodec::new(geometry, spec.parse()?)?;
        let (mut keys, mut values) = (vec![0; cache.group_len], vec![0; cache.group_len]);
        let encode_s = median(|| {
            cache.encode(&codec, |coded| {
                black_box(coded);
                Ok(())
            })
        })?;
        let mut frames: Vec<Vec<u8>> = Vec::with_capacity(cache.groups());
        cache.encode(&codec, |coded| {
            frames.push(coded.to_vec());
            Ok(())
        })?;
        let decode_s = median(|| {
            for frame in &frames {
                black_box(codec.decode(frame, &mut [&mut keys, &mut values])?);
            }
            Ok(())
        })?;
        let move_s = median(|| cache.move_all(&codec))?;
        // All of it is compared once.
        for (group, frame) in frames.iter().enumerate() {
            codec.decode(frame, &mut [&mut keys, &mut values])?;
            assert!([&keys[..], &values[..]] == cache.group(group), "{spec}: group {group}");
        }
        let raw = 2.0 * cache.planes[0].len() as f64;
        let coded: usize = frames.iter().map(Vec::len).sum();
        let gbps = |seconds: f64| raw / seconds / 1e9;
        println!(
            "| `{spec}` | {:.2} | {:.2} | {:.2} | {:.2} |",
            100.0 * coded as f64 / raw,
            gbps(encode_s),
            gbps(decode_s),
            gbps(move_s)
        );
    }
    Ok(())
}

fn median(mut work: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut times = Vec::new();
    for _ in 0..TURNS {
        let begin = Instant::now();
        work()?;
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[TURNS / 2])
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut found = Arguments {
        file: String::new(),
        codecs: Vec::new(),
        heads: 8,
        head_size: 128,
        mib: 1024,
        order: Order::default(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("`{argument}` takes a value"));
        match argument.as_str() {
            "--codec" => found.codecs.push(value()?),
            "--heads" => found.heads = value()?.parse()?,
            "--head-size" => found.head_size = value()?.parse()?,
            "--mib" => found.mib = value()?.parse()?,
            "--hnd" => found.order = Order::Heads,
            _ => found.file = argument,
        }
    }
    if found.file.is_empty() {
        return Err("name a safetensors file with recorded keys and values".into());
    }
    if found.codecs.is_empty() {
        found.codecs = ["tiered", "window7", "codebook16", "rans", "raw"].map(str::to_owned).to_vec();
    }
    Ok(found)
}
