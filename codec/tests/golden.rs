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
    ("raw", DType::F32, Layout::Split, Content::Gaussian, 0x04cb9ac9c72555e4),
    ("raw", DType::F32, Layout::Compact, Content::Gaussian, 0x5f22ee8dda247fda),
    ("window7", DType::Bf16, Layout::Split, Content::Gaussian, 0x09a9ac3bc70e5cfa),
    ("window7", DType::Bf16, Layout::Compact, Content::Gaussian, 0xa86442256bb8c2f9),
    ("window7", DType::Bf16, Layout::Split, Content::Rows, 0xbb6af34e8647378c),
    ("window7", DType::Bf16, Layout::Compact, Content::Rows, 0x96e8dd8c8796ef78),
    ("window7", DType::Bf16, Layout::Split, Content::SomeZeros, 0xa77ceaf735f6fc18),
    ("window7", DType::Bf16, Layout::Compact, Content::SomeZeros, 0xa92ebae07943ab11),
    ("window7", DType::Bf16, Layout::Split, Content::Special, 0x036fd9cd5a5682eb),
    ("window7", DType::Bf16, Layout::Compact, Content::Special, 0x783d361a8f6fd3c1),
    ("window7", DType::Bf16, Layout::Split, Content::Noise, 0x2facfb183dc18e9b),
    ("window7", DType::Bf16, Layout::Compact, Content::Noise, 0x8434bc8f58e7d91f),
    ("window7:scale=std", DType::Bf16, Layout::Split, Content::Gaussian, 0x09a9ac3bc70e5cfa),
    ("window7:scale=std", DType::Bf16, Layout::Compact, Content::Gaussian, 0xa86442256bb8c2f9),
    ("window7:scale=std", DType::Bf16, Layout::Split, Content::Rows, 0x8d47b4d43091d7e4),
    ("window7:scale=std", DType::Bf16, Layout::Compact, Content::Rows, 0xe0944426a0d6ec94),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Split, Content::Gaussian, 0x09a9ac3bc70e5cfa),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Compact, Content::Gaussian, 0xa86442256bb8c2f9),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Split, Content::Rows, 0x8d47b4d43091d7e4),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Compact, Content::Rows, 0xe87b6cec04a33aeb),
    ("tiered", DType::Bf16, Layout::Split, Content::Gaussian, 0x5c183761b0b04e4f),
    ("tiered", DType::Bf16, Layout::Compact, Content::Gaussian, 0x137a6186216a6b9b),
    ("tiered", DType::Bf16, Layout::Split, Content::Rows, 0x4c4bf4931e5d990f),
    ("tiered", DType::Bf16, Layout::Compact, Content::Rows, 0x4a17c377351c19db),
    ("tiered", DType::Bf16, Layout::Split, Content::SomeZeros, 0x0adad6fb2142a02c),
    ("tiered", DType::Bf16, Layout::Compact, Content::SomeZeros, 0xf8a0434bf3711aa9),
    ("tiered", DType::Bf16, Layout::Split, Content::Special, 0x188b82a63e7505b4),
    ("tiered", DType::Bf16, Layout::Compact, Content::Special, 0x2b693c7b19cf9dfe),
    ("tiered", DType::Bf16, Layout::Split, Content::Noise, 0xe5a64cf409c39900),
    ("tiered", DType::Bf16, Layout::Compact, Content::Noise, 0xb40c2caddcf0d8bd),
    ("tiered", DType::F16, Layout::Split, Content::Rows, 0x6e05ec8d3a815c55),
    ("tiered", DType::F16, Layout::Compact, Content::Rows, 0xd8e8bc8372471ed6),
    ("tiered", DType::F16, Layout::Split, Content::SomeZeros, 0x0b8dd6b0b3eb25ec),
    ("tiered", DType::F16, Layout::Compact, Content::SomeZeros, 0x527da50de3e95d91),
    ("tiered", DType::F32, Layout::Split, Content::Rows, 0x5ed2f3cb5aec6c94),
    ("tiered", DType::F32, Layout::Compact, Content::Rows, 0xacd57ed9617cfb03),
    ("tiered", DType::F32, Layout::Split, Content::SomeZeros, 0x645ebbea8f4e2cc9),
    ("tiered", DType::F32, Layout::Compact, Content::SomeZeros, 0x37fc31904b3cae75),
    ("tiered", DType::F8E4M3, Layout::Split, Content::Rows, 0x8132cca3a2b5faf8),
    ("tiered", DType::F8E4M3, Layout::Compact, Content::Rows, 0x7628df29441cd421),
    ("tiered", DType::F8E4M3, Layout::Split, Content::SomeZeros, 0xf89ab712fa3980ae),
    ("tiered", DType::F8E4M3, Layout::Compact, Content::SomeZeros, 0xfebda6ca0b5f7be2),
    ("tiered", DType::F8E5M2, Layout::Split, Content::Rows, 0x273b096c6dde4247),
    ("tiered", DType::F8E5M2, Layout::Compact, Content::Rows, 0x98afa268ee38dc48),
    ("tiered", DType::F8E5M2, Layout::Split, Content::SomeZeros, 0x5936ee67b8b32998),
    ("tiered", DType::F8E5M2, Layout::Compact, Content::SomeZeros, 0xf13d70b6e9034cba),
    ("codebook16", DType::Bf16, Layout::Split, Content::Gaussian, 0xc5027f4105e7a141),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Gaussian, 0x09844b2ccb1ece67),
    ("codebook16", DType::Bf16, Layout::Split, Content::Rows, 0xfa65949b2c95961f),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Rows, 0x2450a33b750c326f),
    ("codebook16", DType::Bf16, Layout::Split, Content::SomeZeros, 0xc3cd97a0e101a418),
    ("codebook16", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x83f7c96ef350de74),
    ("codebook16", DType::Bf16, Layout::Split, Content::Special, 0x6db7c52389940ef5),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Special, 0x9c9bc7ae5c37e5f6),
    ("codebook16", DType::Bf16, Layout::Split, Content::Noise, 0x377552feb6af86c4),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Noise, 0xa9842da5df110b7f),
    ("codebook16", DType::F8E5M2, Layout::Split, Content::Rows, 0x790acd8cf9837186),
    ("codebook16", DType::F8E5M2, Layout::Compact, Content::Rows, 0x180702a1f57b0780),
    ("codebook16", DType::F8E5M2, Layout::Split, Content::SomeZeros, 0x0b6b9c322e1ff7ab),
    ("codebook16", DType::F8E5M2, Layout::Compact, Content::SomeZeros, 0x85bf954f5a2d01a3),
    ("codebook16", DType::F8E4M3, Layout::Split, Content::Rows, 0x30ff21f62c56c8f6),
    ("codebook16", DType::F8E4M3, Layout::Compact, Content::Rows, 0xb07035842f14c24d),
    ("codebook16", DType::F8E4M3, Layout::Split, Content::SomeZeros, 0x257b3c945b2ec2c1),
    ("codebook16", DType::F8E4M3, Layout::Compact, Content::SomeZeros, 0xdf55ed5571f6a2b7),
    ("dedup:row=3+raw", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x968ef533ade62787),
    ("dedup:row=100+tiered", DType::Bf16, Layout::Compact, Content::Rows, 0x3803ad3d36332d18),
    ("dedup:row=100+tiered", DType::Bf16, Layout::Split, Content::Rows, 0x4c4bf4931e5d990f),
    ("dedup:row=64+window7", DType::Bf16, Layout::Compact, Content::LoneValue, 0x686ee4f9ace65fed),
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
