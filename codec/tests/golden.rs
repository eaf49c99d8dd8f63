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
use zipwire_codec::{DType, Layout, SimdLevel, force_simd, simd_levels};

/// Codec, layout, kind of values, XXH3 of static and dynamic section. 20 001 values each. Those of `grouped` with rows have groups by zstd, in the version
/// that `Cargo.lock` names.
#[rustfmt::skip]
const GOLDEN: &[(&str, DType, Layout, Content, u64)] = &[
    ("auto", DType::Bf16, Layout::Split, Content::Gaussian, 0x65a6687de8e9f643),
    ("auto", DType::Bf16, Layout::Split, Content::SomeZeros, 0x0316f344dba0716e),
    ("auto", DType::Bf16, Layout::Compact, Content::Gaussian, 0x6c09b5bf7eefdd0f),
    ("auto", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x30c31cef4d733d73),
    ("auto:goal=size", DType::Bf16, Layout::Split, Content::Gaussian, 0xf2056b66a5640cc0),
    ("auto:goal=size", DType::Bf16, Layout::Split, Content::SomeZeros, 0x78b72e716f3d5e53),
    ("auto:goal=size", DType::Bf16, Layout::Compact, Content::Gaussian, 0xca7a6ec4d3ae6103),
    ("auto:goal=size", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x89ba6648a4b0a572),
    ("auto:goal=speed", DType::F32, Layout::Split, Content::Gaussian, 0x3a884ad992cff1aa),
    ("auto:goal=speed", DType::F32, Layout::Split, Content::SomeZeros, 0x4cec061b8fa7a49d),
    ("auto:goal=speed", DType::F32, Layout::Compact, Content::Gaussian, 0x47226e704db1dba0),
    ("auto:goal=speed", DType::F32, Layout::Compact, Content::SomeZeros, 0xf9a7587019bf8875),
    ("raw", DType::F32, Layout::Split, Content::Gaussian, 0x3a884ad992cff1aa),
    ("raw", DType::F32, Layout::Compact, Content::Gaussian, 0x47226e704db1dba0),
    ("window7", DType::Bf16, Layout::Split, Content::Gaussian, 0xefb0aed973f2401c),
    ("window7", DType::Bf16, Layout::Compact, Content::Gaussian, 0xb00aa828a36d1bd7),
    ("window7", DType::Bf16, Layout::Split, Content::Rows, 0x10d28fe7a803191b),
    ("window7", DType::Bf16, Layout::Compact, Content::Rows, 0x6fa2ce79450fb031),
    ("window7", DType::Bf16, Layout::Split, Content::SomeZeros, 0x88b9e66da118258a),
    ("window7", DType::Bf16, Layout::Compact, Content::SomeZeros, 0xdba27c2137fd86b3),
    ("window7", DType::Bf16, Layout::Split, Content::Special, 0x965ecb056802d92d),
    ("window7", DType::Bf16, Layout::Compact, Content::Special, 0x4b3fea31f283a151),
    ("window7", DType::Bf16, Layout::Split, Content::Noise, 0xf39c8bea7c332c6d),
    ("window7", DType::Bf16, Layout::Compact, Content::Noise, 0x2435127d75e51f4c),
    ("window7", DType::F32, Layout::Split, Content::Gaussian, 0xda2696b0593af52f),
    ("window7", DType::F32, Layout::Compact, Content::Gaussian, 0xc7beb379e5cbc6d1),
    ("window7", DType::F32, Layout::Split, Content::Rows, 0x71f5fa11c9a79f9e),
    ("window7", DType::F32, Layout::Compact, Content::Rows, 0x65be7c8d5427da40),
    ("window7", DType::F32, Layout::Split, Content::SomeZeros, 0x846e9b28016453a8),
    ("window7", DType::F32, Layout::Compact, Content::SomeZeros, 0xe02f036d70008584),
    ("window7:scale=std", DType::Bf16, Layout::Split, Content::Gaussian, 0xefb0aed973f2401c),
    ("window7:scale=std", DType::Bf16, Layout::Compact, Content::Gaussian, 0xb00aa828a36d1bd7),
    ("window7:scale=std", DType::Bf16, Layout::Split, Content::Rows, 0xe4b55efa7de4aeb3),
    ("window7:scale=std", DType::Bf16, Layout::Compact, Content::Rows, 0xf4279aa63eeb78cc),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Split, Content::Gaussian, 0xefb0aed973f2401c),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Compact, Content::Gaussian, 0xb00aa828a36d1bd7),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Split, Content::Rows, 0xe4b55efa7de4aeb3),
    ("window7:scale=mean-abs", DType::Bf16, Layout::Compact, Content::Rows, 0x01af4af4146882da),
    ("tiered", DType::Bf16, Layout::Split, Content::Gaussian, 0x65a6687de8e9f643),
    ("tiered", DType::Bf16, Layout::Compact, Content::Gaussian, 0x6c09b5bf7eefdd0f),
    ("tiered", DType::Bf16, Layout::Split, Content::Rows, 0x4016f6886d871065),
    ("tiered", DType::Bf16, Layout::Compact, Content::Rows, 0x2dfbba631afc75ef),
    ("tiered", DType::Bf16, Layout::Split, Content::SomeZeros, 0x0316f344dba0716e),
    ("tiered", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x30c31cef4d733d73),
    ("tiered", DType::Bf16, Layout::Split, Content::Special, 0x9b97fd0f5bca8853),
    ("tiered", DType::Bf16, Layout::Compact, Content::Special, 0xb2bcb6113df80b17),
    ("tiered", DType::Bf16, Layout::Split, Content::Noise, 0xe70338edc48eef33),
    ("tiered", DType::Bf16, Layout::Compact, Content::Noise, 0x0a085d5f4bc60fd7),
    ("tiered", DType::F16, Layout::Split, Content::Rows, 0x6b6726001a3d0a77),
    ("tiered", DType::F16, Layout::Compact, Content::Rows, 0x32c88c7e320494bd),
    ("tiered", DType::F16, Layout::Split, Content::SomeZeros, 0xb596e6c19e8dcbd0),
    ("tiered", DType::F16, Layout::Compact, Content::SomeZeros, 0xee56fc94562f8bfc),
    ("tiered", DType::F32, Layout::Split, Content::Rows, 0xc06f8cf242bf99c2),
    ("tiered", DType::F32, Layout::Compact, Content::Rows, 0x67b021afc2a470aa),
    ("tiered", DType::F32, Layout::Split, Content::SomeZeros, 0x46c7e37485094deb),
    ("tiered", DType::F32, Layout::Compact, Content::SomeZeros, 0xde0b3ca9b6271f80),
    ("tiered", DType::F32, Layout::Split, Content::Sums, 0xe72eb17b57d55587),
    ("tiered", DType::F32, Layout::Compact, Content::Sums, 0xee56e5d01a689594),
    ("tiered", DType::F8E4M3, Layout::Split, Content::Rows, 0x0e8f7b0ba3c9eb15),
    ("tiered", DType::F8E4M3, Layout::Compact, Content::Rows, 0x73c3d38761ae382f),
    ("tiered", DType::F8E4M3, Layout::Split, Content::SomeZeros, 0x27ed4caeb293d1ba),
    ("tiered", DType::F8E4M3, Layout::Compact, Content::SomeZeros, 0xd7eba0ab7a95eedc),
    ("tiered", DType::F8E5M2, Layout::Split, Content::Rows, 0xa0b6ca8243d4bc74),
    ("tiered", DType::F8E5M2, Layout::Compact, Content::Rows, 0xaa4cf75c0a8b597a),
    ("tiered", DType::F8E5M2, Layout::Split, Content::SomeZeros, 0xc91e12c096d66194),
    ("tiered", DType::F8E5M2, Layout::Compact, Content::SomeZeros, 0x713cd8b39fe510c5),
    ("tiered:row=8", DType::Bf16, Layout::Split, Content::Columns, 0x171cf5f5dc2a5ab6),
    ("tiered:row=8", DType::Bf16, Layout::Compact, Content::Columns, 0x3637592b96251d02),
    ("tiered:row=8", DType::F16, Layout::Split, Content::Columns, 0x56596fbdb984a79a),
    ("tiered:row=8", DType::F16, Layout::Compact, Content::Columns, 0x91f7bbd7fb78fd68),
    ("tiered:row=8", DType::F32, Layout::Split, Content::Columns, 0xf8ae8a4daef95ae9),
    ("tiered:row=8", DType::F32, Layout::Compact, Content::Columns, 0xbc5d322ea46ea7db),
    ("tiered:row=8", DType::F8E4M3, Layout::Split, Content::Columns, 0x92b9d49592b827ed),
    ("tiered:row=8", DType::F8E4M3, Layout::Compact, Content::Columns, 0xf185069b82b97e12),
    ("rans", DType::Bf16, Layout::Split, Content::Gaussian, 0xf2056b66a5640cc0),
    ("rans", DType::Bf16, Layout::Compact, Content::Gaussian, 0xca7a6ec4d3ae6103),
    ("rans", DType::Bf16, Layout::Split, Content::Rows, 0x77fbc2325bf1b204),
    ("rans", DType::Bf16, Layout::Compact, Content::Rows, 0xbc5f6ed67e47dc7d),
    ("rans", DType::Bf16, Layout::Split, Content::SomeZeros, 0x78b72e716f3d5e53),
    ("rans", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x89ba6648a4b0a572),
    ("rans", DType::Bf16, Layout::Split, Content::Special, 0x9207e15f5000c7e8),
    ("rans", DType::Bf16, Layout::Compact, Content::Special, 0x0cf8df5f1ba7844c),
    ("rans", DType::Bf16, Layout::Split, Content::Noise, 0xf21eb2dd9d5195c9),
    ("rans", DType::Bf16, Layout::Compact, Content::Noise, 0xf46a7fb6a0fc00ff),
    ("rans", DType::F16, Layout::Split, Content::Rows, 0x57cdf58d8c52e703),
    ("rans", DType::F16, Layout::Compact, Content::Rows, 0xc03b4fb5f545b34a),
    ("rans", DType::F32, Layout::Split, Content::Rows, 0x97826833372a25ec),
    ("rans", DType::F32, Layout::Compact, Content::Rows, 0x88b6af8bca540ae5),
    ("rans", DType::F32, Layout::Split, Content::Sums, 0x8b16d5ade54d2d66),
    ("rans", DType::F32, Layout::Compact, Content::Sums, 0x1d92395597902ac9),
    ("rans", DType::F8E4M3, Layout::Split, Content::Rows, 0x546f1004e1abd60b),
    ("rans", DType::F8E4M3, Layout::Compact, Content::Rows, 0x4e9a344314244430),
    ("rans", DType::F8E5M2, Layout::Split, Content::SomeZeros, 0xc4f093e2145b16eb),
    ("rans", DType::F8E5M2, Layout::Compact, Content::SomeZeros, 0xe04352090e019dd3),
    ("rans:row=8", DType::Bf16, Layout::Split, Content::Columns, 0xb63f12bb47044eff),
    ("rans:row=8", DType::Bf16, Layout::Compact, Content::Columns, 0x600367301080ab39),
