//! Files come back byte for byte, whole and in part, and what is wrong with one is said.

use std::fs;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::common::{Folder, Tensor, compressed, noise, safetensors, weights};
use zipwire_codec::{DType, Reader};
use zipwire_models::file::{
    Bases, Compression, FileError, Model, Watch, compress, compress_values, restore, verify,
};

/// Types that codecs know and others, long tensors, short ones, empty ones and scalars.
fn odd() -> Vec<Tensor> {
    let floats =
        weights(150_000, 1).chunks(2).flat_map(|value| [noise(2, 1), value.to_vec()].concat()).collect();
    vec![
        ("f64", "F64", vec![3], noise(24, 2)),
        ("ids", "I64", vec![200, 10], (0..2000_i64).flat_map(i64::to_le_bytes).collect()),
        ("f32", "F32", vec![150, 1000], floats),
        ("w", "BF16", vec![1000, 700], weights(700_000, 3)),
        ("zeros", "BF16", vec![300, 1000], vec![0; 600_000]),
        ("scalar", "BF16", vec![], vec![0x80, 0x3f]),
        ("norm", "BF16", vec![384], weights(384, 4)),
        ("empty", "F16", vec![0, 17], vec![]),
        ("another empty one", "F32", vec![0], vec![]),
        ("hollow", "BF16", vec![3, 0], vec![]),
        ("noise", "F16", vec![5000], noise(10_000, 5)),
        (
            "e4m3",
            "F8_E4M3",
            vec![300_000],
            weights(300_000, 6).chunks(2).map(|value| value[1] & 0x7f).collect(),
        ),
        ("e8m0", "F8_E8M0", vec![6000], vec![127; 6000]),
        ("mask", "BOOL", vec![3, 1001], vec![1; 3003]),
        ("u8", "U8", vec![5], vec![1, 2, 3, 4, 5]),
        ("four \\\"bits\\\"", "F4", vec![10], vec![0x12, 0x34, 0x56, 0x78, 0x9a]),
    ]
}

#[test]
fn every_byte_comes_back() {
    let folder = Folder::new();
    let file = safetensors(&odd(), Some("{\"format\" : \"pt\", \"note\":\"\\u00e4\"}"));
    let plain = folder.path("m.safetensors");
    fs::write(&plain, &file).unwrap();
    for spec in ["rans", "tiered", "auto", "raw", "grouped", "window7"] {
        let (packed, again) = (folder.path(&format!("{spec}.zw")), folder.path(&format!("{spec}.back")));
        let report = compressed(spec, &plain, &packed).unwrap();
        assert_eq!(report.bytes_raw, file.len() as u64);
        assert_eq!(report.bytes_coded, fs::metadata(&packed).unwrap().len());
        assert_eq!(report.bytes_coded < report.bytes_raw * 3 / 4, spec != "raw", "{spec}: {report:?}");
        let model = Model::open(&packed).unwrap();
        verify(&model, &Watch::default()).unwrap();
        restore(&model, &again, false, &Watch::default()).unwrap();
        assert!(fs::read(&again).unwrap() == file, "{spec}");
    }
}

/// The bytes do not depend on the number of threads.
#[test]
fn threads_change_nothing() {
    let folder = Folder::new();
    let plain = folder.path("m.safetensors");
    fs::write(&plain, safetensors(&odd(), None)).unwrap();
    let files = [1, 2, 7].map(|threads| {
        let packed = folder.path(&format!("{threads}"));
        let compression = Compression { spec: "rans".parse().unwrap(), force: false, keep_trailing: false };
        let watch = Watch { threads: NonZero::new(threads).unwrap(), ..Watch::default() };
        compress(&plain, &packed, &compression, None, &watch).unwrap();
        fs::read(packed).unwrap()
    });
    assert!(files[0] == files[1] && files[1] == files[2]);
}

