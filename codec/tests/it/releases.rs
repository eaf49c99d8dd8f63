//! Frames and containers that releases wrote are read for ever: each release has left some in `tests/it/releases`.
//!
//! A release of a new version begins with `cargo test -p zipwire-codec --test it releases::writes -- --ignored`, which adds a folder and changes none.

#![allow(clippy::disallowed_methods, reason = "releases are files")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::common::content::{Content, every_pattern};
use crate::common::table;
use xxhash_rust::xxh3::xxh3_64;
use zipwire_codec::{Base, Codec, DType, Decoder, FrameInfo, Layout, Reader, Spec, Table, WriterOptions};

/// Files of each release: consecutive frames, a container, and a list of the content of both.
const FRAMES: &str = "frames.bin";
const CONTAINER: &str = "container.bin";
const LIST: &str = "list.txt";

/// Specs of the release that is written.
const SPECS: [&str; 20] = [
    "raw",
    "window7",
    "window7:scale=std",
    "tiered",
    "tiered:row=8",
    "codebook16",
    "codebook16:table",
    "rans",
    "rans:mantissa=2",
    "rans:row=8",
    "rans:table",
    "grouped",
    "blockwise",
    "huffman",
    "planes",
    "planes:width=8",
    "dedup:row=3+tiered",
    "delta+rans",
    "delta+tiered",
    "delta+planes",
];
const CONTENTS: [Content; 6] = [
    Content::Rows,
    Content::Columns,
    Content::SomeZeros,
    Content::LoneValue,
    Content::Special,
    Content::Noise,
];

fn releases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/releases")
}

#[test]
fn frames_of_all_releases_are_read() {
    zipwire_paper_codecs::register();
    let mut names: Vec<String> = fs::read_dir(releases())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(
        names.iter().any(|name| name == env!("CARGO_PKG_VERSION")),
        "this version has left no frames: see the head of this file"
    );
    for name in names {
        let folder = releases().join(&name);
        let list = fs::read_to_string(folder.join(LIST)).unwrap();
        let frames = fs::read(folder.join(FRAMES)).unwrap();
        let mut decoder = Decoder::new();
        let mut codecs = BTreeSet::new();
        let mut at = 0;
        for line in list.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["table", bytes] => {
                    let bytes = (0..bytes.len()).step_by(2).map(|i| &bytes[i..i + 2]);
                    let table = Table::new(
                        bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect::<Vec<_>>(),
                    );
                    decoder.add_table(table).unwrap();
                }
                [kind @ ("frame" | "base"), spec, dtype, hash] => {
                    let info = FrameInfo::peek(&frames[at..]).unwrap();
                    let frame = &frames[at..at + info.frame_len()];
                    let values =
                        decoder.decompress(frame).unwrap_or_else(|error| panic!("{name}: {line}: {error}"));
                    assert_eq!(format!("{:016x}", xxh3_64(&values)), hash, "{name}: {line}: other values");
                    assert_eq!(info.shape.dtype.name(), dtype);
                    if kind == "base" {
                        decoder.add_base(Base::new(info.shape.dtype, values)).unwrap();
                    }
                    codecs.insert((info.codec, spec.to_owned()));
                    at += info.frame_len();
                }
                ["container", hash] => {
                    let container = fs::read(folder.join(CONTAINER)).unwrap();
                    let mut data = Vec::new();
                    Reader::new(&container[..]).read_to_end(&mut data).unwrap();
                    assert_eq!(format!("{:016x}", xxh3_64(&data)), hash, "{name}: other data");
                }
                _ => panic!("{name}: `{line}` is not known"),
            }
        }
        assert_eq!(at, frames.len(), "{name}: the list is of other frames");
        let names: BTreeSet<&str> = codecs.iter().map(|(codec, _)| *codec).collect();
        assert!(names.len() >= 10, "{name}: frames of {names:?} only");
    }
}