("rans:mantissa=2", DType::Bf16, Layout::Compact, Content::Gaussian, 0xc00738c4691cb798),
("rans:mantissa=2", DType::Bf16, Layout::Compact, Content::Rows, 0xbc5f6ed67e47dc7d),
("rans:mantissa=2", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x0dddcc6e68aaec67),
("rans:mantissa=2", DType::Bf16, Layout::Compact, Content::Special, 0xda8984d5f9ee92df),
("rans:mantissa=2", DType::F16, Layout::Compact, Content::Rows, 0xdc282a9beecedade),
("rans:mantissa=2", DType::F32, Layout::Compact, Content::Rows, 0x88b6af8bca540ae5),
("rans:mantissa=2,row=8", DType::Bf16, Layout::Compact, Content::Columns, 0x23034f762163c5d3),
    ("rans:table=BF16", DType::Bf16, Layout::Split, Content::Gaussian, 0xf60cb3168e33ed4c),
    ("rans:table=BF16", DType::Bf16, Layout::Compact, Content::Gaussian, 0x2a4c3c92c18f1519),
    ("rans:table=BF16", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x22947a4da16f703e),
    ("rans:table=F8_E4M3", DType::F8E4M3, Layout::Compact, Content::Rows, 0x6a4edfc85f7e4174),
    ("rans:mantissa=2,table=BF16", DType::Bf16, Layout::Compact, Content::Gaussian, 0x5f8fad7b9d4f9a9f),
    ("codebook16:table=BF16", DType::Bf16, Layout::Split, Content::Rows, 0x1805820cd7f232a2),
    ("codebook16:table=F8_E5M2", DType::F8E5M2, Layout::Compact, Content::SomeZeros, 0x47e055fc87726a01),
    ("codebook16", DType::Bf16, Layout::Split, Content::Gaussian, 0x52ce24b11a6df8da),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Gaussian, 0x0f39aa9ca1574187),
    ("codebook16", DType::Bf16, Layout::Split, Content::Rows, 0x4b95cda14ce9922f),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Rows, 0x6ff11081ef256a1e),
    ("codebook16", DType::Bf16, Layout::Split, Content::SomeZeros, 0xfd6f0ecc4d4a4fc5),
    ("codebook16", DType::Bf16, Layout::Compact, Content::SomeZeros, 0xf7768014e8bf3abe),
    ("codebook16", DType::Bf16, Layout::Split, Content::Special, 0x46577b04cf6cecdf),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Special, 0x509636c54b1b7194),
    ("codebook16", DType::Bf16, Layout::Split, Content::Noise, 0x4cd7474c8300b3e0),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Noise, 0x647bffa1fc25db2c),
    ("codebook16", DType::F8E5M2, Layout::Split, Content::Rows, 0xbb2aa2a485c2b9a7),
    ("codebook16", DType::F8E5M2, Layout::Compact, Content::Rows, 0x2a26f326b563598a),
    ("codebook16", DType::F8E5M2, Layout::Split, Content::SomeZeros, 0x72155b16f6abc268),
    ("codebook16", DType::F8E5M2, Layout::Compact, Content::SomeZeros, 0xbb166d6cf50aad71),
    ("codebook16", DType::F8E4M3, Layout::Split, Content::Rows, 0xa85bea3b97f30511),
    ("codebook16", DType::F8E4M3, Layout::Compact, Content::Rows, 0x7e18289742f92af2),
    ("codebook16", DType::F8E4M3, Layout::Split, Content::SomeZeros, 0x4e2fe88826bf0985),
    ("codebook16", DType::F8E4M3, Layout::Compact, Content::SomeZeros, 0xad8005e1182737d9),
    ("grouped", DType::Bf16, Layout::Split, Content::Gaussian, 0x055121f4c0f7ea89),
    ("grouped", DType::Bf16, Layout::Compact, Content::Gaussian, 0x2e31975a6e8fa0ff),
    ("grouped", DType::Bf16, Layout::Split, Content::Rows, 0x0dbe02a1127f3037),
    ("grouped", DType::Bf16, Layout::Compact, Content::Rows, 0x7bc65cee35de5ece),
    ("grouped", DType::Bf16, Layout::Split, Content::SomeZeros, 0x0a4d974df50dfe03),
    ("grouped", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x386d2f51be25a9a7),
    ("grouped", DType::Bf16, Layout::Split, Content::Special, 0xf9ee514093f88197),
    ("grouped", DType::Bf16, Layout::Compact, Content::Special, 0xf45a951ad2addd82),
    ("grouped", DType::Bf16, Layout::Split, Content::Noise, 0xdbe2de04fe702ab4),
    ("grouped", DType::Bf16, Layout::Compact, Content::Noise, 0xb0e815381461479b),
    ("grouped", DType::F16, Layout::Split, Content::Rows, 0xafed8d943e597ebf),
    ("grouped", DType::F16, Layout::Compact, Content::Rows, 0xfd8984e5d3f0bca9),
    ("grouped", DType::F32, Layout::Split, Content::Rows, 0xb53c8730cdf93e0b),
    ("grouped", DType::F32, Layout::Compact, Content::Rows, 0xc84f9fda08cae577),
    ("grouped", DType::F32, Layout::Split, Content::Sums, 0xe2d9c32a5cf8de4d),
    ("grouped", DType::F32, Layout::Compact, Content::Sums, 0x015f053e3fb75714),
    ("grouped", DType::F8E4M3, Layout::Split, Content::SomeZeros, 0xca2c93dd0a347641),
    ("grouped", DType::F8E4M3, Layout::Compact, Content::SomeZeros, 0xff1ddfb2e529f1ba),
    ("grouped", DType::F8E5M2, Layout::Split, Content::Rows, 0x2277ed296cb83366),
    ("grouped", DType::F8E5M2, Layout::Compact, Content::Rows, 0x3e9865b80d98d81a),
    ("blockwise", DType::Bf16, Layout::Split, Content::Gaussian, 0x96f35967bd2f60d2),
    ("blockwise", DType::Bf16, Layout::Compact, Content::Gaussian, 0x6e0bb0b4005cf8ed),
    ("blockwise", DType::Bf16, Layout::Split, Content::Rows, 0x589b2d8c375261a8),
    ("blockwise", DType::Bf16, Layout::Compact, Content::Rows, 0x5cc4d7e6c40692e0),
    ("blockwise", DType::Bf16, Layout::Split, Content::SomeZeros, 0xd753826aac8c87ec),
    ("blockwise", DType::Bf16, Layout::Compact, Content::SomeZeros, 0xd3ab79ac2ae9a8e8),
    ("blockwise", DType::Bf16, Layout::Split, Content::Special, 0xd5531c24fd92c552),
    ("blockwise", DType::Bf16, Layout::Compact, Content::Special, 0x687afba718b73628),
    ("blockwise", DType::Bf16, Layout::Split, Content::Noise, 0xdc01d2342ca678a8),
    ("blockwise", DType::Bf16, Layout::Compact, Content::Noise, 0xbfa04b42dac28388),
    ("blockwise", DType::F16, Layout::Split, Content::Rows, 0x048de71afa9ffe74),
    ("blockwise", DType::F16, Layout::Compact, Content::Rows, 0xdcc86dc4bfe31e05),
    ("blockwise", DType::F32, Layout::Split, Content::Rows, 0xb84e3c351291a84f),
    ("blockwise", DType::F32, Layout::Compact, Content::Rows, 0x101846fae2e6724f),
    ("blockwise", DType::F32, Layout::Split, Content::Sums, 0x61287b63ef0afb0f),
    ("blockwise", DType::F32, Layout::Compact, Content::Sums, 0x3c3e5855c19494ab),
    ("blockwise", DType::F8E4M3, Layout::Split, Content::SomeZeros, 0xbea38bda5137e111),
    ("blockwise", DType::F8E4M3, Layout::Compact, Content::SomeZeros, 0x04256958245ee308),
    ("blockwise", DType::F8E5M2, Layout::Split, Content::Rows, 0xb18781028fa7b00d),
    ("blockwise", DType::F8E5M2, Layout::Compact, Content::Rows, 0x5e5423ecc2088d32),
    ("huffman", DType::Bf16, Layout::Split, Content::Gaussian, 0xe25b9fb7f9209e18),
    ("huffman", DType::Bf16, Layout::Compact, Content::Gaussian, 0x7a79f5e43d36e7ba),
    ("huffman", DType::Bf16, Layout::Split, Content::Rows, 0x83b58da347938ad0),
    ("huffman", DType::Bf16, Layout::Compact, Content::Rows, 0xa313a17544d183dd),
    ("huffman", DType::Bf16, Layout::Split, Content::SomeZeros, 0xfc10befac8695ca2),
    ("huffman", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x48fd683ecb30f5c0),
    ("huffman", DType::Bf16, Layout::Split, Content::Special, 0xd682f09b33e1a2f1),
    ("huffman", DType::Bf16, Layout::Compact, Content::Special, 0xfe374e9ba1532ac1),
    ("huffman", DType::Bf16, Layout::Split, Content::Noise, 0x856bbfdb4349fc24),
    ("huffman", DType::Bf16, Layout::Compact, Content::Noise, 0xbe7d6907e0c1bac3),
    ("huffman", DType::Bf16, Layout::Split, Content::Equal, 0xf175a48ba0a89fc0),
    ("huffman", DType::Bf16, Layout::Compact, Content::Equal, 0x6e99ab65db9dd0b0),
    ("dedup:row=3+raw", DType::Bf16, Layout::Compact, Content::SomeZeros, 0xa812654ea29829ce),
    ("dedup:row=100+tiered", DType::Bf16, Layout::Compact, Content::Rows, 0x205e641431d7b3ad),
    ("dedup:row=100+tiered", DType::Bf16, Layout::Split, Content::Rows, 0x4016f6886d871065),
    ("dedup:row=64+window7", DType::Bf16, Layout::Compact, Content::LoneValue, 0xdc3de22955f2ab79),
];