/// Other readers refuse the file, by an error that names zipwire, and give nobody coded bytes as values.
#[test]
fn other_readers_refuse_a_compressed_file() {
    let folder = Folder::new();
    let (plain, packed) = (folder.path("m.safetensors"), folder.path("m.zw"));
    let long = format!("{{\"long\":\"{}\"}}", "x".repeat(5000));
    for (metadata, is_short) in [("{\"format\":\"pt\"}", true), (&long, false)] {
        fs::write(&plain, safetensors(&odd(), Some(metadata))).unwrap();
        let _ = fs::remove_file(&packed);
        compressed("rans", &plain, &packed).unwrap();
        let bytes = fs::read(&packed).unwrap();
        let error = safetensors::SafeTensors::deserialize(&bytes).unwrap_err().to_string();
        assert!(error.contains("ZIPWIRE"), "{error}");
        let (length, rest) = bytes.split_first_chunk().unwrap();
        let header: Value = serde_json::from_slice(&rest[..u64::from_le_bytes(*length) as usize]).unwrap();
        // Metadata are shown as far as they are short.
        let metadata = &header["__metadata__"];
        assert_eq!((metadata.get("long"), metadata.get("format").is_some()), (None, is_short));
        let note: Value = serde_json::from_str(metadata["zipwire"].as_str().unwrap()).unwrap();
        assert_eq!(note["version"], 2);
        assert_eq!(header["zipwire"]["data_offsets"][1], rest.len() as u64 - u64::from_le_bytes(*length));
    }
}

#[test]
fn any_part_is_read_alone() {
    let folder = Folder::new();
    let (plain, packed) = (folder.path("m.safetensors"), folder.path("m.zw"));
    fs::write(&plain, safetensors(&odd(), Some("{\"a\":\"b\"}"))).unwrap();
    compressed("rans", &plain, &packed).unwrap();
    for model in [Model::open(&plain).unwrap(), Model::open(&packed).unwrap()] {
        assert_eq!(model.notes()["a"], "b");
        assert_eq!(model.bytes(), fs::metadata(&plain).unwrap().len());
        for (name, dtype, shape, values) in odd() {
            let name = name.replace('\\', "");
            let tensor = model.tensor(&name).unwrap();
            assert_eq!((tensor.dtype.as_str(), &tensor.shape), (dtype, &shape));
            assert!(model.read(&name).unwrap() == values, "{name}");
            let len = values.len() as u64;
            for (start, end) in [(0, 1), (3, 7), (262_143, 262_145), (262_144, 524_288), (262_145, 1_399_999)]
            {
                if end <= len {
                    let range = start as usize..end as usize;
                    assert!(model.read_bytes(&name, start..end).unwrap() == values[range], "{name} {start}");
                }
            }
        }
        let values = weights(700_000, 3);
        assert!(model.read_rows("w", 131..700).unwrap() == values[131 * 1400..700 * 1400]);
        assert!(model.read_rows("w", 5..5).unwrap().is_empty());
        let error = model.read_rows("w", 999..1001).unwrap_err().to_string();
        assert!(error.contains("`w`") && error.contains("1000 rows"), "{error}");
        let error = model.read("nrm").unwrap_err().to_string();
        assert!(error.contains("`norm`"), "{error}");
    }
}