/// Writes the folder of this version. What a release wrote is not written again.
#[test]
#[ignore = "writes files of a new release"]
fn writes_the_files_of_this_release() {
    zipwire_paper_codecs::register();
    let folder = releases().join(env!("CARGO_PKG_VERSION"));
    fs::create_dir(&folder).unwrap();
    let mut release = Release::default();
    for dtype in DType::ALL {
        let base = Content::Gaussian.values(dtype, 4000, 1);
        release.add_whole("base", "raw", Layout::Compact, dtype, &base);
        for name in SPECS.into_iter().filter(|name| !name.ends_with(":table")) {
            release.add_spec(name, dtype, &base);
        }
    }
    release.add_whole("frame", "tiered", Layout::Split, DType::F8E4M3, &every_pattern(DType::F8E4M3));
    for name in SPECS.into_iter().filter(|name| name.ends_with(":table")) {
        release.add_table(name);
    }
    let mut data = Content::Rows.values(DType::F32, 3000, 7);
    data.extend([1, 2, 3]);
    let mut writer = WriterOptions::new(DType::F32).chunk_values(1000).open(Vec::new()).unwrap();
    writer.write_all(&data).unwrap();
    fs::write(folder.join(CONTAINER), writer.finish().unwrap()).unwrap();
    writeln!(release.list, "container {:016x}", xxh3_64(&data)).unwrap();
    fs::write(folder.join(FRAMES), release.frames).unwrap();
    fs::write(folder.join(LIST), release.list).unwrap();
}

/// Files of a release, as they grow.
#[derive(Default)]
struct Release {
    frames: Vec<u8>,
    list: String,
}

impl Release {
    fn add(&mut self, kind: &str, spec: &str, dtype: DType, frame: Vec<u8>, values: &[u8]) {
        self.frames.extend(frame);
        writeln!(self.list, "{kind} {spec} {dtype} {:016x}", xxh3_64(values)).unwrap();
    }

    /// Adds a frame of the codec that the spec names.
    fn add_whole(&mut self, kind: &str, name: &str, layout: Layout, dtype: DType, values: &[u8]) {
        let codec = name.parse::<Spec>().unwrap().codec();
        self.add(kind, name, dtype, codec.encode_to_vec(layout, dtype, values).unwrap(), values);
    }

    /// Adds frames of a spec without a table: of values near the base if it takes one, else of all contents.
    fn add_spec(&mut self, name: &str, dtype: DType, base: &[u8]) {
        let spec: Spec = name.parse().unwrap();
        if spec.takes_base() {
            let spec = spec.against(Base::new(dtype, base.to_vec()));
            let near: Vec<u8> =
                base.iter().enumerate().map(|(i, byte)| byte ^ u8::from(i % 96 == 0)).collect();
            let frame = spec.codec().encode_to_vec(Layout::Compact, dtype, &near).unwrap();
            return self.add("frame", name, dtype, frame, &near);
        }
        if !spec.codec().supports(dtype) {
            return;
        }
        for (layout, content) in
            Layout::ALL.into_iter().flat_map(|layout| CONTENTS.map(|content| (layout, content)))
        {
            self.add_whole("frame", name, layout, dtype, &content.values(dtype, 300, 3));
        }
        // More than a block of any codec, in each of which is something else.
        if dtype == DType::Bf16 {
            let values =
                [Content::LoneValue.values(dtype, 33_000, 4), Content::Rows.values(dtype, 2000, 5)].concat();
            self.add_whole("frame", name, Layout::Compact, dtype, &values);
        }
    }

    /// Adds the tables of a spec, and frames that name them.
    fn add_table(&mut self, name: &str) {
        let spec: Spec = name.trim_end_matches(":table").parse().unwrap();
        for dtype in DType::ALL.into_iter().filter(|dtype| spec.codec().supports(*dtype)) {
            let table = table(&spec, dtype);
            let bytes: String = table.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(self.list, "table {bytes}").unwrap();
            let named = spec.clone().with_table(&table).unwrap();
            for layout in Layout::ALL {
                let values = Content::Gaussian.values(dtype, 700, 6);
                let frame = named.codec().encode_to_vec(layout, dtype, &values).unwrap();
                self.add("frame", name, dtype, frame, &values);
            }
        }
    }
}
