//! Zip archives come back byte for byte, whatever is in them, and their members are coded by the types that their values have.

use std::fs;

use super::common::{Folder, archive, compressed, noise, safetensors, weights};
use zipwire_models::file::{FileError, Foreign, Model, Watch, compress, restore, verify};

fn members() -> Vec<(&'static str, Vec<u8>)> {
    let floats: Vec<u8> = weights(150_000, 1)
        .chunks(2)
        .flat_map(|value| [&noise(2, value[0].into())[..], value].concat())
        .collect();
    vec![
        ("m/data.pkl", noise(900, 1)),
        ("m/data/0", weights(400_000, 2)),
        ("m/data/1", floats),
        ("m/data/2", (0..20_000_i64).flat_map(i64::to_le_bytes).collect()),
        ("m/data/3", weights(100, 4)),
        ("m/data/4", noise(50_000, 5)),
        ("m/data/5", [weights(9000, 6), vec![1]].concat()),
        ("zipwire.between.0", weights(5000, 7)),
        ("m/version", b"3\n".to_vec()),
    ]
}

#[test]
fn members_are_coded_and_every_byte_comes_back() {
    let folder = Folder::new();
    let (plain, packed, back) = (folder.path("m.pt"), folder.path("m.pt.zw"), folder.path("back.pt"));
    let file = archive(&members());
    fs::write(&plain, &file).unwrap();
    for spec in ["rans", "tiered", "auto", "window7"] {
        let report = compressed(spec, &plain, &packed).unwrap();
        assert_eq!(
            (report.bytes_raw, report.bytes_coded),
            (file.len() as u64, fs::metadata(&packed).unwrap().len())
        );
        assert!(report.bytes_coded < report.bytes_raw * 4 / 5, "{spec}: {report:?}");
        let model = Model::open(&packed).unwrap();
        verify(&model, &Watch::default()).unwrap();
        restore(&model, &back, true, &Watch::default()).unwrap();
        assert!(fs::read(&back).unwrap() == file, "{spec}");
        fs::remove_file(&packed).unwrap();
    }

    compressed("rans", &plain, &packed).unwrap();
    let model = Model::open(&packed).unwrap();
    let types =
        |name: &str| model.tensor(name).map(|tensor| (tensor.dtype.clone(), tensor.shape.clone())).ok();
    assert_eq!(types("m/data/0"), Some(("BF16".to_owned(), vec![400_000])));
    assert_eq!(types("m/data/1"), Some(("F32".to_owned(), vec![150_000])));
    // The byte behind the last whole value is not among them.
    assert_eq!(types("m/data/5"), Some(("BF16".to_owned(), vec![9000])));
    // A name that parts have that are no members.
    assert_eq!(types("_zipwire.between.0").unwrap().0, "BF16");
    // Too short, and noise.
    assert_eq!((types("m/data/3"), types("m/data/4")), (None, None));
    for (name, bytes) in members() {
        let name = if name.starts_with("zipwire") { format!("_{name}") } else { name.to_owned() };
        if types(&name).is_some() {
            assert!(model.read(&name).unwrap() == bytes[..bytes.len() / 4 * 4], "{name}");
            assert!(model.read_bytes(&name, 701..1999).unwrap() == bytes[701..1999], "{name}");
        }
    }
}

/// Archives that no program writes (the same member twice, members within others): fewer members are coded, and all bytes come back.
#[test]
fn odd_archives_come_back_too() {
    let folder = Folder::new();
    let file = archive(&[("a", weights(30_000, 1)), ("b", weights(30_000, 2)), ("c", weights(30_000, 3))]);
    // Entries of the directory have at 42 where their members begin.
    let at = |name: u8| {
        (0..file.len()).find(|at| file[*at..].starts_with(b"PK\x01\x02") && file[at + 46] == name).unwrap()
    };
    let mut twice = file.clone();
    twice.copy_within(at(b'a') + 42..at(b'a') + 46, at(b'b') + 42);
    // A member that goes on into the next ones.
    let mut long = file.clone();
    long[at(b'a') + 20..at(b'a') + 28].copy_from_slice(&[100_000_u32.to_le_bytes(); 2].concat());
    let empty = archive(&[]);
    let prefixed = [&b"#!/bin/sh\n"[..], &file].concat();
    for (number, (bytes, coded)) in
        [(file, 3), (twice, 2), (long, 2), (empty, 0), (prefixed, 3)].into_iter().enumerate()
    {
        let [plain, packed, back] = ["", ".zw", ".back"].map(|end| folder.path(&format!("{number}{end}")));
        fs::write(&plain, &bytes).unwrap();
        let report = compressed("rans", &plain, &packed).unwrap();
        assert_eq!(report.tensors.0, coded, "{number}");
        restore(&Model::open(&packed).unwrap(), &back, false, &Watch::default()).unwrap();
        assert!(fs::read(&back).unwrap() == bytes, "{number}");
    }
}

#[test]
fn what_is_no_archive_or_has_no_base_is_said() {
    let folder = Folder::new();
    let (plain, packed) = (folder.path("m.pt"), folder.path("m.pt.zw"));
    let file = archive(&members());
    fs::write(&plain, &file[..file.len() / 2]).unwrap();
    assert!(matches!(compressed("rans", &plain, &packed), Err(FileError::Archive { .. })));
    fs::write(&plain, &file).unwrap();
    assert!(matches!(Model::open(&plain), Err(FileError::Foreign { format: Foreign::Zip, .. })));
    compressed("rans", &plain, &packed).unwrap();
    let base = Model::open(&packed).unwrap();
    let compression = zipwire_models::file::Compression {
        spec: "delta+rans".parse().unwrap(),
        force: true,
        keep_trailing: false,
    };
    let error =
        compress(&plain, &folder.path("x"), &compression, Some(&base.into()), &Watch::default()).unwrap_err();
    assert!(matches!(error, FileError::ArchiveBase { .. }), "{error}");
    let old = folder.path("old.pt");
    fs::write(&old, b"\x80\x02}q\x00.").unwrap();
    assert!(matches!(
        compressed("rans", &old, &folder.path("x")),
        Err(FileError::Foreign { format: Foreign::Pickle, .. })
    ));
    assert_eq!(folder.names(), ["m.pt", "m.pt.zw", "old.pt"]);
}

