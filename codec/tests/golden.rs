//! Frames of this version of the format, by hash. If one of these changes, so has the format: then `docs/format.md` and
//! the version change too.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod common;

use common::Frame;
use common::content::Content;
use xxhash_rust::xxh3::xxh3_64;
use zipwire_codec::{DType, Layout};

/// Codec, layout, kind of values, XXH3 of static and dynamic section. 20 001 values each.
#[rustfmt::skip]
const GOLDEN: &[(&str, DType, Layout, Content, u64)] = &[
    ("raw", DType::F32, Layout::Split, Content::Gaussian, 0xad834ff6f626ddda),
    ("raw", DType::F32, Layout::Compact, Content::Gaussian, 0x8b4aacbd8049918c),
    ("window7", DType::Bf16, Layout::Split, Content::Gaussian, 0x6400923b652428d1),
    ("window7", DType::Bf16, Layout::Compact, Content::Gaussian, 0x6a9372be9305027d),
    ("window7", DType::Bf16, Layout::Split, Content::Rows, 0xc6dff8a1b2933f1b),
    ("window7", DType::Bf16, Layout::Compact, Content::Rows, 0x2d3f06d78a17139c),
    ("window7", DType::Bf16, Layout::Split, Content::SomeZeros, 0xaaa8a846821965f8),
    ("window7", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x3631126dad145237),
    ("window7", DType::Bf16, Layout::Split, Content::Special, 0x3d4ecfb86ca4ee5c),
    ("window7", DType::Bf16, Layout::Compact, Content::Special, 0xd059ea16d35d46a9),
    ("window7", DType::Bf16, Layout::Split, Content::Noise, 0x9d0ef079df18108b),
    ("window7", DType::Bf16, Layout::Compact, Content::Noise, 0x9e748d09708f1213),
    ("window7", DType::F32, Layout::Split, Content::Gaussian, 0xe71c610d2b5fe0db),
    ("window7", DType::F32, Layout::Compact, Content::Gaussian, 0xdef70afabb728923),
    ("window7", DType::F32, Layout::Split, Content::Rows, 0x582c3dcbdd84dde7),
    ("window7", DType::F32, Layout::Compact, Content::Rows, 0xbaf18631ba8e5f3a),
    ("window7", DType::F32, Layout::Split, Content::SomeZeros, 0xaf734a2c41928325),
    ("window7", DType::F32, Layout::Compact, Content::SomeZeros, 0x041e7b708f7ab293),
    ("window7:scale=std", DType::Bf16, Layout::Split, Content::Gaussian, 0x6400923b652428d1),
    ("window7:scale=std", DType::Bf16, Layout::Compact, Content::Gaussian, 0x6a9372be9305027d),
    ("window7:scale=std", DType::Bf16, Layout::Split, Content::Rows, 0x4285a750a93f2ded),
    ("window7:scale=std", DType::Bf16, Layout::Compact, Content::Rows, 0xaae2832d85293a2f),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Split, Content::Gaussian, 0x6400923b652428d1),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Compact, Content::Gaussian, 0x6a9372be9305027d),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Split, Content::Rows, 0x4285a750a93f2ded),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Compact, Content::Rows, 0x7681e47cbc0fd732),
    ("tiered", DType::Bf16, Layout::Split, Content::Gaussian, 0x8f11ca492799c7ef),
    ("tiered", DType::Bf16, Layout::Compact, Content::Gaussian, 0xc6ac7647b5f26a56),
    ("tiered", DType::Bf16, Layout::Split, Content::Rows, 0x70cf7ac70ed6ab50),
    ("tiered", DType::Bf16, Layout::Compact, Content::Rows, 0xa4f44c236ec0f533),
    ("tiered", DType::Bf16, Layout::Split, Content::SomeZeros, 0x335925f72cf3db09),
    ("tiered", DType::Bf16, Layout::Compact, Content::SomeZeros, 0xa4c47f958ae691cd),
    ("tiered", DType::Bf16, Layout::Split, Content::Special, 0x5cb4399cce7e9a1d),
    ("tiered", DType::Bf16, Layout::Compact, Content::Special, 0xfa712557dbce97ac),
    ("tiered", DType::Bf16, Layout::Split, Content::Noise, 0x96a822f6faea5833),
    ("tiered", DType::Bf16, Layout::Compact, Content::Noise, 0x213b1472bdc8cc96),
    ("tiered", DType::F16, Layout::Split, Content::Rows, 0xadd426f0de333cf3),
    ("tiered", DType::F16, Layout::Compact, Content::Rows, 0x18735954067aa8d7),
    ("tiered", DType::F16, Layout::Split, Content::SomeZeros, 0xd25732b0ceb6b3fd),
    ("tiered", DType::F16, Layout::Compact, Content::SomeZeros, 0x26ab01a567d02340),
    ("tiered", DType::F32, Layout::Split, Content::Rows, 0xcaaa09fe8f8f4a00),
    ("tiered", DType::F32, Layout::Compact, Content::Rows, 0xdc08af0af5c5b302),
    ("tiered", DType::F32, Layout::Split, Content::SomeZeros, 0x2a62f0772aa71663),
    ("tiered", DType::F32, Layout::Compact, Content::SomeZeros, 0x96d3719addae9c72),
    ("tiered", DType::F32, Layout::Split, Content::Sums, 0x97dc16df9c567857),
    ("tiered", DType::F32, Layout::Compact, Content::Sums, 0x848c2078ddf28914),
    ("tiered", DType::F8E4M3, Layout::Split, Content::Rows, 0xf2fc46a74b61dce0),
    ("tiered", DType::F8E4M3, Layout::Compact, Content::Rows, 0xd06a1f09a4ee75e5),
    ("tiered", DType::F8E4M3, Layout::Split, Content::SomeZeros, 0x2461fbe83d38e901),
    ("tiered", DType::F8E4M3, Layout::Compact, Content::SomeZeros, 0x3f6943b015d56176),
    ("tiered", DType::F8E5M2, Layout::Split, Content::Rows, 0xa8720ed4234fe38f),
    ("tiered", DType::F8E5M2, Layout::Compact, Content::Rows, 0xb3a4f9f1d83f6c26),
    ("tiered", DType::F8E5M2, Layout::Split, Content::SomeZeros, 0xfc652b591b40919b),
    ("tiered", DType::F8E5M2, Layout::Compact, Content::SomeZeros, 0xb38189a62880f522),
    ("tiered:row=8", DType::Bf16, Layout::Split, Content::Columns, 0x4dc861d722ff0aed),
    ("tiered:row=8", DType::Bf16, Layout::Compact, Content::Columns, 0xa2fabc59f63a2216),
    ("tiered:row=8", DType::F16, Layout::Split, Content::Columns, 0x2138725bd161930a),
    ("tiered:row=8", DType::F16, Layout::Compact, Content::Columns, 0xc4eb2494ab0af413),
    ("tiered:row=8", DType::F32, Layout::Split, Content::Columns, 0xa95d281f9df133fa),
    ("tiered:row=8", DType::F32, Layout::Compact, Content::Columns, 0xb5819e4f0582df14),
    ("tiered:row=8", DType::F8E4M3, Layout::Split, Content::Columns, 0xf2d4df7336c5e4aa),
    ("tiered:row=8", DType::F8E4M3, Layout::Compact, Content::Columns, 0xa55ba1e24d73dfb6),
    ("codebook16", DType::Bf16, Layout::Split, Content::Gaussian, 0x440732fe707b14bc),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Gaussian, 0x4873e1f94b05db55),
    ("codebook16", DType::Bf16, Layout::Split, Content::Rows, 0x43f0b91d616b3856),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Rows, 0x53013229ccb32c7a),
    ("codebook16", DType::Bf16, Layout::Split, Content::SomeZeros, 0x1e4094e8710989ec),
    ("codebook16", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x95a30088fdef83f4),
    ("codebook16", DType::Bf16, Layout::Split, Content::Special, 0xfd04ae5b75898b16),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Special, 0x72b7965e608bf001),
    ("codebook16", DType::Bf16, Layout::Split, Content::Noise, 0x6bba467f81ef1c37),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Noise, 0x4b157af9ca92060a),
    ("codebook16", DType::F8E5M2, Layout::Split, Content::Rows, 0xae8829078c1ffcc7),
    ("codebook16", DType::F8E5M2, Layout::Compact, Content::Rows, 0x25c33aa3b4a97c05),
    ("codebook16", DType::F8E5M2, Layout::Split, Content::SomeZeros, 0xd48eb186ed9e0b89),
    ("codebook16", DType::F8E5M2, Layout::Compact, Content::SomeZeros, 0xac75f91ffb8640ff),
    ("codebook16", DType::F8E4M3, Layout::Split, Content::Rows, 0x206493432ff50906),
    ("codebook16", DType::F8E4M3, Layout::Compact, Content::Rows, 0xc16faca65f21eb85),
    ("codebook16", DType::F8E4M3, Layout::Split, Content::SomeZeros, 0xae7f4d0affafc6ec),
    ("codebook16", DType::F8E4M3, Layout::Compact, Content::SomeZeros, 0xe33685b5f93b6aaa),
    ("dedup:row=3+raw", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x21156b7906cb3a8f),
    ("dedup:row=100+tiered", DType::Bf16, Layout::Compact, Content::Rows, 0x22f93c6a799c4562),
    ("dedup:row=100+tiered", DType::Bf16, Layout::Split, Content::Rows, 0x70cf7ac70ed6ab50),
    ("dedup:row=64+window7", DType::Bf16, Layout::Compact, Content::LoneValue, 0x2ec849ae437dedde),
];

#[test]
fn frames_have_not_changed() {
    let mut changed = String::new();
    for (spec, dtype, layout, content, expected) in GOLDEN {
        let values = content.values(*dtype, 20_001, 12);
        let codec = common::codec(spec);
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
