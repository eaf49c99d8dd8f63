//! Frames of this version of the format, by hash. If one of these changes, so has the format: then `docs/format.md` and
//! the version change too.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "levels are tested in processes of their own"
)]

mod common;

use std::process::Command;

use common::Frame;
use common::content::Content;
use xxhash_rust::xxh3::xxh3_64;
use zipwire_codec::{DType, Layout, SimdLevel, Spec, force_simd, simd_levels};

/// Codec, layout, kind of values, XXH3 of static and dynamic section. 20 001 values each.
#[rustfmt::skip]
const GOLDEN: &[(&str, DType, Layout, Content, u64)] = &[
    ("raw", DType::F32, Layout::Split, Content::Gaussian, 0x7d1fb5a77bd5414d),
    ("raw", DType::F32, Layout::Compact, Content::Gaussian, 0x25ba28dc5a302bbc),
    ("window7", DType::Bf16, Layout::Split, Content::Gaussian, 0xe3efabccf780a2a3),
    ("window7", DType::Bf16, Layout::Compact, Content::Gaussian, 0x087e6ad3541a8886),
    ("window7", DType::Bf16, Layout::Split, Content::Rows, 0x29bf11e003199a92),
    ("window7", DType::Bf16, Layout::Compact, Content::Rows, 0xa55535b6bebc8795),
    ("window7", DType::Bf16, Layout::Split, Content::SomeZeros, 0x92ab580bf853385f),
    ("window7", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x207cdc05c1673e60),
    ("window7", DType::Bf16, Layout::Split, Content::Special, 0x1455c4e691671464),
    ("window7", DType::Bf16, Layout::Compact, Content::Special, 0xa937cdc32a670b15),
    ("window7", DType::Bf16, Layout::Split, Content::Noise, 0xb41b2744042ade22),
    ("window7", DType::Bf16, Layout::Compact, Content::Noise, 0x0b6babe2946ee96a),
    ("window7", DType::F32, Layout::Split, Content::Gaussian, 0xae71f93f8fb5bf0a),
    ("window7", DType::F32, Layout::Compact, Content::Gaussian, 0x93ee4d6c0105a744),
    ("window7", DType::F32, Layout::Split, Content::Rows, 0x00943f33a2ba83e9),
    ("window7", DType::F32, Layout::Compact, Content::Rows, 0xe755fa4e2cdb3193),
    ("window7", DType::F32, Layout::Split, Content::SomeZeros, 0xab2dd5f0ce7d7b13),
    ("window7", DType::F32, Layout::Compact, Content::SomeZeros, 0xd9ade72d67248623),
    ("window7:scale=std", DType::Bf16, Layout::Split, Content::Gaussian, 0xe3efabccf780a2a3),
    ("window7:scale=std", DType::Bf16, Layout::Compact, Content::Gaussian, 0x087e6ad3541a8886),
    ("window7:scale=std", DType::Bf16, Layout::Split, Content::Rows, 0xbe0e10737d028cf2),
    ("window7:scale=std", DType::Bf16, Layout::Compact, Content::Rows, 0x805b9be8d9e0ccc9),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Split, Content::Gaussian, 0xe3efabccf780a2a3),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Compact, Content::Gaussian, 0x087e6ad3541a8886),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Split, Content::Rows, 0xbe0e10737d028cf2),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Compact, Content::Rows, 0xab67adb23958c1f5),
    ("tiered", DType::Bf16, Layout::Split, Content::Gaussian, 0x1adface2453261e8),
    ("tiered", DType::Bf16, Layout::Compact, Content::Gaussian, 0x6751d3e73580a3b2),
    ("tiered", DType::Bf16, Layout::Split, Content::Rows, 0x4e4c9a7e8bb6b395),
    ("tiered", DType::Bf16, Layout::Compact, Content::Rows, 0xf9841126fe9634aa),
    ("tiered", DType::Bf16, Layout::Split, Content::SomeZeros, 0xfc0c70475fbdf122),
    ("tiered", DType::Bf16, Layout::Compact, Content::SomeZeros, 0xe159d7756d9e89e9),
    ("tiered", DType::Bf16, Layout::Split, Content::Special, 0x5d81bb3a58917cd7),
    ("tiered", DType::Bf16, Layout::Compact, Content::Special, 0xcf3aa4cef9048011),
    ("tiered", DType::Bf16, Layout::Split, Content::Noise, 0x38919d111a3ab6d2),
    ("tiered", DType::Bf16, Layout::Compact, Content::Noise, 0x062e8726b37bd1bc),
    ("tiered", DType::F16, Layout::Split, Content::Rows, 0x7d7a92f29d23afa4),
    ("tiered", DType::F16, Layout::Compact, Content::Rows, 0xf268ba0e1b023d32),
    ("tiered", DType::F16, Layout::Split, Content::SomeZeros, 0xc886ddd728094776),
    ("tiered", DType::F16, Layout::Compact, Content::SomeZeros, 0x63d3e22e52cd70c1),
    ("tiered", DType::F32, Layout::Split, Content::Rows, 0x7a7090ec0e8ac774),
    ("tiered", DType::F32, Layout::Compact, Content::Rows, 0x2a4729337c3512ee),
    ("tiered", DType::F32, Layout::Split, Content::SomeZeros, 0x861a0ae1e52a70d4),
    ("tiered", DType::F32, Layout::Compact, Content::SomeZeros, 0x15d1cf3ed04db446),
    ("tiered", DType::F32, Layout::Split, Content::Sums, 0xf52cc0646824ac36),
    ("tiered", DType::F32, Layout::Compact, Content::Sums, 0x2adaf2d768c9b34b),
    ("tiered", DType::F8E4M3, Layout::Split, Content::Rows, 0x02e5487c74fc2fc8),
    ("tiered", DType::F8E4M3, Layout::Compact, Content::Rows, 0x92e7abf2c152e997),
    ("tiered", DType::F8E4M3, Layout::Split, Content::SomeZeros, 0x1cc28153754bcf78),
    ("tiered", DType::F8E4M3, Layout::Compact, Content::SomeZeros, 0x179413131f422c42),
    ("tiered", DType::F8E5M2, Layout::Split, Content::Rows, 0xdded74afa424646a),
    ("tiered", DType::F8E5M2, Layout::Compact, Content::Rows, 0xf4bfc6372c15bc4d),
    ("tiered", DType::F8E5M2, Layout::Split, Content::SomeZeros, 0x935b9f519ac66cd4),
    ("tiered", DType::F8E5M2, Layout::Compact, Content::SomeZeros, 0x2a0751d147f57b13),
    ("tiered:row=8", DType::Bf16, Layout::Split, Content::Columns, 0x52e3ee88f185c962),
    ("tiered:row=8", DType::Bf16, Layout::Compact, Content::Columns, 0x52657238724be9a3),
    ("tiered:row=8", DType::F16, Layout::Split, Content::Columns, 0xdbd47396b6277516),
    ("tiered:row=8", DType::F16, Layout::Compact, Content::Columns, 0x3acc5d15e00781a2),
    ("tiered:row=8", DType::F32, Layout::Split, Content::Columns, 0x2bac9e9bf869a718),
    ("tiered:row=8", DType::F32, Layout::Compact, Content::Columns, 0xfc25cc4330b84f86),
    ("tiered:row=8", DType::F8E4M3, Layout::Split, Content::Columns, 0xe0a6747d018b7e32),
    ("tiered:row=8", DType::F8E4M3, Layout::Compact, Content::Columns, 0xf6709622f3a8f0db),
    ("codebook16", DType::Bf16, Layout::Split, Content::Gaussian, 0x9d3d43c0427e1abb),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Gaussian, 0xb669286d8fe785de),
    ("codebook16", DType::Bf16, Layout::Split, Content::Rows, 0xd92816469ab6f4fe),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Rows, 0x5d580ae688bede51),
    ("codebook16", DType::Bf16, Layout::Split, Content::SomeZeros, 0xd7b701fbe88b5e5d),
    ("codebook16", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x5eee8b291895fab8),
    ("codebook16", DType::Bf16, Layout::Split, Content::Special, 0x5ab6b22341095592),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Special, 0xaa861a70671027ec),
    ("codebook16", DType::Bf16, Layout::Split, Content::Noise, 0x2576000d02149b4f),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Noise, 0xe9f624490b6de341),
    ("codebook16", DType::F8E5M2, Layout::Split, Content::Rows, 0x17df4be464794d9e),
    ("codebook16", DType::F8E5M2, Layout::Compact, Content::Rows, 0x108fa62d1d89928e),
    ("codebook16", DType::F8E5M2, Layout::Split, Content::SomeZeros, 0x22710646532f3b4d),
    ("codebook16", DType::F8E5M2, Layout::Compact, Content::SomeZeros, 0x7b6752931e4b83c3),
    ("codebook16", DType::F8E4M3, Layout::Split, Content::Rows, 0x4f1213b62f052a5c),
    ("codebook16", DType::F8E4M3, Layout::Compact, Content::Rows, 0x462d2f7d36f82f86),
    ("codebook16", DType::F8E4M3, Layout::Split, Content::SomeZeros, 0x484661a37e226fbe),
    ("codebook16", DType::F8E4M3, Layout::Compact, Content::SomeZeros, 0x3a4b2ccc21961307),
    ("dedup:row=3+raw", DType::Bf16, Layout::Compact, Content::SomeZeros, 0xa360b493070880b4),
    ("dedup:row=100+tiered", DType::Bf16, Layout::Compact, Content::Rows, 0x44c22e9853484384),
    ("dedup:row=100+tiered", DType::Bf16, Layout::Split, Content::Rows, 0x4e4c9a7e8bb6b395),
    ("dedup:row=64+window7", DType::Bf16, Layout::Compact, Content::LoneValue, 0x839d3f40f79fa1be),
];