#[test]
fn differences_need_their_base_and_no_other() {
    let folder = Folder::new();
    let before = weights(700_000, 3);
    let after: Vec<u8> = before
        .chunks(2)
        .enumerate()
        .flat_map(|(i, value)| {
            (u16::from_le_bytes([value[0], value[1]]) + u16::from(i % 3 == 0)).to_le_bytes()
        })
        .collect();
    let paths = ["before", "after", "other"].map(|name| folder.path(&format!("{name}.safetensors")));
    for (path, values) in paths.iter().zip([&before, &after, &noise(1_400_000, 1)]) {
        let tensors =
            [("w", "BF16", vec![700, 1000], values.clone()), ("new", "BF16", vec![1000], weights(1000, 9))];
        // The base has not all of the tensors.
        fs::write(
            path,
            safetensors(&tensors[..if path.ends_with("after.safetensors") { 2 } else { 1 }], None),
        )
        .unwrap();
    }
    let [base, other] = [&paths[0], &paths[2]].map(|path| Arc::new(Model::open(path).unwrap()));
    let (packed, again) = (folder.path("after.zw"), folder.path("back"));
    let compression = Compression { spec: "rans".parse().unwrap(), force: false, keep_trailing: false };
    let report =
        compress(&paths[1], &packed, &compression, Some(&base.clone().into()), &Watch::default()).unwrap();
    assert!(report.bytes_coded * 4 < report.bytes_raw, "{report:?}");
    assert!(matches!(Model::open(&packed), Err(FileError::NoBase { .. })));
    assert!(matches!(Model::open_with(&packed, Some(other.into())), Err(FileError::WrongBase { .. })));
    let model = Model::open_with(&packed, Some(base.into())).unwrap();
    restore(&model, &again, false, &Watch::default()).unwrap();
    assert!(fs::read(&again).unwrap() == fs::read(&paths[1]).unwrap());

    // A base may be compressed itself: it is named by what is in it.
    let packed_base = folder.path("before.zw");
    compressed("tiered", &paths[0], &packed_base).unwrap();
    let base = Arc::new(Model::open(&packed_base).unwrap());
    verify(&Model::open_with(&packed, Some(base.into())).unwrap(), &Watch::default()).unwrap();
}

#[test]
fn tensors_are_paired_by_name_with_those_of_any_file_of_a_base() {
    let folder = Folder::new();
    let tensors: [Tensor; 5] = ["a", "b", "c", "d", "e"]
        .map(|name| (name, "BF16", vec![200, 100], weights(20_000, name.as_bytes()[0].into())));
    let write = |name: &str, tensors: &[Tensor]| {
        let path = folder.path(name);
        fs::write(&path, safetensors(tensors, None)).unwrap();
        path
    };
    // Cut anew: no shard has the tensors of one of before.
    let shards = [write("1", &tensors[..2]), write("2", &tensors[2..4]), write("3", &tensors[4..])];
    let next = write("next", &tensors[1..3]);
    let open = |path: &PathBuf| Arc::new(Model::open(path).unwrap());
    let ranks = |paths: &[&PathBuf]| Bases::new([paths.iter().map(|path| open(path)).collect()]);
    let all = ranks(&[&shards[2], &shards[1], &shards[0]]);
    let (packed, again) = (folder.path("packed"), folder.path("again"));
    let compression = Compression { spec: "rans".parse().unwrap(), force: false, keep_trailing: false };
    let made = compress(&next, &packed, &compression, Some(&all), &Watch::default()).unwrap();
    assert!(made.against == 2 && made.bytes_coded * 20 < made.bytes_raw, "{made:?}");
    // Both files are needed, whichever others there are and whatever their order is; the third is not.
    let needed = ranks(&[&shards[0], &next, &shards[1]]);
    restore(&Model::open_with(&packed, Some(needed)).unwrap(), &again, false, &Watch::default()).unwrap();
    assert!(fs::read(&again).unwrap() == fs::read(&next).unwrap());
    for wrong in [ranks(&[&shards[0], &shards[2]]), open(&shards[0]).into()] {
        let error = Model::open_with(&packed, Some(wrong)).unwrap_err();
        assert!(matches!(error, FileError::NoSuchBase { .. }), "{error}");
    }
    let error = Model::open(&packed).unwrap_err().to_string();
    assert!(error.contains("differences from files of the digests") && error.contains("`--base DIR`"));
    assert_eq!(Model::list(&packed).unwrap().tensors().len(), 2);

    // A name that is there twice says nothing, unless one of the two is nearer.
    let twice = write("twice", &tensors[1..2]);
    let near = ranks(&[&shards[0], &twice, &shards[1]]);
    let made = compress(&next, &folder.path("w"), &compression, Some(&near), &Watch::default()).unwrap();
    assert_eq!((made.against, &made.ambiguous[..]), (1, &["b".to_owned()][..]));
    assert!(matches!(near.model_with("b"), Err(FileError::TwoTensors { tensor, .. }) if tensor == "b"));
    let nearer = Bases::new([vec![open(&twice)], vec![open(&shards[0]), open(&shards[1])]]);
    let made = compress(&next, &folder.path("x"), &compression, Some(&nearer), &Watch::default()).unwrap();
    assert_eq!((made.against, made.ambiguous.len()), (2, 0));
    let others = write("others", &tensors[4..]);
    compress(
        &others,
        &folder.path("y"),
        &compression,
        Some(&ranks(&[&shards[0], &twice])),
        &Watch::default(),
    )
    .unwrap();
}