/// As [`GOLDEN`], for more values than caches are trusted with: [`LARGE_COUNT`] each.
#[rustfmt::skip]
const LARGE: &[(&str, DType, Layout, Content, u64)] = &[
    ("window7", DType::Bf16, Layout::Split, Content::Gaussian, 0xfee2fe1e90db5b0c),
    ("window7", DType::Bf16, Layout::Split, Content::Rows, 0xc788dcfd228ecf1e),
    ("window7", DType::Bf16, Layout::Split, Content::SomeZeros, 0x331670ab461ff7da),
    ("window7", DType::Bf16, Layout::Compact, Content::Gaussian, 0xfd7941aaa5629a05),
    ("window7", DType::Bf16, Layout::Compact, Content::Rows, 0xdcd0dc75108ded3b),
    ("window7", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x0eaf5f20882ec849),
    ("tiered", DType::Bf16, Layout::Split, Content::Gaussian, 0xb0342b855d968cbb),
    ("tiered", DType::Bf16, Layout::Split, Content::Rows, 0xee38f2ec53157df8),
    ("tiered", DType::Bf16, Layout::Split, Content::SomeZeros, 0xfd8b50628bdcae08),
    ("tiered", DType::Bf16, Layout::Compact, Content::Gaussian, 0xbc8ec8464c7ce357),
    ("tiered", DType::Bf16, Layout::Compact, Content::Rows, 0xb9f6c9a39b70ac71),
    ("tiered", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x3d05034bb508ea36),
    ("codebook16", DType::Bf16, Layout::Split, Content::Gaussian, 0x212fe8ff2ed790c8),
    ("codebook16", DType::Bf16, Layout::Split, Content::Rows, 0x26c1c067dc7d159a),
    ("codebook16", DType::Bf16, Layout::Split, Content::SomeZeros, 0x00dc92ffca74ac96),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Gaussian, 0x2f0a375e1018c160),
    ("codebook16", DType::Bf16, Layout::Compact, Content::Rows, 0xe3daea581281b555),
    ("codebook16", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x55a7ffc53d335930),
    ("window7", DType::F32, Layout::Split, Content::Rows, 0xa72e866d75c18bf0),
    ("window7", DType::F32, Layout::Compact, Content::Rows, 0x492b9cea94380d5c),
    ("tiered", DType::F32, Layout::Split, Content::Rows, 0xeec9480ecddc7d8d),
    ("tiered", DType::F32, Layout::Compact, Content::Rows, 0xb0439a59829f3cff),
    ("codebook16", DType::F8E5M2, Layout::Split, Content::Rows, 0xccc029f019b9e801),
    ("codebook16", DType::F8E5M2, Layout::Compact, Content::Rows, 0x847a9cb89dca2319),
    ("rans", DType::Bf16, Layout::Split, Content::Gaussian, 0x2a16fa07656be5e8),
    ("rans", DType::Bf16, Layout::Compact, Content::Gaussian, 0xc6be57c13ddce695),
    ("rans", DType::Bf16, Layout::Split, Content::Rows, 0x78e307631c7a36d2),
    ("rans", DType::Bf16, Layout::Compact, Content::Rows, 0x85992ad02e2a28fe),
    ("rans", DType::Bf16, Layout::Split, Content::SomeZeros, 0x76df83e8733e59a0),
    ("rans", DType::Bf16, Layout::Compact, Content::SomeZeros, 0x892cec368cbdbbfa),
    ("rans", DType::F32, Layout::Split, Content::Rows, 0xbd90098d2953156f),
    ("rans", DType::F32, Layout::Compact, Content::Rows, 0x84ace8c79b4b0db8),
    ("grouped", DType::Bf16, Layout::Split, Content::Gaussian, 0x8dfd928bbfbd0c02),
    ("grouped", DType::Bf16, Layout::Compact, Content::Gaussian, 0x95772b26892f7417),
    ("grouped", DType::F32, Layout::Split, Content::Rows, 0x95853dcbca686186),
    ("grouped", DType::F32, Layout::Compact, Content::Rows, 0x000a78a806da0c25),
    ("blockwise", DType::Bf16, Layout::Split, Content::Gaussian, 0x346195cbcdc71e29),
    ("blockwise", DType::Bf16, Layout::Compact, Content::Gaussian, 0x346a12d1373e972e),
    ("blockwise", DType::F32, Layout::Split, Content::Rows, 0x14fd293718a5c1d9),
    ("blockwise", DType::F32, Layout::Compact, Content::Rows, 0xdcc384ddbc8d9d18),
    ("huffman", DType::Bf16, Layout::Split, Content::Rows, 0x21722b0ded211ef6),
    ("huffman", DType::Bf16, Layout::Compact, Content::Rows, 0x0948a4997dfda6d5),
];

/// More than 2 MiB of BF16, and no whole number of blocks.
const LARGE_COUNT: usize = (1 << 20) + 777;

/// What tells a process of this test its SIMD level, where it is not the best one.
const LEVEL: &str = "ZIPWIRE_TEST_LEVEL";

#[test]
fn frames_have_not_changed() {
    let named = std::env::var(LEVEL).ok().map(|name| SimdLevel::from_name(&name).unwrap());
    force_simd(named.unwrap_or_else(common::level)).unwrap();
    let rows = GOLDEN.iter().map(|row| (row, 20_001)).chain(LARGE.iter().map(|row| (row, LARGE_COUNT)));
    let mut changed = String::new();
    for ((spec, dtype, layout, content, expected), count) in rows {
        let values = content.values(*dtype, count, 12);
        let codec = common::spec(spec).codec();
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
    // This module is the root of a target, or part of one.
    let module = module_path!().split_once("::").map_or(String::new(), |(_, module)| format!("{module}::"));
    let test = format!("{module}frames_have_not_changed");
    for level in simd_levels() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", &test]).env(LEVEL, level.name()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{level}:\n{text}");
    }
}
