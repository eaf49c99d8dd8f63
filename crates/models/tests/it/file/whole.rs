//! Files come back byte for byte, whole and in part, and what is wrong with one is said.

use std::fs;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::common::{Folder, Tensor, compressed, noise, safetensors, weights};
use zipwire_codec::{DType, Reader};
use zipwire_models::file::{
    Compression, FileError, Model, Watch, compress, compress_values, restore, verify,
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
        let compression = Compression { spec: "rans".parse().unwrap(), force: false };
        let watch = Watch { threads: NonZero::new(threads).unwrap(), ..Watch::default() };
        compress(&plain, &packed, &compression, None, &watch).unwrap();
        fs::read(packed).unwrap()
    });
    assert!(files[0] == files[1] && files[1] == files[2]);
}

/// Other readers find all tensors, and those that were not coded as they were.
#[test]
fn a_compressed_file_is_safetensors() {
    let folder = Folder::new();
    let plain = folder.path("m.safetensors");
    fs::write(&plain, safetensors(&odd(), Some("{\"format\":\"pt\"}"))).unwrap();
    let packed = folder.path("m.zw");
    compressed("rans", &plain, &packed).unwrap();
    let bytes = fs::read(&packed).unwrap();
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let notes = metadata.metadata().as_ref().unwrap();
    assert_eq!((notes["format"].as_str(), notes.contains_key("zipwire")), ("pt", true));
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    for (name, dtype, shape, values) in odd() {
        let name = name.replace('\\', "");
        let found = tensors.tensor(&name).unwrap();
        if found.dtype() != safetensors::Dtype::U8 {
            assert_eq!((found.dtype().to_string().as_str(), found.shape()), (dtype, &shape[..]));
            assert!(found.data() == values, "{name}");
        }
    }
    assert_eq!(tensors.tensor("noise").unwrap().dtype(), safetensors::Dtype::F16, "noise is kept as it is");
    assert_eq!(tensors.tensor("w").unwrap().dtype(), safetensors::Dtype::U8);
    assert_eq!(tensors.len(), odd().len() + 1);
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
    let compression = Compression { spec: "rans".parse().unwrap(), force: false };
    let report = compress(&paths[1], &packed, &compression, Some(&base), &Watch::default()).unwrap();
    assert!(report.bytes_coded * 4 < report.bytes_raw, "{report:?}");
    assert!(matches!(Model::open(&packed), Err(FileError::NoBase { .. })));
    assert!(matches!(Model::open_with(&packed, Some(other)), Err(FileError::WrongBase { .. })));
    let model = Model::open_with(&packed, Some(base)).unwrap();
    restore(&model, &again, false, &Watch::default()).unwrap();
    assert!(fs::read(&again).unwrap() == fs::read(&paths[1]).unwrap());

    // A base may be compressed itself: it is named by what is in it.
    let packed_base = folder.path("before.zw");
    compressed("tiered", &paths[0], &packed_base).unwrap();
    let base = Arc::new(Model::open(&packed_base).unwrap());
    verify(&Model::open_with(&packed, Some(base)).unwrap(), &Watch::default()).unwrap();
}

#[test]
fn values_without_a_header_become_a_container() {
    let folder = Folder::new();
    let (raw, packed) = (folder.path("kv.bin"), folder.path("kv.zw"));
    let compression = Compression { spec: "rans".parse().unwrap(), force: false };
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
    let compression = Compression { spec: "rans".parse().unwrap(), force: true };
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
    let path = folder.path("m.zw");
    fs::write(&path, safetensors(&[], Some("{\"zipwire\":\"{\\\"version\\\":2,\\\"new\\\":[]}\"}"))).unwrap();
    let error = Model::open(&path).unwrap_err().to_string();
    assert!(error.contains("version 2") && error.contains("later zipwire"), "{error}");
}
