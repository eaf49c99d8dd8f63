//! Sizes of real tensors under every codec that codes their type.
//!
//! `cargo run --release -p zipwire-codec --example sizes -- [--tensors] [--codec SPEC]... FILE...`: the files are
//! safetensors; each tensor is a frame of its own, as in a collective, and codecs are told how long its rows are (`tiered:row=1`
//! keeps that from `tiered`). A line per file and type: raw bytes, then the
//! size in percent of them under each codec in the compact layout and the split one. `--tensors` adds a line for each
//! tensor. Tensors below 8 KiB are left out, because their headers dominate.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an example may read files")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use safetensors::SafeTensors;
use zipwire_codec::{Codec, DType, Layout, Spec, decompress};

const MIN_BYTES: usize = 8 << 10;

/// Raw bytes, then coded bytes for each codec and layout; none where the codec does not code the type.
#[derive(Clone)]
struct Sizes {
    raw: usize,
    coded: Vec<Option<usize>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    zipwire_paper_codecs::register();
    let (mut per_tensor, mut specs, mut files) = (false, Vec::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--tensors" => per_tensor = true,
            "--codec" => specs.push(arguments.next().ok_or("`--codec` needs a spec")?),
            _ => files.push(argument),
        }
    }
    if specs.is_empty() {
        specs = Spec::ids().filter(|id| *id != "raw").map(str::to_owned).collect();
    }
    let specs = specs.iter().map(|spec| spec.parse()).collect::<Result<Vec<Spec>, _>>()?;
    let names = specs.iter().flat_map(|spec| Layout::ALL.map(|layout| format!("{spec} {layout}")));
    println!(
        "{:<56} {:>9} {}",
        "file, type",
        "bytes",
        names.map(|name| format!("{name:>20}")).collect::<String>()
    );
    for file in &files {
        let bytes = std::fs::read(file)?;
        let name = Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut totals: BTreeMap<&str, Sizes> = BTreeMap::new();
        for (tensor, view) in SafeTensors::deserialize(&bytes)?.tensors() {
            let known = DType::ALL.into_iter().find(|dtype| view.dtype().to_string() == dtype.name());
            let Some(dtype) = known.filter(|_| view.data().len() >= MIN_BYTES) else { continue };
            let row = view.shape().last().copied().unwrap_or(0);
            let sizes = measure(&specs, dtype, row, view.data())?;
            if per_tensor {
                print_line(&format!("  {tensor} {:?}", view.shape()), &sizes);
            }
            totals.entry(dtype.name()).and_modify(|total| total.add(&sizes)).or_insert(sizes);
        }
        for (dtype, sizes) in totals {
            print_line(&format!("{name} {dtype}"), &sizes);
        }
    }
    Ok(())
}

/// Encodes with every codec, in both layouts, and checks that the values come back.
fn measure(specs: &[Spec], dtype: DType, row: usize, values: &[u8]) -> Result<Sizes, Box<dyn Error>> {
    let mut sizes = Sizes { raw: values.len(), coded: Vec::new() };
    for codec in specs.iter().map(|spec| spec.clone().for_rows(row).codec()) {
        for layout in Layout::ALL {
            if !codec.supports(dtype) {
                sizes.coded.push(None);
                continue;
            }
            let frame = codec.encode_to_vec(layout, dtype, values)?;
            let back = decompress(&frame)?;
            assert!(back == values, "{codec:?} in layout {layout} is not lossless");
            sizes.coded.push(Some(frame.len()));
        }
    }
    Ok(sizes)
}

impl Sizes {
    fn add(&mut self, other: &Self) {
        self.raw += other.raw;
        for (total, coded) in self.coded.iter_mut().zip(&other.coded) {
            *total = total.zip(*coded).map(|(total, coded)| total + coded);
        }
    }
}

fn print_line(name: &str, sizes: &Sizes) {
    let percent = |coded: &Option<usize>| match coded {
        Some(coded) => format!("{:20.2}", 100.0 * *coded as f64 / sizes.raw as f64),
        None => format!("{:>20}", "-"),
    };
    println!("{name:<56} {:>9} {}", sizes.raw, sizes.coded.iter().map(percent).collect::<String>());
}
