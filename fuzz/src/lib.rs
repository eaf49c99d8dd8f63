//! Code that the fuzz targets share: values made of the fuzzer's bytes, damage to frames, and properties that must hold of every frame.
//!
//! A target is a file in `fuzz_targets`, of a few lines: it says what the bytes mean. What must hold is asserted here,
//! so that a failure is a panic, an error of the AddressSanitizer, or a time limit. See `docs/fuzzing.md`.

mod container;
mod delta;
mod frame;
mod kv;
mod model;
mod store;
mod values;

pub use container::{check_container, container};
pub use delta::damaged_difference;
pub use frame::{Frame, check_decoded, check_unknown, damage};
pub use kv::{check_bytes, check_group, kv_codec};
pub use model::{check_model, compressed_model, edited_front};
pub use store::{check_manifest, check_object, manifest_body};
pub use values::values;

use std::fs;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use tempfile::TempDir;
use zipwire_codec::{Codec, DType, Decoder, Layout, Spec};
use zipwire_models::file::Watch;
use zipwire_paper_codecs::Codebook;

/// Specs of all codecs, with all options that have names.
pub const SPECS: [&str; 13] = [
    "raw",
    "window7",
    "window7:scale=std",
    "window7:scale=mean-abs",
    "tiered",
    "rans",
    "codebook16",
    "auto",
    "grouped",
    "blockwise",
    "huffman",
    "planes",
    "planes:width=8",
];

/// Runs a target on the fuzzer's bytes. Too few of them are no input.
pub fn run(bytes: &[u8], target: impl FnOnce(&mut Unstructured<'_>) -> Result<()>) {
    zipwire_paper_codecs::register();
    let _ = target(&mut Unstructured::new(bytes));
}

/// The codec with this spec.
///
/// # Panics
/// If there is none.
pub fn codec(spec: &str) -> Box<dyn Codec> {
    spec.parse::<Spec>().expect("the spec is one of this crate").codec()
}

/// `codebook16` with a book of its own for each frame, or with any one book for the type.
///
/// # Errors
/// If there are too few bytes.
pub fn codebook16(input: &mut Unstructured<'_>, dtype: DType) -> Result<Box<dyn Codec>> {
    let mut exponents = [0; 16];
    let mut next = 0_u16;
    for exponent in &mut exponents {
        next += u16::from(input.arbitrary::<u8>()? % 18);
        *exponent = next.min(255) as u8;
        next += 1;
    }
    Ok(Codebook::from_exponents(dtype, exponents).map_or_else(|_| codec("codebook16"), Codebook::codec))
}

/// `tiered` or `rans`, half the time with rows of a length: mostly such that a few hundred values are enough for columns.
///
/// # Errors
/// If there are too few bytes.
pub fn blocks(input: &mut Unstructured<'_>, spec: &str) -> Result<Spec> {
    let row = match input.int_in_range(0..=7)? {
        0..=3 => 0,
        4..=6 => input.int_in_range(2..=24)?,
        _ => input.int_in_range(2..=600)?,
    };
    Ok(format!("{spec}={row}").parse().expect("the spec is one of this crate"))
}

/// `dedup`, with rows so short that a few hundred values are many of them, in front of another codec.
///
/// # Errors
/// If there are too few bytes.
pub fn dedup(input: &mut Unstructured<'_>) -> Result<Box<dyn Codec>> {
    let row = match input.int_in_range(0..=7)? {
        0..=5 => input.int_in_range(1..=20)?,
        _ => input.int_in_range(1..=600)?,
    };
    let codec = *input.choose(&SPECS)?;
    Ok(self::codec(&format!("dedup:row={row}+{codec}")))
}

/// One of the types that the codec supports.
///
/// # Errors
/// If there are too few bytes.
pub fn dtype(input: &mut Unstructured<'_>, codec: &dyn Codec) -> Result<DType> {
    let supported: Vec<DType> = DType::ALL.into_iter().filter(|dtype| codec.supports(*dtype)).collect();
    input.choose(&supported).copied()
}

/// A layout.
///
/// # Errors
/// If there are too few bytes.
pub fn layout(input: &mut Unstructured<'_>) -> Result<Layout> {
    input.choose(&Layout::ALL).copied()
}

/// A spec whose codec takes tables; half the time with one that was trained from some values.
///
/// # Errors
/// If there are too few bytes.
pub fn with_table(input: &mut Unstructured<'_>, spec: &Spec, layout: Layout, dtype: DType) -> Result<Spec> {
    if !input.arbitrary::<bool>()? {
        return Ok(spec.clone());
    }
    let sample = values(input, dtype)?;
    // There may be nothing to train from.
    let table = spec.train(layout, dtype, &[&sample]).ok();
    let with = |table| spec.clone().with_table(&table).expect("it is a table of the codec");
    Ok(table.map_or_else(|| spec.clone(), with))
}

/// A frame of a codec, damaged, and what must hold of it: the body of every target of a decoder.
///
/// # Errors
/// If there are too few bytes.
pub fn damaged_frame(
    input: &mut Unstructured<'_>,
    codec: &dyn Codec,
    layout: Layout,
    dtype: DType,
) -> Result<()> {
    damaged_frame_with(input, codec, Decoder::new(), layout, dtype)
}

/// Checks frames that are read with the tables and bases of this decoder.
///
/// # Errors
/// If there are too few bytes.
pub fn damaged_frame_with(
    input: &mut Unstructured<'_>,
    codec: &dyn Codec,
    decoder: Decoder,
    layout: Layout,
    dtype: DType,
) -> Result<()> {
    let edits = input.int_in_range(0..=6)?;
    // The damage comes first in the bytes, so that it stays what it is when the values change.
    let mut bytes = Unstructured::new(input.bytes((edits * frame::EDIT_BYTES).min(input.len()))?);
    let values = values(input, dtype)?;
    let mut frame = Frame::new(codec, layout, dtype, &values).with(decoder);
    if edits == 0 {
        frame.check_intact(&values);
    }
    for _ in 0..edits {
        damage(&mut frame, &mut bytes)?;
    }
    frame.check_damaged();
    Ok(())
}

/// A file with these bytes, for what reads files. It is the same one each time.
///
/// # Panics
/// If it cannot be written.
pub fn scratch_file(bytes: &[u8]) -> PathBuf {
    let path = scratch_path("input");
    fs::write(&path, bytes).expect("there is room for a temporary file");
    path
}

/// Path for a file of this name, in a folder of this process.
///
/// # Panics
/// If there can be no such folder.
pub fn scratch_path(name: &str) -> PathBuf {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("there is room for a temporary folder"));
    folder.path().join(name)
}

/// Work on the thread of the fuzzer: threads that have ended may look like leaks.
fn alone() -> Watch<'static> {
    Watch { threads: NonZero::<usize>::MIN, ..Watch::default() }
}
