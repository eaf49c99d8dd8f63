//! The layout of version 2, written a second time from `docs/format.md`: what is sound is read, and what no writer writes is refused.

use std::fs;
use std::io::Write;

use super::common::{Folder, compressed, noise, safetensors, weights};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zipwire_codec::{DType, WriterOptions};
use zipwire_models::file::{Model, Watch, damage, restore, salvage, verify};

/// A file as `docs/format.md` has it, in the pieces that it is made of.
#[derive(Clone)]
struct Layout {
    /// The original's header, with its length.
    header: Vec<u8>,
    /// Bytes of the plan, behind the header.
    plan: Vec<u8>,
    /// MiB of zeros behind the plan.
    endless: u64,
    /// Lengths of containers, and digests of pieces.
    words: Vec<u64>,
    values: Vec<u8>,
    /// Fields of the metadata, with texts that take the place of those that fit.
    note: Vec<(&'static str, String)>,
}

impl Layout {
    /// A tensor that is coded, two that share a container, and one that is kept as it is.
    fn sound() -> (Self, Vec<u8>) {
        let tensors = [
            ("w", "BF16", vec![9000], weights(9000, 1)),
            ("a", "BF16", vec![500], weights(500, 2)),
            ("b", "BF16", vec![700], weights(700, 3)),
            ("ids", "I64", vec![3], noise(24, 4)),
        ];
        let file = safetensors(&tensors, Some("{\"format\":\"pt\"}"));
        let header = file[..file.len() - 2 * 10_200 - 24].to_vec();
        let container = |values: &[u8]| {
            let mut writer = WriterOptions::new(DType::Bf16).open(Vec::new()).unwrap();
            writer.write_all(values).unwrap();
            writer.finish().unwrap()
        };
        let containers = [container(&tensors[0].3), container(&[&tensors[1].3[..], &tensors[2].3].concat())];
        let mut words: Vec<u64> = containers.iter().map(|container| container.len() as u64).collect();
        words.push(xxh3_64(&header));
        words.extend(tensors.iter().map(|tensor| xxh3_64(&tensor.3)));
        let values = [&containers[0][..], &containers[1], &tensors[3].3].concat();
        // One tensor in a container, two in one, one as it is.
        let plan = vec![1 << 1 | 1, 2 << 1 | 1, 1 << 1];
        (Self { header, plan, endless: 0, words, values, note: Vec::new() }, file)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut index = zstd::Encoder::new(Vec::new(), 3).unwrap();
        index.write_all(&self.header).unwrap();
        index.write_all(&self.plan).unwrap();
        (0..self.endless).for_each(|_| index.write_all(&[0; 1 << 20]).unwrap());
        let index = index.finish().unwrap();
        let words: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let front = [&index[..], &words].concat();
        let mut digest = Xxh3::new();
        // Behind the lengths of two containers.
        digest.update(&words[16..]);
        let mut note = [
            ("version", "2".to_owned()),
            ("bytes", (self.header.len() + 2 * 10_200 + 24).to_string()),
            ("digest", format!("\"{:032x}\"", digest.digest128())),
            ("index_bytes", index.len().to_string()),
            ("front_bytes", front.len().to_string()),
            ("front_digest", format!("\"{:016x}\"", xxh3_64(&front))),
        ];
        for (key, text) in &self.note {
            note.iter_mut().filter(|(known, _)| known == key).for_each(|entry| entry.1.clone_from(text));
        }
        let note: Vec<String> = note.iter().map(|(key, text)| format!("\"{key}\":{text}")).collect();
        let note = serde_json::to_string(&format!("{{{}}}", note.join(","))).unwrap();
        let len = front.len() + self.values.len();
        let json = format!(
            "{{\"zipwire\":{{\"dtype\":\"ZIPWIRE\",\"shape\":[{len}],\"data_offsets\":[0,{len}]}},\"__metadata__\":{{\"zipwire\":{note}}}}}  "
        );
        [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &front, &self.values].concat()
    }
}

#[test]
fn a_file_that_was_made_from_the_specification_is_read() {
    let folder = Folder::new();
    let (path, back) = (folder.path("m.zw"), folder.path("m"));
    let (layout, file) = Layout::sound();
    fs::write(&path, layout.bytes()).unwrap();
    let model = Model::open(&path).unwrap();
    verify(&model, &Watch::default()).unwrap();
    restore(&model, &back, false, &Watch::default()).unwrap();
    assert!(fs::read(&back).unwrap() == file);
    assert!(model.read("b").unwrap() == weights(700, 3));

    // And what is written is what the specification says, but for the codec's choices.
    fs::remove_file(&path).unwrap();
    compressed("tiered", &back, &path).unwrap();
    let written = fs::read(&path).unwrap();
    let words: Vec<u8> = layout.words[2..].iter().flat_map(|word| word.to_le_bytes()).collect();
    assert!(written.windows(words.len()).any(|window| window == words), "its digests");
}

/// Each is refused when it is opened, with an error that prints, also where it may be cut.
#[test]
fn tables_that_no_writer_writes_are_refused() {
    let folder = Folder::new();
    let path = folder.path("m.zw");
    let (sound, _) = Layout::sound();
    let with = |alter: &dyn Fn(&mut Layout)| {
        let mut layout = sound.clone();
        alter(&mut layout);
        layout
    };
    let plans: [&[u8]; 9] = [
        &[],
        &[3, 5],
        &[3, 5, 2, 2],
        &[3, 5, 0, 2],
        &[3, 5, 4],
        &[3, 5, 0x82],
        &[3, 5, 0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[9],
    ];
    let mut cases: Vec<(String, Layout)> =
        plans.iter().map(|plan| (format!("{plan:?}"), with(&|layout| layout.plan = plan.to_vec()))).collect();
    for (key, text) in [
        ("version", "3"),
        ("version", "\"2\""),
        ("bytes", "1"),
        ("bytes", "18446744073709551615"),
        ("digest", "\"00000000000000000000000000000000\""),
        ("index_bytes", "0"),
        ("index_bytes", "7"),
        ("index_bytes", "18446744073709551615"),
        ("front_bytes", "0"),
        ("front_bytes", "18446744073709551615"),
        ("front_digest", "\"0000000000000000\""),
    ] {
        cases.push((format!("{key} {text}"), with(&|layout| layout.note = vec![(key, text.to_owned())])));
    }
    for lens in [[0, 0], [u64::MAX, 1], [1, u64::MAX], [u64::MAX, u64::MAX]] {
        cases.push((format!("{lens:?}"), with(&|layout| layout.words[..2].copy_from_slice(&lens))));
    }
    cases.push(("a word less".to_owned(), with(&|layout| layout.words.truncate(6))));
    cases.push(("a word more".to_owned(), with(&|layout| layout.words.push(7))));
    cases.push(("values less".to_owned(), with(&|layout| layout.values.truncate(100))));
    cases.push(("a header that is cut".to_owned(), with(&|layout| layout.header.truncate(40))));
    cases.push(("a header of nothing".to_owned(), with(&|layout| layout.header = vec![0xff; 8])));
    for (name, layout) in cases {
        fs::write(&path, layout.bytes()).unwrap();
        let error = Model::open(&path).map(drop).unwrap_err().to_string();
        assert!(error.contains("m.zw"), "{name}: {error}");
        assert!(Model::open_cut(&path, None).is_err(), "{name}");
    }
}

/// Containers of other lengths or values than the tables say, and wrong digests, are damage of the tensors that have them.
#[test]
fn what_tables_say_falsely_of_a_tensor_is_damage_of_it() {
    let folder = Folder::new();
    let (path, back) = (folder.path("m.zw"), folder.path("back"));
    let (sound, _) = Layout::sound();
    let lost = |alter: &dyn Fn(&mut Layout)| {
        let mut layout = sound.clone();
        alter(&mut layout);
        fs::write(&path, layout.bytes()).unwrap();
        let model = Model::open(&path).unwrap();
        let lost = damage(&model, &Watch::default()).unwrap();
        assert_eq!(salvage(&model, &back, true, &Watch::default()).unwrap(), lost);
        assert_eq!(verify(&model, &Watch::default()).is_err(), !lost.is_empty());
        for damage in &lost {
            assert!(model.read(damage.tensor.as_ref().unwrap()).is_err());
        }
        lost.into_iter().map(|damage| damage.tensor.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(lost(&|_| ()), [""; 0]);
    for (word, tensor) in [(3, "w"), (4, "a"), (5, "b"), (6, "ids")] {
        assert_eq!(lost(&|layout| layout.words[word] ^= 1), [tensor]);
    }
    assert_eq!(lost(&|layout| layout.words[..2].swap(0, 1)), ["w", "a", "b"]);
    // The header's own digest belongs to no tensor: the file does not open, or it is not the original's.
    let mut layout = sound.clone();
    layout.words[2] ^= 1;
    fs::write(&path, layout.bytes()).unwrap();
    let error = Model::open(&path).map(drop).unwrap_err().to_string();
    assert!(error.contains("header"), "{error}");
}

/// However far a coded index grows, no more of it is kept than the longest header takes.
#[test]
fn an_index_that_grows_without_end_is_refused() {
    let folder = Folder::new();
    let path = folder.path("m.zw");
    let (mut layout, _) = Layout::sound();
    layout.endless = 210;
    fs::write(&path, layout.bytes()).unwrap();
    let error = Model::open(&path).map(drop).unwrap_err().to_string();
    assert!(error.contains("has not the length"), "{error}");
}
