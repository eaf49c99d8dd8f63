//! Files that ZipNN 0.5.4 wrote (`znn/make.py`) come back, and damaged ones are errors.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_models::file::{FileError, Watch, Znn};

fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/file/znn")
}

/// All files, and what each is of.
fn files() -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(assets()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "znn"));
    files.sort();
    let raw = |path: &Path| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let name = name.strip_suffix("_stream").unwrap_or(name);
        if name == "zeros" {
            vec![0; 600_001]
        } else {
            fs::read(assets().join(format!("{name}.raw"))).unwrap()
        }
    };
    files.into_iter().map(|path| (path.clone(), raw(&path))).collect()
}

fn restored(path: &Path) -> Result<Vec<u8>, FileError> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let znn = Znn::open(path)?.expect("it begins as files of ZipNN do");
    let watch = Watch { threads: NonZero::new(2).unwrap(), ..Watch::default() };
    znn.verify(&watch)?;
    znn.restore(&out, false, &watch)?;
    let bytes = fs::read(out).unwrap();
    assert_eq!(bytes.len() as u64, znn.bytes());
    Ok(bytes)
}

#[test]
fn every_file_comes_back() {
    let files = files();
    assert_eq!(files.len(), 17);
    for (path, raw) in files {
        assert!(restored(&path).unwrap() == raw, "{}", path.display());
    }
}

#[test]
fn damage_is_an_error_or_gives_other_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.znn");
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut refused = 0;
    for (file, raw) in files() {
        let whole = fs::read(&file).unwrap();
        for number in 0..60 {
            let mut bytes = whole.clone();
            // Headers and tables are where most is to be found.
            let most = if number % 2 == 0 { bytes.len() } else { bytes.len().min(60) };
            for _ in 0..=number % 3 {
                bytes[rng.random_range(2..most)] ^= 1 << rng.random_range(0..8);
            }
            fs::write(&path, &bytes).unwrap();
            match restored(&path) {
                // There is no checksum.
                Ok(values) => assert!(values.len() <= 2 * raw.len().max(1 << 18), "{}", file.display()),
                Err(error) => {
                    let is_known = matches!(error, FileError::Damaged { .. } | FileError::Znn { .. });
                    assert!(is_known, "{}: {error}", file.display());
                    refused += 1;
                }
            }
        }
        for len in [32, 33, 40, 40.max(whole.len() / 2), whole.len() - 1] {
            fs::write(&path, &whole[..len]).unwrap();
            assert!(
                matches!(restored(&path), Err(FileError::Damaged { .. })),
                "{} cut to {len}",
                file.display()
            );
        }
    }
    assert!(refused > 300, "{refused} of 1020 were refused");
}

#[test]
fn what_is_not_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.znn");
    let whole = fs::read(assets().join("bf16.znn")).unwrap();
    for (byte, value, what) in [
        (9, 1, "differences from another file"),
        (10, 1, "rounded"),
        (8, 2, "PyTorch"),
        (15, 3, "its type 3"),
        (5, 8, "order 8 of bytes"),
        (7, 2, "method zstd"),
    ] {
        let mut bytes = whole.clone();
        bytes[byte] = value;
        fs::write(&path, bytes).unwrap();
        let error = restored(&path).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("\nhelp: decompress it by ZipNN"), "{error}");
    }
    fs::write(&path, b"ZN").unwrap();
    assert!(Znn::open(&path).unwrap().is_none());
    fs::write(&path, [0; 100]).unwrap();
    assert!(Znn::open(&path).unwrap().is_none());
}