#[test]
fn a_file_is_no_base_of_itself_and_a_copy_of_it_is_one() {
    let folder = Folder::new();
    let [plain, link, hard, copy, packed] =
        ["plain", "link", "hard", "copy", "out"].map(|name| folder.path(name));
    fs::write(&plain, safetensors(&[("w", "BF16", vec![200, 100], weights(20_000, 5))], None)).unwrap();
    fs::hard_link(&plain, &hard).unwrap();
    fs::copy(&plain, &copy).unwrap();
    let base = |path: &PathBuf| Bases::from(Model::open(path).unwrap());
    let made = |base: &Bases| {
        let compression = Compression { spec: "rans".parse().unwrap(), force: true, keep_trailing: false };
        compress(&plain, &packed, &compression, Some(base), &Watch::default())
    };
    let mut own = vec![base(&plain), base(&hard)];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("plain", &link).unwrap();
        own.push(base(&link));
    }
    // A base of the base, too.
    let of_own = folder.path("of-own");
    let compression = Compression { spec: "rans".parse().unwrap(), force: true, keep_trailing: false };
    compress(&copy, &of_own, &compression, Some(&base(&plain)), &Watch::default()).unwrap();
    own.push(Model::open_with(&of_own, Some(base(&plain))).unwrap().into());
    for own in own {
        let error = made(&own).unwrap_err();
        assert!(matches!(error, FileError::OwnBase { .. }), "{error}");
        assert!(!packed.exists());
    }
    let made = made(&base(&copy)).unwrap();
    assert!(made.against == 1 && made.bytes_coded * 20 < made.bytes_raw, "{made:?}");
}

#[test]
fn a_file_that_is_not_compressed_counts_before_a_copy_of_its_digest_that_is() {
    let folder = Folder::new();
    let [plain, next, zipped, packed, again] =
        ["plain", "next", "zipped", "packed", "again"].map(|name| folder.path(name));
    let write = |path: &PathBuf, seed| {
        fs::write(path, safetensors(&[("w", "BF16", vec![200, 100], weights(20_000, seed))], None)).unwrap();
    };
    write(&plain, 1);
    fs::copy(&plain, &next).unwrap();
    compressed("rans", &plain, &zipped).unwrap();
    let open = |path: &PathBuf| Arc::new(Model::open(path).unwrap());
    let compression = Compression { spec: "rans".parse().unwrap(), force: false, keep_trailing: false };
    let bases = Bases::from(open(&zipped)).with_copies(vec![open(&plain)]);
    let made = compress(&next, &packed, &compression, Some(&bases), &Watch::default()).unwrap();
    assert_eq!((made.against, made.ambiguous.len()), (1, 0));
    let mut bytes = fs::read(&zipped).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&zipped, bytes).unwrap();
    let damaged = Bases::from(open(&zipped)).with_copies(vec![open(&plain)]);
    restore(&Model::open_with(&packed, Some(damaged)).unwrap(), &again, false, &Watch::default()).unwrap();
    assert!(fs::read(&again).unwrap() == fs::read(&next).unwrap());
    // One of another digest hides nothing.
    write(&plain, 2);
    compressed("rans", &plain, &folder.path("other")).unwrap();
    let stale = Bases::from(open(&folder.path("other"))).with_copies(vec![open(&next)]);
    Model::open_with(&packed, Some(stale)).unwrap();
}