/// As [`GOLDEN`], for more values than caches are trusted with: [`LARGE_COUNT`] each.
#[rustfmt::skip]
const LARGE: &[(&str, DType, Layout, Content, u64)] = &[
    ("window7", DType::Bf16, Layout::Split, Content::Gaussian, 0x998799d6c0f356d5),
    ("window7", DType::Bf16, Layout::Split, Content::Rows, 0x9f6478636a047bb4),
    ("window7", DType::Bf16, Layout::Split, Content::SomeZeros, 0x631dec2eb758cba1),
    ("window7", DType::Bf16, Layout::Compact, Content::Gaussian, 0xdcc13b7c38e4cfb7),
    ("window7", DType::Bf16, Layout::Compact, Content::Rows, 0xa2bd263974d778a1),
    ("window7", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x1f7bf97b83be7138),
    ("tiered", DType::Bf16, Layout::Split, Content::Gaussian, 0x9d80029b26987bf0),
    ("tiered", DType::Bf16, Layout::Split, Content::Rows, 0x8f5af3160f3aab30),
    ("tiered", DType::Bf16, Layout::Split, Content::SomeZeros, 0x5b7eea3a8295b4e3),
    ("tiered", DType::Bf16, Layout::Compact, Content::Gaussian, 0x7fad4a7249974235),
    ("tiered", DType::Bf16, Layout::Compact, Content::Rows, 0x54ea7d5e49632b84),
    ("tiered", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x47426368f0c81d8f),
    ("codebook16", DType::Bf16, Layout::Split, Content::Gaussian, 0x139cec28e0869f68),
    ("codebook16", DType::Bf16, Layout::Split, Content::Rows, 0x2812c54037b5f570),
    ("codebook16", DType::Bf16, Layout::Split, Content::SomeZeros, 0x253f86aa352f307c),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Gaussian, 0xb43b14ea5a5ce948),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Rows, 0xfb54189c0cabad84),
    ("codebook16", DType::Bf16, Layout::Compact, Content::SomeZeros, 0xa9dd841e768b91b8),
    ("window7", DType::F32, Layout::Split, Content::Rows, 0x27725615a8fe0959),
    ("window7", DType::F32, Layout::Compact, Content::Rows, 0x11509d7f8e59821a),
    ("tiered", DType::F32, Layout::Split, Content::Rows, 0x141a031c8b4b6729),
    ("tiered", DType::F32, Layout::Compact, Content::Rows, 0x0fba0f3d1df7b1ea),
    ("codebook16", DType::F8E5M2, Layout::Split, Content::Rows, 0xfb2ce23e92c3d498),
    ("codebook16", DType::F8E5M2, Layout::Compact, Content::Rows, 0x994ce6d042d9f9c4),
];

