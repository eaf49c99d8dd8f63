//! Safetensors files made byte by byte, so that their headers are as odd as the format allows.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};
use zipwire_models::file::{Compression, FileError, Watch, compress};

/// Name, type, shape, values.
pub(crate) type Tensor = (&'static str, &'static str, Vec<usize>, Vec<u8>);

pub(crate) struct Folder(pub(crate) TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Names of all that is in it.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A file with these tensors, `metadata` as JSON, and spaces in its header.
pub(crate) fn safetensors(tensors: &[Tensor], metadata: Option<&str>) -> Vec<u8> {
    let mut entries: Vec<String> =
        metadata.map(|metadata| format!("\"__metadata__\" : {metadata}")).into_iter().collect();
    let (mut at, mut values) = (0, Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let end = at + bytes.len();
        entries.push(format!(
            "  \"{name}\":{{\"shape\":{shape:?}, \"dtype\":\"{dtype}\",\"data_offsets\":[{at},{end}]}}"
        ));
        values.extend_from_slice(bytes);
        at = end;
    }
    // Readers find tensors by their offsets, whatever the order of the keys is.
    entries.reverse();
    let mut header = format!("{{{}}}", entries.join(" ,"));
    header.push_str("     ");
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values].concat()
}

/// A zip archive as PyTorch writes them: stored, values at multiples of 64 bytes.
pub(crate) fn archive(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options =
        SimpleFileOptions::default().compression_method(CompressionMethod::Stored).with_alignment(64);
    for (name, bytes) in members {
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// BF16 values as weights have them.
pub(crate) fn weights(count: usize, seed: u64) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count)
        .flat_map(|_| {
            let sum: f32 = (0..4).map(|_| rng.random::<f32>() - 0.5).sum();
            ((sum * 0.05).to_bits() >> 16).to_le_bytes()[..2].to_vec()
        })
        .collect()
}

pub(crate) fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut values = vec![0; bytes];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut values);
    values
}

pub(crate) fn compressed(
    spec: &str,
    input: &Path,
    output: &Path,
) -> Result<zipwire_models::file::Compressed, FileError> {
    compress(
        input,
        output,
        &Compression { spec: spec.parse().unwrap(), force: false, keep_trailing: false },
        None,
        &Watch::default(),
    )
}