/// torch.distributed.checkpoint writes an archive for each tensor, one behind another: all of them are coded, a short one among them.
#[test]
fn archives_behind_one_another() {
    let folder = Folder::new();
    let (plain, packed, back) = (folder.path("a.distcp"), folder.path("a.distcp.zw"), folder.path("back"));
    let one = |count, seed| {
        archive(&[("archive/data.pkl", noise(300, seed)), ("archive/data/0", weights(count, seed))])
    };
    let file = [one(30_000, 1), one(60_000, 2), one(2, 3)].concat();
    fs::write(&plain, &file).unwrap();
    assert_eq!(compressed("rans", &plain, &packed).unwrap().tensors.0, 2);
    let model = Model::open(&packed).unwrap();
    assert_eq!(model.tensor("1/archive/data/0").unwrap().shape, [60_000]);
    restore(&model, &back, false, &Watch::default()).unwrap();
    assert!(fs::read(&back).unwrap() == file);
    // A cut one is none, and is said.
    fs::write(&plain, &file[..file.len() - 1]).unwrap();
    assert!(matches!(compressed("rans", &plain, &folder.path("x")), Err(FileError::Archive { .. })));
}

/// A GGUF file of one key, and tensors of BF16, a quantised type, and F32 that begin at multiples of 32.
#[test]
fn tensors_of_gguf_files() {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let (weights, floats) = (weights(30_000, 1), noise(4 * 3000, 2));
    let tensor = |name: &str, shape: &[u64], kind: u32, offset: u64| {
        let shape: Vec<u8> = [
            &(shape.len() as u32).to_le_bytes()[..],
            &shape.iter().flat_map(|len| len.to_le_bytes()).collect::<Vec<u8>>(),
        ]
        .concat();
        [text(name), shape, kind.to_le_bytes().to_vec(), offset.to_le_bytes().to_vec()].concat()
    };
    let vocabulary = [&8_u32.to_le_bytes()[..], &2_u64.to_le_bytes(), &text("a"), &text("bc")].concat();
    let mut file = [
        &b"GGUF"[..],
        &3_u32.to_le_bytes(),
        &3_u64.to_le_bytes(),
        &2_u64.to_le_bytes(),
        &[text("general.name"), 8_u32.to_le_bytes().to_vec(), text("small")].concat(),
        &[text("tokenizer.ggml.tokens"), 9_u32.to_le_bytes().to_vec(), vocabulary].concat(),
        &tensor("embed", &[300, 100], 30, 0),
        &tensor("quantised", &[256], 8, 60_000),
        &tensor("norm", &[3000], 0, 60_288),
    ]
    .concat();
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend([&weights[..], &noise(272, 3), &[0; 16], &floats].concat());
    let folder = Folder::new();
    let (plain, packed, back) = (folder.path("m.gguf"), folder.path("m.gguf.zw"), folder.path("back"));
    fs::write(&plain, &file).unwrap();
    compressed("rans", &plain, &packed).unwrap();
    let model = Model::open(&packed).unwrap();
    assert_eq!(model.tensor("embed").unwrap().dtype, "BF16");
    assert!(model.read("embed").unwrap() == weights);
    restore(&model, &back, false, &Watch::default()).unwrap();
    assert!(fs::read(&back).unwrap() == file);
    // Every place at which it may be cut: an error, or all of the header is there.
    for len in (5..400).chain([file.len() - 1]) {
        fs::write(&plain, &file[..len]).unwrap();
        assert!(
            matches!(compressed("rans", &plain, &folder.path("x")), Err(FileError::Archive { .. })),
            "{len}"
        );
    }
}

/// Each format is called by its name, with what to do.
#[test]
fn files_of_other_formats_are_named() {
    let folder = Folder::new();
    let file = folder.path("x");
    for (bytes, said) in [
        (&b""[..], "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "a pointer of Git LFS"),
        (b"<!DOCTYPE html><html>404</html>", "a page of a web server"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b"\x1f\x8b\x08\0", "compressed by another program"),
        (b"ZN\x01\x02", "a file of ZipNN"),
    ] {
        fs::write(&file, bytes).unwrap();
        let error = compressed("rans", &file, &folder.path("y")).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("help: "), "{error}");
        assert_eq!(Model::open(&file).unwrap_err().to_string(), error);
    }
}

/// A safetensors file whose tensors ZipNN has compressed is one by its header, and called what it is.
#[test]
fn tensors_of_zipnn_are_named() {
    let folder = Folder::new();
    let (plain, packed) = (folder.path("m.znn.safetensors"), folder.path("x"));
    let tensors = [("w", "U8", vec![5000], noise(5000, 1))];
    fs::write(&plain, safetensors(&tensors, Some(r#"{"znn_compressed_vectors":"{\"w\":{}}"}"#))).unwrap();
    let errors = [
        compressed("rans", &plain, &packed).unwrap_err(),
        verify(&Model::open(&plain).unwrap(), &Watch::default()).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, FileError::Foreign { format: Foreign::ZipNnTensors, .. }), "{error}");
    }
}