#[test]
fn a_closed_model_is_read_as_long_as_its_file_is_the_same() {
    let folder = Folder::new();
    let [plain, packed] = ["plain", "packed"].map(|name| folder.path(name));
    let values = weights(20_000, 5);
    fs::write(&plain, safetensors(&[("w", "BF16", vec![200, 100], values.clone())], None)).unwrap();
    compressed("rans", &plain, &packed).unwrap();
    for path in [&plain, &packed] {
        let model = Model::open(path).unwrap();
        model.close();
        assert!(model.read("w").unwrap() == values);
        model.close();
        fs::write(path, "another").unwrap();
        assert!(matches!(model.read("w"), Err(FileError::Changed { .. })));
        fs::remove_file(path).unwrap();
        assert!(matches!(model.read("w"), Err(FileError::Io { .. })));
    }
}

#[test]
fn a_tensor_of_no_rows_and_an_unknown_type_has_its_bytes() {
    let folder = Folder::new();
    let plain = folder.path("plain");
    let tensors: [Tensor; 2] =
        [("odd", "A_TYPE", vec![0, 3], vec![1, 2, 3, 4]), ("none", "BF16", vec![0, 3], vec![])];
    fs::write(&plain, safetensors(&tensors, None)).unwrap();
    let model = Model::open(&plain).unwrap();
    assert_eq!(model.bytes_of_rows("odd", 0..0).unwrap(), 0..4);
    assert_eq!(model.read_rows("odd", 0..0).unwrap(), [1, 2, 3, 4]);
    assert_eq!(model.read_rows("none", 0..0).unwrap(), [0; 0]);
}

#[test]
fn tensors_of_types_that_are_not_known_are_kept_with_their_names() {
    let folder = Folder::new();
    let [plain, packed, again] = ["plain", "packed", "again"].map(|name| folder.path(name));
    let counts: Vec<u8> = (0..20_000_u32).flat_map(|value| (value / 7).to_le_bytes()).collect();
    let tensors: [Tensor; 7] = [
        ("i4", "I4", vec![3, 5], noise(8, 1)),
        ("c128", "C128", vec![5000], counts.clone()),
        ("e8m0", "F8_E8M0", vec![8, 10_000], counts.clone()),
        ("f6", "F6_E2M3", vec![4, 1000], noise(3000, 2)),
        ("f4", "F4", vec![2, 3], noise(3, 3)),
        ("of a long name", "A_TYPE_OF_MORE_THAN_SIXTEEN_LETTERS", vec![9], noise(700, 4)),
        ("w", "BF16", vec![200, 100], weights(20_000, 5)),
    ];
    let file = safetensors(&tensors, None);
    fs::write(&plain, &file).unwrap();
    let made = compressed("auto", &plain, &packed).unwrap();
    assert!(made.bytes_coded * 2 < made.bytes_raw, "{made:?}");
    let model = Model::open(&packed).unwrap();
    for (name, dtype, shape, values) in &tensors {
        let tensor = model.tensor(name).unwrap();
        assert_eq!((&*tensor.dtype, &tensor.shape), (*dtype, shape));
        assert!(model.read(name).unwrap() == *values, "{name}");
    }
    restore(&model, &again, false, &Watch::default()).unwrap();
    assert!(fs::read(&again).unwrap() == file);
    // A row of three values of four bits is no whole bytes.
    assert_eq!(model.read_rows("f4", 0..2).unwrap(), tensors[4].3);
    assert_eq!(model.read_rows("f6", 1..2).unwrap(), tensors[3].3[750..1500]);
    for name in ["f4", "i4"] {
        let error = model.read_rows(name, 0..1).unwrap_err();
        assert!(matches!(error, FileError::PartOfByte { .. }), "{error}");
    }
}

