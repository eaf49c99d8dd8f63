//! Sizes of real tensors by byte group, as Table 2 of ZipNN has them, and of what changes from one checkpoint to the next.
//!
//! `cargo run --release -p zipwire-codec --example groups -- [--xor BASE] [--blockwise] FILE...`: the files are safetensors; all tensors of a type
//! are one frame, in the order of the file. A line per file and type: raw bytes, then the size in percent of them, of the frame and of each group, the
//! most significant one first; behind it how many chunks of the group are coded by Huffman (h), by zstd (z), as runs (r), or are equal bytes (s). With
//! `--xor`, tensors that BASE has as well are the XOR of both, and others are left out.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an example may read files")]

use std::error::Error;
use std::path::Path;

use safetensors::SafeTensors;
use zipwire_codec::{Codec, DType, FrameInfo, Layout};
use zipwire_paper_codecs::{Blockwise, ByteGroup, Grouped};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut base, mut codec, mut files) = (None, &Grouped as &dyn Codec, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--xor" => base = Some(std::fs::read(arguments.next().ok_or("`--xor` needs a file")?)?),
            "--blockwise" => codec = &Blockwise,
            _ => files.push(argument),
        }
    }
    let base = base.as_deref().map(SafeTensors::deserialize).transpose()?;
    for file in &files {
        let bytes = std::fs::read(file)?;
        let tensors = SafeTensors::deserialize(&bytes)?;
        for dtype in DType::ALL {
            let values = values(&tensors, base.as_ref(), dtype);
            if !values.is_empty() {
                let name = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
                print_line(&format!("{name} {dtype}"), codec, dtype, &values)?;
            }
        }
    }
    Ok(())
}

/// All values of a type, or what differs from the base.
fn values(tensors: &SafeTensors<'_>, base: Option<&SafeTensors<'_>>, dtype: DType) -> Vec<u8> {
    let mut values = Vec::new();
    for (name, view) in tensors.tensors() {
        if view.dtype().to_string() != dtype.name() {
            continue;
        }
        match base.map(|base| base.tensor(&name)) {
            None => values.extend(view.data()),
            Some(Ok(old)) if old.data().len() == view.data().len() => {
                values.extend(view.data().iter().zip(old.data()).map(|(new, old)| new ^ old));
            }
            Some(_) => {}
        }
    }
    values
}

fn print_line(name: &str, codec: &dyn Codec, dtype: DType, values: &[u8]) -> Result<(), Box<dyn Error>> {
    let frame = codec.encode_to_vec(Layout::Compact, dtype, values)?;
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole as f64;
    print!("{name:<48} {:>9} {:6.2} %", values.len(), percent(frame.len(), values.len()));
    for group in ByteGroup::of_frame(FrameInfo::peek(&frame)?.shape, &[], &frame)? {
        let ByteGroup { raw_len, coded_len, same, huffman, zstd, runs, .. } = group;
        print!(" | {:6.2} %", percent(coded_len, raw_len));
        let methods = [(huffman, 'h'), (zstd, 'z'), (runs, 'r'), (same, 's')];
        methods
            .iter()
            .filter(|(chunks, _)| *chunks > 0)
            .for_each(|(chunks, method)| print!(" {chunks}{method}"));
    }
    println!();
    Ok(())
}