/// More than 2 MiB of BF16, and no whole number of blocks.
const LARGE_COUNT: usize = (1 << 20) + 777;

/// What tells a process of this test its SIMD level, where it is not the best one.
const LEVEL: &str = "ZIPWIRE_TEST_LEVEL";

#[test]
fn frames_have_not_changed() {
    if let Ok(name) = std::env::var(LEVEL) {
        force_simd(SimdLevel::from_name(&name).unwrap()).unwrap();
    }
    let rows = GOLDEN.iter().map(|row| (row, 20_001)).chain(LARGE.iter().map(|row| (row, LARGE_COUNT)));
    let mut changed = String::new();
    for ((spec, dtype, layout, content, expected), count) in rows {
        let values = content.values(*dtype, count, 12);
        let codec = spec.parse::<Spec>().unwrap().codec();
        let frame = Frame::new(&*codec, *layout, *dtype, &values);
        frame.assert_survives(spec);
        let found = xxh3_64(&[frame.static_section, frame.dynamic_section].concat());
        if found != *expected {
            changed += &format!(
                "    (\"{spec}\", DType::{dtype:?}, Layout::{layout:?}, Content::{content:?}, {found:#018x}),\n"
            );
        }
    }
    assert!(changed.is_empty(), "these frames are others now:\n{changed}");
}

/// A process has one level, so each other one of this machine has a process of its own.
#[test]
fn frames_are_the_same_on_every_level() {
    for level in simd_levels() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output =
            command.args(["--exact", "frames_have_not_changed"]).env(LEVEL, level.name()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{level}:\n{text}");
    }
}