#[test]
fn bytes_behind_the_last_tensor_are_kept_if_that_is_asked_for() {
    let folder = Folder::new();
    let [plain, packed, again] = ["plain", "packed", "again"].map(|name| folder.path(name));
    let keep = Compression { spec: "rans".parse().unwrap(), force: true, keep_trailing: true };
    let tensors: [Tensor; 1] = [("w", "BF16", vec![200, 100], weights(20_000, 5))];
    let many: Vec<u8> = (0..2 * 1024 * 1024_u32).map(|at| (at / 1000) as u8).collect();
    for (tensors, trailing) in
        [(&tensors[..], &[0; 3][..]), (&tensors, &many), (&[], b"text"), (&tensors, b"")]
    {
        let file = [&safetensors(tensors, None), trailing].concat();
        fs::write(&plain, &file).unwrap();
        if !trailing.is_empty() {
            let error = compressed("rans", &plain, &folder.path("x")).unwrap_err().to_string();
            assert!(error.contains("appended") && error.contains("`--keep-trailing`"), "{error}");
        }
        let made = compress(&plain, &packed, &keep, None, &Watch::default()).unwrap();
        assert!(trailing.len() < 1 << 20 || made.bytes_coded * 20 < made.bytes_raw, "{made:?}");
        let model = Model::open(&packed).unwrap();
        restore(&model, &again, true, &Watch::default()).unwrap();
        assert!(fs::read(&again).unwrap() == file);
        assert_eq!(model.bytes(), file.len() as u64);
        if trailing.is_empty() {
            assert!(model.tensor("zipwire.trailing").is_err());
        } else {
            assert!(model.read("zipwire.trailing").unwrap() == trailing);
        }
    }
    // A reader that does not know the field finds that bytes are missing.
    fs::write(&plain, [&safetensors(&tensors, None), &many[..]].concat()).unwrap();
    compress(&plain, &packed, &keep, None, &Watch::default()).unwrap();
    let mut bytes = fs::read(&packed).unwrap();
    let at = bytes.windows(8).position(|part| part == b"trailing").unwrap();
    bytes[at] = b'T';
    fs::write(&packed, &bytes).unwrap();
    let error = Model::open(&packed).unwrap_err();
    assert!(matches!(error, FileError::Damaged { .. }), "{error}");
}

#[test]
fn values_without_a_header_become_a_container() {
    let folder = Folder::new();
    let (raw, packed) = (folder.path("kv.bin"), folder.path("kv.zw"));
    let compression = Compression { spec: "rans".parse().unwrap(), force: false, keep_trailing: false };
    for len in [0, 1, 262_144, 3_000_001] {
        let values = weights(len / 2 + 1, 8)[..len].to_vec();
        fs::write(&raw, &values).unwrap();
        let _ = fs::remove_file(&packed);
        let report = compress_values(&raw, &packed, DType::Bf16, &compression, &Watch::default()).unwrap();
        assert_eq!(report.bytes_coded, fs::metadata(&packed).unwrap().len());
        let mut back = Vec::new();
        std::io::Read::read_to_end(&mut Reader::new(fs::File::open(&packed).unwrap()), &mut back).unwrap();
        assert!(back == values, "{len}");
    }
}

#[test]
fn damage_is_found_wherever_it_is() {
    let folder = Folder::new();
    let (plain, packed) = (folder.path("m.safetensors"), folder.path("m.zw"));
    let tensors = [("w", "BF16", vec![20, 100], weights(2000, 1)), ("noise", "I32", vec![50], noise(200, 2))];
    fs::write(&plain, safetensors(&tensors, Some("{\"format\":\"pt\"}"))).unwrap();
    compressed("rans", &plain, &packed).unwrap();
    let sound = fs::read(&packed).unwrap();
    let mut refused = 0;
    let alone = Watch { threads: NonZero::<usize>::MIN, ..Watch::default() };
    for at in 0..sound.len() {
        let mut file = sound.clone();
        file[at] ^= 1 << (at % 8);
        fs::write(&packed, &file).unwrap();
        // Spaces in the header, bytes that fill up, and the notes of others are nothing that comes back.
        refused += usize::from(Model::open(&packed).and_then(|model| verify(&model, &alone)).is_err());
    }
    assert!(3 * refused > 2 * sound.len(), "{refused} of {}", sound.len());
    for len in (0..sound.len()).step_by(7) {
        fs::write(&packed, &sound[..len]).unwrap();
        assert!(Model::open(&packed).is_err(), "cut to {len}");
    }
}

