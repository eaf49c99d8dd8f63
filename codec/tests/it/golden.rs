//! Frames of this version of the format, by hash. If one of these changes, so has the format: then `docs/format.md` and
//! the version change too.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "levels are tested in processes of their own"
)]

use crate::common;
use std::process::Command;

use crate::common::Frame;
use crate::common::content::Content;
use xxhash_rust::xxh3::xxh3_64;
use zipwire_codec::{DType, Layout, force_simd, simd_levels};

/// Codec, type and kind of values, and XXH3 of the sections, in the split layout and in the compact one.
type Golden = (&'static str, DType, Content, [u64; 2]);

/// Hashes of frames of 20 001 values each. Those of `grouped` with rows have groups by zstd, in the version
/// that `Cargo.lock` names.
#[rustfmt::skip]
const GOLDEN: &[Golden] = &[
    ("auto", DType::Bf16, Content::Gaussian, [0xdee0c87f66f5d448, 0x6b3c9f712a542496]),
    ("auto", DType::Bf16, Content::SomeZeros, [0x2251716b1171ed26, 0xcdd91a158d30a9a9]),
    ("auto:goal=size", DType::Bf16, Content::Gaussian, [0x61828c15b955ba0b, 0xcb9b4b68fbfcdb95]),
    ("auto:goal=size", DType::Bf16, Content::SomeZeros, [0x4079d80bb3d6c45e, 0xf355ec5f66a5e007]),
    ("auto:goal=speed", DType::F32, Content::Gaussian, [0x14585cfbef1a44c8, 0x14bc9c828d9d9bad]),
    ("auto:goal=speed", DType::F32, Content::SomeZeros, [0x7c3eaf4c5bb371eb, 0xea07f85e247f79c2]),
    ("raw", DType::F32, Content::Gaussian, [0x14585cfbef1a44c8, 0x14bc9c828d9d9bad]),
    ("window7", DType::Bf16, Content::Gaussian, [0x7e246b16a7eacf02, 0xc3dd005d90fab0df]),
    ("window7", DType::Bf16, Content::Rows, [0xdff0b6ea30b280b8, 0xec5243638aac1220]),
    ("window7", DType::Bf16, Content::SomeZeros, [0x3357228d92aa592b, 0x35a3a3a93da32fa8]),
    ("window7", DType::Bf16, Content::Special, [0xcc6620c32d61f889, 0x6b865f5fe660e920]),
    ("window7", DType::Bf16, Content::Noise, [0x268d1a216e597d5e, 0xe239213daf41f98a]),
    ("window7", DType::F32, Content::Gaussian, [0x2389fd2aba890d9d, 0x4182893291e93af0]),
    ("window7", DType::F32, Content::Rows, [0xe385f36bc15133f7, 0x9fe20b4f93b4aef0]),
    ("window7", DType::F32, Content::SomeZeros, [0xaf7b1d2300e93cd8, 0xde854e9702513097]),
    ("window7:scale=std", DType::Bf16, Content::Gaussian, [0x7e246b16a7eacf02, 0xc3dd005d90fab0df]),
    ("window7:scale=std", DType::Bf16, Content::Rows, [0x2db7e7e4067544c9, 0xaab5605da3381e0d]),
    ("window7:scale=mean-abs", DType::Bf16, Content::Gaussian, [0x7e246b16a7eacf02, 0xc3dd005d90fab0df]),
    ("window7:scale=mean-abs", DType::Bf16, Content::Rows, [0x2db7e7e4067544c9, 0xd553dd45e9a241d7]),
    ("tiered", DType::Bf16, Content::Gaussian, [0xdee0c87f66f5d448, 0x6b3c9f712a542496]),
    ("tiered", DType::Bf16, Content::Rows, [0xf11b5ce6404ac4ba, 0xa46ecd1e8502e198]),
    ("tiered", DType::Bf16, Content::SomeZeros, [0x2251716b1171ed26, 0xcdd91a158d30a9a9]),
    ("tiered", DType::Bf16, Content::Special, [0xf892500e56354844, 0x4fc2429ff4544eb8]),
    ("tiered", DType::Bf16, Content::Noise, [0x8d317c916844d39e, 0xaec5ae8a7fc74ef6]),
    ("tiered", DType::F16, Content::Rows, [0xf0454e118ef93b86, 0x6b9a4acbcf405342]),
    ("tiered", DType::F16, Content::SomeZeros, [0xb1d3e809e1910c37, 0xf17910aeb79e103f]),
    ("tiered", DType::F32, Content::Rows, [0x1518be42d5ef1c47, 0x25b44cc740adedf9]),
    ("tiered", DType::F32, Content::SomeZeros, [0xb3f97e27253b00d2, 0x309f1ff9be8fdd83]),
    ("tiered", DType::F32, Content::Sums, [0x6710bb28960afa2a, 0x4bc269b3e760cea7]),
    ("tiered", DType::F8E4M3, Content::Rows, [0xd193d715bd4e57b3, 0xf1bd4528b453ce39]),
    ("tiered", DType::F8E4M3, Content::SomeZeros, [0x4028134f85b9fbcc, 0x5c1ae81233dd745f]),
    ("tiered", DType::F8E5M2, Content::Rows, [0xe60ba0d3470eb1c8, 0xd4e57edf3ddab261]),
    ("tiered", DType::F8E5M2, Content::SomeZeros, [0x099f08e41a88acb4, 0x9813f5ae15dbe206]),
    ("tiered:row=8", DType::Bf16, Content::Columns, [0xcae9eca5abea7b1f, 0x5073b8adcbf95b74]),
    ("tiered:row=8", DType::F16, Content::Columns, [0xe7a2d393a2721226, 0xb1a38379ed2d861f]),
    ("tiered:row=8", DType::F32, Content::Columns, [0xa5bb3a16a1a88c06, 0xbc4fcc1feb818748]),
    ("tiered:row=8", DType::F8E4M3, Content::Columns, [0x85256a7f0762266a, 0xfb49209a5a881a5c]),
    ("rans", DType::Bf16, Content::Gaussian, [0x61828c15b955ba0b, 0xcb9b4b68fbfcdb95]),
    ("rans", DType::Bf16, Content::Rows, [0x46b343722380e850, 0x36dc25efc3dae45b]),
    ("rans", DType::Bf16, Content::SomeZeros, [0x4079d80bb3d6c45e, 0x27a998652cd637b2]),
    ("rans", DType::Bf16, Content::Special, [0x30a66ab74ed55aca, 0x0e9c394d891b971a]),
    ("rans", DType::Bf16, Content::Noise, [0x6a70bee39732d5b9, 0xf0c8d44425ad4f68]),
    ("rans", DType::F16, Content::Rows, [0xd88b67f5f35d5eed, 0xdb4550512234d3d2]),
    ("rans", DType::F32, Content::Rows, [0x510e360423a0e35f, 0x3c2d7b7b951a1aaf]),
    ("rans", DType::F32, Content::Sums, [0x20c4214055efe0b9, 0x908827de1290dfc7]),
    ("rans", DType::F8E4M3, Content::Rows, [0x2be0d6d9f476bb31, 0x9dc0917a9b7b30ce]),
    ("rans", DType::F8E5M2, Content::SomeZeros, [0xd69f03da41505b08, 0x2e4dd9c567e3b07b]),
    ("rans:row=8", DType::Bf16, Content::Columns, [0x2bde55a68ae4676b, 0x88293c407c7c7d3a]),
    ("rans:mantissa=2", DType::Bf16, Content::Gaussian, [0x61828c15b955ba0b, 0xe6cf868acc873960]),
    ("rans:mantissa=2", DType::Bf16, Content::Rows, [0x46b343722380e850, 0x36dc25efc3dae45b]),
    ("rans:mantissa=2", DType::Bf16, Content::SomeZeros, [0x4079d80bb3d6c45e, 0x2e1e136230124943]),
    ("rans:mantissa=2", DType::Bf16, Content::Special, [0x30a66ab74ed55aca, 0xa85c25f3e041ebc4]),
    ("rans:mantissa=2", DType::F16, Content::Rows, [0xd88b67f5f35d5eed, 0xabe5e127b4eca668]),
    ("rans:mantissa=2", DType::F32, Content::Rows, [0x510e360423a0e35f, 0x3c2d7b7b951a1aaf]),
    ("rans:mantissa=2,row=8", DType::Bf16, Content::Columns, [0x2bde55a68ae4676b, 0x997b9b4425c5bbc5]),
    ("rans:table=BF16", DType::Bf16, Content::Gaussian, [0x6a68659700fc335e, 0xf9d1db9e64e87576]),
    ("rans:table=BF16", DType::Bf16, Content::SomeZeros, [0x4079d80bb3d6c45e, 0x562fd09e96de1890]),
    ("rans:table=F8_E4M3", DType::F8E4M3, Content::Rows, [0x2be0d6d9f476bb31, 0x5cf45db69cbf79f7]),
    ("rans:mantissa=2,table=BF16", DType::Bf16, Content::Gaussian, [0x61828c15b955ba0b, 0x025f054eb40e85fa]),
    ("codebook16:table=BF16", DType::Bf16, Content::Rows, [0xa6881cdf2747a833, 0xaa2abca8ce747681]),
    ("codebook16:table=F8_E5M2", DType::F8E5M2, Content::SomeZeros, [0x470c7364a0909e98, 0x391dd193ebf92bc0]),
    ("codebook16", DType::Bf16, Content::Gaussian, [0x01dcd4d5fa6e80ef, 0xe7093181671898fe]),
    ("codebook16", DType::Bf16, Content::Rows, [0x870d949d212f7c87, 0x4be4736cf2ae047f]),
    ("codebook16", DType::Bf16, Content::SomeZeros, [0x174a93858b027562, 0xac992633dd38e307]),
    ("codebook16", DType::Bf16, Content::Special, [0x562003dcb260fcb7, 0xf327b1ac9f4b2a51]),
    ("codebook16", DType::Bf16, Content::Noise, [0x6c23f73f31c4170d, 0x19b62420315ccfbd]),
    ("codebook16", DType::F8E5M2, Content::Rows, [0x2efac329c122253c, 0x6c9123b6f71cb05e]),
    ("codebook16", DType::F8E5M2, Content::SomeZeros, [0x69595e33593645b8, 0xd0d876ce4a712bfd]),
    ("codebook16", DType::F8E4M3, Content::Rows, [0x84d06208ae3869f9, 0x85300472b18844bc]),
    ("codebook16", DType::F8E4M3, Content::SomeZeros, [0x1c76bc0edf50a2a6, 0x19d1f9b45bb90152]),
    ("grouped", DType::Bf16, Content::Gaussian, [0x986edf3a41eda2fa, 0x9c4ddf168a181f3f]),
    ("grouped", DType::Bf16, Content::Rows, [0x14db3a88148e77de, 0xf5c56ad7a3c17810]),
    ("grouped", DType::Bf16, Content::SomeZeros, [0xfc8620b8ba3b7257, 0x10a1dd077922258d]),
    ("grouped", DType::Bf16, Content::Special, [0x1e78c4c84f4fb53b, 0xb89e36a1eb1f829e]),
    ("grouped", DType::Bf16, Content::Noise, [0x1ab06568472c3fb6, 0x6cd0b6686432be94]),
    ("grouped", DType::F16, Content::Rows, [0xdfbf859a3a6136d0, 0x43ca409ec17593d0]),
    ("grouped", DType::F32, Content::Rows, [0x1bcfde540c0d738f, 0x1a13feb060d3a7c0]),
    ("grouped", DType::F32, Content::Sums, [0x5e01d63b2a32410e, 0x23feae062c94f750]),
    ("grouped", DType::F8E4M3, Content::SomeZeros, [0xdcb8ff5dd0149590, 0x3fab518e94b9d784]),
    ("grouped", DType::F8E5M2, Content::Rows, [0x5a2389d5feaabefb, 0x0140588c4c002585]),
    ("blockwise", DType::Bf16, Content::Gaussian, [0x5873e7ec2c06091a, 0xefe9128ff2004978]),
    ("blockwise", DType::Bf16, Content::Rows, [0x5196dc0e2c45fa0d, 0xd95236687407e186]),
    ("blockwise", DType::Bf16, Content::SomeZeros, [0x74932e1cc3c1c555, 0x076ae6465bf0ffcd]),
    ("blockwise", DType::Bf16, Content::Special, [0xe29e1c4284b4ea19, 0xfe77893951fc325e]),
    ("blockwise", DType::Bf16, Content::Noise, [0xb746867f8f9a707f, 0xeeeefe6806b3ccec]),
    ("blockwise", DType::F16, Content::Rows, [0x91c86e2ba353b507, 0x31577abbb86d2cb2]),
    ("blockwise", DType::F32, Content::Rows, [0x9be52c98d5670a07, 0x108de0246863df78]),
    ("blockwise", DType::F32, Content::Sums, [0x978f0204884cac29, 0x2938f06de612d553]),
    ("blockwise", DType::F8E4M3, Content::SomeZeros, [0x7c4977f6ac00fff9, 0x0aed79f11f21c8e9]),
    ("blockwise", DType::F8E5M2, Content::Rows, [0xd26f22932ee58898, 0x82a9fc57b7c44bea]),
    ("huffman", DType::Bf16, Content::Gaussian, [0x0f8a7f40341f3cd3, 0xdb27f876885b70e6]),
    ("huffman", DType::Bf16, Content::Rows, [0xa9ad48bf8b09e30e, 0xe72d6df59ca7ec47]),
    ("huffman", DType::Bf16, Content::SomeZeros, [0x1a6e9844cc3d6fa2, 0xa59c10d9a7b6b0c4]),
    ("huffman", DType::Bf16, Content::Special, [0xa938950b812533af, 0x519fa3bc4484032a]),
    ("huffman", DType::Bf16, Content::Noise, [0x19e647894153ce65, 0x9892388521dc028d]),
    ("huffman", DType::Bf16, Content::Equal, [0xd9572614d16beaeb, 0x326731202ac69e59]),
    ("planes", DType::Bf16, Content::Gaussian, [0xf031c08cde344617, 0x2e2862463da1f0ba]),
    ("planes", DType::Bf16, Content::Rows, [0xae46ec53cf8137c3, 0x3f9ab36ff6a1c562]),
    ("planes", DType::Bf16, Content::SomeZeros, [0x0b4422623f797f3e, 0xf355ec5f66a5e007]),
    ("planes", DType::Bf16, Content::Special, [0x106854b1cc0f4ca2, 0x64306e3313a41d30]),
    ("planes", DType::Bf16, Content::Equal, [0x00d5780da998d150, 0xb09ad6b875ff1879]),
    ("planes", DType::Bf16, Content::Noise, [0x10c6ad459e6c9493, 0xcd8039b6b1bc7558]),
    ("planes", DType::F16, Content::Rows, [0x1b9926b446b1957f, 0xea89e6f2a99b2b75]),
    ("planes", DType::F32, Content::Rows, [0x5d18189726ec5f14, 0x4b6741ce85ec44df]),
    ("planes", DType::F32, Content::Sums, [0x796428ec64960569, 0x59fd9c001d79d83f]),
    ("planes", DType::F8E4M3, Content::SomeZeros, [0x2b3cb6a78318ca6e, 0x683844573edc77a7]),
    ("planes", DType::F8E5M2, Content::LoneValue, [0x1a3a68f7dff94f80, 0x95da61393ac1b934]),
    ("planes:width=8", DType::F32, Content::SomeZeros, [0x093ef7d96401bd13, 0xc3e201c1c9ec82bd]),
    ("planes:width=4", DType::F8E4M3, Content::Rows, [0x8fce3bc071d86243, 0xab7e2a4260586d51]),
    ("planes:width=16", DType::Bf16, Content::Columns, [0xde25d0aad40bbcd4, 0x37f7290aa005176c]),
    ("dedup:row=3+raw", DType::Bf16, Content::SomeZeros, [0x0255eb37ec087387, 0xe795b404840575a0]),
    ("dedup:row=100+tiered", DType::Bf16, Content::Rows, [0xf11b5ce6404ac4ba, 0x68bc8f4a643611a2]),
    ("dedup:row=64+window7", DType::Bf16, Content::LoneValue, [0xb4ab35360f5b5414, 0x4a752da546fd0171]),
];

/// Hashes like [`GOLDEN`], of more values than caches hold: [`LARGE_COUNT`] each.
#[rustfmt::skip]
const LARGE: &[Golden] = &[
    ("window7", DType::Bf16, Content::Gaussian, [0xb98f9f649eaf6def, 0xbaad5feaae7bb18c]),
    ("window7", DType::Bf16, Content::Rows, [0x0e76ff4aedd830fd, 0xb93e0481ca66cc8d]),
    ("window7", DType::Bf16, Content::SomeZeros, [0xf76b49eedf9ad760, 0x6c52657b1618da49]),
    ("tiered", DType::Bf16, Content::Gaussian, [0xf068fabb109af7a5, 0x8222cc1f7f19bbb4]),
    ("tiered", DType::Bf16, Content::Rows, [0x48f4de29bb449a0b, 0xd0b1a7bc8d63bb1a]),
    ("tiered", DType::Bf16, Content::SomeZeros, [0x0078238152a0396c, 0xed3c11bd0165e630]),
    ("codebook16", DType::Bf16, Content::Gaussian, [0x6cadd35c99005ffe, 0xe260d8cab246e69e]),
    ("codebook16", DType::Bf16, Content::Rows, [0xf579520b1653fe96, 0x315e6354e083078a]),
    ("codebook16", DType::Bf16, Content::SomeZeros, [0x2f4817b14de737ba, 0x5722ea79d43ba45f]),
    ("window7", DType::F32, Content::Rows, [0x119096ed2210290a, 0xd33616fe72da11a4]),
    ("tiered", DType::F32, Content::Rows, [0x36223da9021a1c19, 0x161f67e88f6dfd24]),
    ("codebook16", DType::F8E5M2, Content::Rows, [0xaacb039117c009ea, 0x4acbfb82c2e18e3c]),
    ("rans", DType::Bf16, Content::Gaussian, [0x71a6fd5e7ebcf1cb, 0x373ba12863e67b53]),
    ("rans", DType::Bf16, Content::Rows, [0x73bdd05e78310cf7, 0xba029393146699c4]),
    ("rans", DType::Bf16, Content::SomeZeros, [0x7fbfcc5e30b874a6, 0x8d3a9e25f41303ce]),
    ("rans", DType::F32, Content::Rows, [0x57e2c51904c4dd74, 0x3e177a851576d609]),
    ("grouped", DType::Bf16, Content::Gaussian, [0xabe05764cbfc9698, 0x6d1b20550ce59a3f]),
    ("grouped", DType::F32, Content::Rows, [0x7d02dda4288bfa92, 0x832411923c794312]),
    ("blockwise", DType::Bf16, Content::Gaussian, [0xb587c55bc7141ce0, 0x0ab35e3034adf0b9]),
    ("blockwise", DType::F32, Content::Rows, [0xdded5afe93dec192, 0x2fa7ae8b0ee6b6ee]),
    ("huffman", DType::Bf16, Content::Rows, [0x43bc89b58d51a874, 0xdf6fcec752302be8]),
    ("planes", DType::Bf16, Content::Gaussian, [0x5976ff888b650beb, 0x61fcf4199aceb81e]),
    ("planes", DType::F32, Content::Rows, [0x244666b11fa116ad, 0x0de11df0114da3a5]),
    ("planes:width=8", DType::Bf16, Content::SomeZeros, [0x2265660979f7d286, 0x4f8886b5b1278001]),
];

/// More than 2 MiB of BF16, and no whole number of blocks.
const LARGE_COUNT: usize = (1 << 20) + 777;

#[test]
fn frames_have_not_changed() {
    force_simd(common::level()).unwrap();
    let rows = GOLDEN.iter().map(|row| (row, 20_001)).chain(LARGE.iter().map(|row| (row, LARGE_COUNT)));
    let mut changed = String::new();
    for ((spec, dtype, content, expected), count) in rows {
        let values = content.values(*dtype, count, 12);
        let codec = common::spec(spec).codec();
        let found = Layout::ALL.map(|layout| {
            let frame = Frame::new(&*codec, layout, *dtype, &values);
            frame.assert_survives(spec);
            xxh3_64(&[frame.static_section, frame.dynamic_section].concat())
        });
        if found != *expected {
            let [split, compact] = found;
            let hashes = format!("[{split:#018x}, {compact:#018x}]");
            changed += &format!("    (\"{spec}\", DType::{dtype:?}, Content::{content:?}, {hashes}),\n");
        }
    }
    assert!(changed.is_empty(), "these frames are others now:\n{changed}");
}

/// A process has one level, so each other one of this machine has a process of its own.
#[test]
fn frames_are_the_same_on_every_level() {
    zipwire_paper_codecs::register();
    for level in simd_levels() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command
            .args(["--exact", "golden::frames_have_not_changed"])
            .env(common::LEVEL, level.name())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{level}:\n{text}");
    }
}