#[test]
fn nothing_is_replaced_unasked_and_nothing_half_stays() {
    let folder = Folder::new();
    let plain = folder.path("m.safetensors");
    let file = safetensors(&odd(), None);
    fs::write(&plain, &file).unwrap();
    let packed = folder.path("m.zw");
    fs::write(&packed, "mine").unwrap();
    assert!(matches!(compressed("rans", &plain, &packed), Err(FileError::Exists { .. })));
    assert_eq!(fs::read(&packed).unwrap(), b"mine");
    assert!(matches!(compressed("rans", &plain, &plain), Err(FileError::Same { .. })));

    // Stopped in the middle, nothing is changed.
    let asked = AtomicU64::new(0);
    let cancelled = || asked.fetch_add(1, Ordering::Relaxed) > 15;
    let watch = Watch { cancelled: &cancelled, ..Watch::default() };
    let compression = Compression { spec: "rans".parse().unwrap(), force: true, keep_trailing: false };
    let stopped = compress(&plain, &packed, &compression, None, &watch);
    assert!(matches!(stopped, Err(FileError::Cancelled)), "{stopped:?}");
    assert_eq!(folder.names(), ["m.safetensors", "m.zw"]);
    assert_eq!(fs::read(&packed).unwrap(), b"mine");

    let all = AtomicU64::new(0);
    let done = |bytes| {
        all.fetch_add(bytes, Ordering::Relaxed);
    };
    compress(&plain, &packed, &compression, None, &Watch { done: &done, ..Watch::default() }).unwrap();
    assert_eq!(all.into_inner(), file.len() as u64);
    assert!(matches!(compressed("rans", &packed, &folder.path("twice")), Err(FileError::Compressed { .. })));
    let plain = Model::open(&plain).unwrap();
    assert!(matches!(verify(&plain, &Watch::default()), Err(FileError::NotCompressed { .. })));
}

#[test]
fn a_later_version_is_said_to_be_one() {
    let folder = Folder::new();
    let (plain, path) = (folder.path("m"), folder.path("m.zw"));
    fs::write(&plain, safetensors(&odd(), None)).unwrap();
    compressed("rans", &plain, &path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(9).position(|window| window == b"version\\\"").unwrap() + 10;
    assert_eq!(bytes[at], b'2');
    bytes[at] = b'3';
    fs::write(&path, bytes).unwrap();
    let error = Model::open(&path).unwrap_err().to_string();
    assert!(error.contains("version 3") && error.contains("later zipwire"), "{error}");
}

/// The metadata belong to whoever wrote them: a key of ours in them is no damage.
#[test]
fn a_key_of_somebody_else_is_kept() {
    let folder = Folder::new();
    for (number, text) in
        ["1.0", "{}", r#"{\"version\":2,\"bytes\":7}"#, r#"{\"version\":\"1\"}"#].iter().enumerate()
    {
        let [plain, packed, back] = ["", ".zw", ".back"].map(|end| folder.path(&format!("{number}{end}")));
        let file = safetensors(&odd(), Some(&format!("{{\"zipwire\":\"{text}\"}}")));
        fs::write(&plain, &file).unwrap();
        compressed("rans", &plain, &packed).unwrap();
        let model = Model::open(&packed).unwrap();
        assert_eq!(model.notes()["zipwire"], text.replace('\\', ""));
        restore(&model, &back, false, &Watch::default()).unwrap();
        assert!(fs::read(&back).unwrap() == file, "{text}");
    }
}

/// A header as long as the format has it is coded once, and a longer one is refused before anything is written.
#[test]
fn headers_up_to_the_limit_come_back() {
    let folder = Folder::new();
    let [plain, packed, back] = ["m", "m.zw", "m.back"].map(|name| folder.path(name));
    let file = |names: usize| {
        let name = |number: usize| {
            let name = "a".repeat(1_000_000);
            format!("\"{number}{name}\":{{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}")
        };
        let header = format!("{{{}}}", (0..names).map(name).collect::<Vec<_>>().join(","));
        [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
    };
    let bytes = file(99);
    fs::write(&plain, &bytes).unwrap();
    let report = compressed("rans", &plain, &packed).unwrap();
    assert!(report.bytes_coded < 100_000, "{report:?}");
    let model = Model::open(&packed).unwrap();
    verify(&model, &Watch::default()).unwrap();
    restore(&model, &back, false, &Watch::default()).unwrap();
    assert!(fs::read(&back).unwrap() == bytes);
    fs::remove_file(&packed).unwrap();
    fs::write(&plain, file(101)).unwrap();
    let error = compressed("rans", &plain, &packed).unwrap_err().to_string();
    assert!(error.contains("above the format's limit"), "{error}");
    assert_eq!(folder.names(), ["m", "m.back"]);
}

/// Tensors of a few bytes take less than before, whatever is in them, and each is read alone.
#[test]
fn many_small_tensors_take_less_than_before() {
    let folder = Folder::new();
    for (number, (values, most_pct)) in
        [(noise(60_000, 1), 30), (weights(300_000, 2), 60)].into_iter().enumerate()
    {
        let [plain, packed, back] = ["", ".zw", ".back"].map(|end| folder.path(&format!("{number}{end}")));
        let each = values.len() / 10_000;
        let tensor = |number: usize| {
            format!(
                "\"layer.{number}.w\":{{\"dtype\":\"BF16\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                each / 2,
                number * each,
                (number + 1) * each
            )
        };
        let header = format!("{{{}}}", (0..10_000).map(tensor).collect::<Vec<_>>().join(","));
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values].concat();
        fs::write(&plain, &file).unwrap();
        let report = compressed("rans", &plain, &packed).unwrap();
        assert!(report.bytes_coded * 100 < report.bytes_raw * most_pct, "{report:?}");
        let model = Model::open(&packed).unwrap();
        for number in [0, 1, 4999, 9998, 9999, 5] {
            let name = format!("layer.{number}.w");
            assert!(model.read(&name).unwrap() == values[number * each..(number + 1) * each], "{name}");
            assert!(model.bytes_kept(&name).unwrap() <= each as u64);
        }
        restore(&model, &back, false, &Watch::default()).unwrap();
        assert!(fs::read(&back).unwrap() == file);
    }
}

#[test]
fn an_input_that_changes_is_noticed() {
    let folder = Folder::new();
    let (plain, base, packed) = (folder.path("m"), folder.path("base"), folder.path("m.zw"));
    let write = |path: &std::path::Path| fs::write(path, safetensors(&odd(), None)).unwrap();
    for changed in [&plain, &base] {
        write(&plain);
        write(&base);
        let model = Arc::new(Model::open(&base).unwrap());
        model.digest().unwrap();
        let change = |_| {
            let file = fs::OpenOptions::new().write(true).open(changed).unwrap();
            file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60)).unwrap();
        };
        let compression = Compression { spec: "rans".parse().unwrap(), force: false, keep_trailing: false };
        let watch = Watch { done: &change, ..Watch::default() };
        let error = compress(&plain, &packed, &compression, Some(&model.clone().into()), &watch).unwrap_err();
        assert!(matches!(&error, FileError::Changed { path } if path == changed), "{error}");
        assert_eq!(folder.names(), ["base", "m"]);
    }
    let values = compress_values(
        &plain,
        &packed,
        DType::Bf16,
        &Compression { spec: "rans".parse().unwrap(), force: false, keep_trailing: false },
        &Watch { done: &|_| fs::write(&plain, "short").unwrap(), ..Watch::default() },
    );
    assert!(matches!(values, Err(FileError::Changed { .. } | FileError::Io { .. })), "{values:?}");
}
