//! Groups come back bit for bit, within their bound, by any geometry, codec and way of paging; whatever is damaged or does not belong is an
//! error.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::Spec;
use zipwire_kv::{DType, Geometry, HEADER_LEN, KvCodec, KvError, Order, Place, Scratch};

const PLACE: Place = Place { layer: 2, token: 256 };

fn grouped(heads: u32, head_size: u32, dtype: DType) -> Geometry {
    Geometry::grouped(4, heads, head_size, dtype).unwrap()
}

fn parse(spec: &str) -> Spec {
    zipwire_paper_codecs::register();
    spec.parse().unwrap()
}

fn codec(geometry: Geometry, spec: &str) -> KvCodec {
    KvCodec::new(geometry, parse(spec)).unwrap()
}

/// Values as caches have them (few exponents, zeros among them), or noise.
fn plane(rng: &mut ChaCha8Rng, codec: &KvCodec, tokens: usize, is_noise: bool) -> Vec<u8> {
    let mut bytes = vec![0; tokens * codec.geometry().row_len()];
    rng.fill_bytes(&mut bytes);
    if !is_noise {
        let width = codec.geometry().dtype().width();
        for value in bytes.chunks_mut(width) {
            let last = &mut value[width - 1];
            *last = 0x3c | *last & 0x83;
            if rng.random_range(0..50) == 0 {
                value.fill(0);
            }
        }
    }
    bytes
}

fn planes(rng: &mut ChaCha8Rng, codec: &KvCodec, tokens: usize, is_noise: bool) -> Vec<Vec<u8>> {
    (0..codec.geometry().planes()).map(|_| plane(rng, codec, tokens, is_noise)).collect()
}

fn slices(planes: &[Vec<u8>]) -> Vec<&[u8]> {
    planes.iter().map(Vec::as_slice).collect()
}

fn encoded(codec: &KvCodec, planes: &[Vec<u8>], place: Place) -> Vec<u8> {
    let tokens = (planes[0].len() / codec.geometry().row_len()) as u32;
    let mut out = vec![0x55; codec.bound(tokens)];
    let len = codec.encode(place, &slices(planes), &mut out).unwrap();
    assert!(len <= codec.bound(tokens));
    out.truncate(len);
    out
}

fn decoded(codec: &KvCodec, group: &[u8]) -> Result<Vec<Vec<u8>>, KvError> {
    let info = codec.peek(group)?;
    let mut planes = vec![vec![0xaa; info.plane_len]; codec.geometry().planes()];
    let mut slices: Vec<&mut [u8]> = planes.iter_mut().map(Vec::as_mut_slice).collect();
    codec.decode(group, &mut slices)?;
    Ok(planes)
}

#[test]
fn groups_come_back_by_every_geometry_and_codec() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let geometries = [
        grouped(8, 128, DType::Bf16),
        grouped(1, 64, DType::Bf16).with_order(Order::Heads),
        grouped(2, 128, DType::F8E4M3),
        grouped(3, 7, DType::F16),
        grouped(1, 1, DType::F32),
        Geometry::latent(4, 576, DType::Bf16).unwrap(),
        grouped(2, 16, DType::F8E5M2).with_group_tokens(32).unwrap(),
    ];
    for geometry in geometries {
        for spec in ["tiered", "rans", "codebook16", "raw", "grouped"] {
            let Ok(codec) = KvCodec::new(geometry, parse(spec)) else {
                assert_eq!(spec, "codebook16", "{geometry}");
                continue;
            };
            for tokens in [1, 2, 16, 31, geometry.group_tokens() as usize] {
                for is_noise in [false, true] {
                    let planes = planes(&mut rng, &codec, tokens, is_noise);
                    let group = encoded(&codec, &planes, PLACE);
                    let info = codec.peek(&group[..HEADER_LEN]).unwrap();
                    assert_eq!((info.place, info.tokens, info.len), (PLACE, tokens as u32, group.len()));
                    assert!(
                        decoded(&codec, &group).unwrap() == planes,
                        "{geometry}, {spec}, {tokens} tokens"
                    );
                }
            }
        }
    }
}

/// A group that was taken from some pages is that of the same planes in one piece, and goes to any others.
#[test]
fn pages_are_gathered_and_scattered() {
    let codec = codec(grouped(2, 64, DType::Bf16), "tiered");
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (row, mut scratch) = (codec.geometry().row_len(), Scratch::default());
    for (tokens, of, to) in [(256, 16, 32), (100, 16, 7), (48, 48, 16), (5, 1, 5)] {
        let planes = planes(&mut rng, &codec, tokens, false);
        let pages: Vec<Vec<&[u8]>> = planes.iter().map(|plane| plane.chunks(of * row).collect()).collect();
        let pages: Vec<&[&[u8]]> = pages.iter().map(Vec::as_slice).collect();
        let mut group = vec![0; codec.bound(tokens as u32)];
        let len = codec.encode_pages(PLACE, &pages, &mut scratch, &mut group).unwrap();
        group.truncate(len);
        assert!(group == encoded(&codec, &planes, PLACE), "{tokens} tokens by {of}");
        let mut out = vec![vec![0; tokens * row]; 2];
        let mut pages: Vec<Vec<&mut [u8]>> =
            out.iter_mut().map(|plane| plane.chunks_mut(to * row).collect()).collect();
        let mut pages: Vec<&mut [&mut [u8]]> = pages.iter_mut().map(Vec::as_mut_slice).collect();
        let info = codec.decode_pages(&group, &mut pages, &mut scratch).unwrap();
        assert_eq!(info.tokens, tokens as u32);
        assert!(out == planes, "{tokens} tokens from {of} to {to}");
    }
}

/// Every bit of a short group, and every length: an error, and of the right kind.
#[test]
fn damage_is_an_error() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for spec in ["tiered", "rans"] {
        let codec = codec(grouped(1, 32, DType::Bf16), spec);
        let group = encoded(&codec, &planes(&mut rng, &codec, 9, false), PLACE);
        for bit in 0..8 * group.len() {
            let mut group = group.clone();
            group[bit / 8] ^= 1 << (bit % 8);
            let error = decoded(&codec, &group).unwrap_err();
            match error {
                KvError::Decode { .. } => assert!(bit >= 8 * HEADER_LEN, "{spec}: bit {bit}: {error}"),
                KvError::Damaged { .. } => assert!(bit < 8 * HEADER_LEN, "{spec}: bit {bit}: {error}"),
                KvError::Version { .. } => assert_eq!(bit / 8, 4, "{spec}: bit {bit}: {error}"),
                _ => panic!("{spec}: bit {bit}: {error}"),
            }
        }
        for len in 0..group.len() {
            assert!(matches!(decoded(&codec, &group[..len]), Err(KvError::Damaged { .. })), "{spec}: {len}");
        }
        assert!(matches!(decoded(&codec, &[&group[..], &[0]].concat()), Err(KvError::Damaged { .. })));
    }
}

#[test]
fn both_ends_must_agree() {
    let base = grouped(8, 64, DType::Bf16);
    let sender = codec(base, "tiered");
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let group = encoded(&sender, &planes(&mut rng, &sender, 16, false), PLACE);
    assert_eq!(codec(base, "tiered").compatibility(), sender.compatibility());
    // The same on every machine and in every later version of the format.
    assert_eq!(sender.compatibility(), COMPATIBILITY);
    let others = [
        codec(base, "rans"),
        codec(base.with_order(Order::Heads), "tiered"),
        codec(base.with_group_tokens(128).unwrap(), "tiered"),
        codec(grouped(4, 128, DType::Bf16), "tiered"),
        codec(grouped(8, 64, DType::F16), "tiered"),
        codec(Geometry::grouped(5, 8, 64, DType::Bf16).unwrap(), "tiered"),
        codec(Geometry::latent(4, 512, DType::Bf16).unwrap(), "tiered"),
    ];
    for other in others {
        let error = other.peek(&group).unwrap_err();
        let (found, expected) = (sender.compatibility(), other.compatibility());
        assert_eq!(error, KvError::Incompatible { found, expected }, "{}", other.geometry());
    }
}

/// Hash for eight heads of 64 BF16 values in four layers, by `tiered`.
const COMPATIBILITY: u64 = 2_655_966_220_208_650_266;

/// Bytes of version 1 stay what they are: every later version reads this group.
#[test]
fn a_group_of_version_1_is_read() {
    let codec = codec(grouped(1, 4, DType::Bf16), "raw");
    let values: Vec<Vec<u8>> = vec![(0..16).collect(), (16..32).collect()];
    let group = encoded(&codec, &values, Place { layer: 3, token: 7 });
    let hex: String = group.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GROUP);
    assert_eq!(decoded(&codec, &group), Ok(values));
}

/// Two tokens with one head of four values, by `raw`.
const GROUP: &str = "5a574b5601000000cb95bee60bc4a98d070000000000000003000000020000003000000030000000c085091d6e9b99b2\
    5a505752010000010800000000000000300000000000000010f6d93e00000000000102030405060708090a0b0c0d0e0f\
    5a505752010000010800000000000000300000000000000050bcc68600000000101112131415161718191a1b1c1d1e1f";

#[test]
fn what_does_not_belong_is_named() {
    let codec = codec(grouped(2, 8, DType::Bf16), "tiered");
    let (plane, mut out) = (vec![0; 3 * 32], vec![0; codec.bound(256)]);
    let text = |result: Result<usize, KvError>| result.unwrap_err().to_string();
    assert_eq!(text(codec.encode(Place { layer: 4, token: 0 }, &[&plane, &plane], &mut out)), "layer 4 of 4");
    assert_eq!(text(codec.encode(PLACE, &[&plane], &mut out)), "1 planes, where a group of this cache has 2");
    let of = "it has 32 bytes for a token, from 1 to 256 tokens, and all planes the same";
    assert_eq!(
        text(codec.encode(PLACE, &[&plane, &plane[1..]], &mut out)),
        format!("a plane of 95 bytes: {of}")
    );
    assert_eq!(
        text(codec.encode(PLACE, &[&plane, &plane[32..]], &mut out)),
        format!("a plane of 64 bytes: {of}")
    );
    assert_eq!(text(codec.encode(PLACE, &[&[], &[]], &mut out)), format!("a plane of 0 bytes: {of}"));
    let long = vec![0; 257 * 32];
    assert_eq!(text(codec.encode(PLACE, &[&long, &long], &mut out)), format!("a plane of 8224 bytes: {of}"));
    let (needed, half) = (codec.bound(3), codec.bound(3) - 1);
    let error = codec.encode(PLACE, &[&plane, &plane], &mut out[..half]).unwrap_err();
    assert_eq!(error, KvError::Room { found: half, needed });
    let pages: [&[&[u8]]; 2] = [&[&plane[..33], &plane[33..]], &[&plane]];
    let error = codec.encode_pages(PLACE, &pages, &mut Scratch::default(), &mut out).unwrap_err();
    assert_eq!(error.to_string(), format!("a plane of 33 bytes: {of}"));
    let len = codec.encode(PLACE, &[&plane, &plane], &mut out).unwrap();
    let (mut keys, mut values) = (vec![0; 96], vec![0; 64]);
    let error = codec.decode(&out[..len], &mut [&mut keys, &mut values]).unwrap_err();
    assert_eq!(error.to_string(), format!("a plane of 64 bytes: {of}"));

    let zero = Geometry::grouped(32, 0, 128, DType::Bf16).unwrap_err().to_string();
    assert_eq!(
        zero,
        "a KV cache of 32 layers, 2 planes, 0 heads of 128 BF16, NHD, groups of 256: a number in it is zero"
    );
    assert!(Geometry::latent(1, u32::MAX, DType::Bf16).is_err());
    let error = KvCodec::new(grouped(1, 8, DType::F16), parse("window7")).unwrap_err();
    assert!(matches!(error, KvError::Unsupported { .. }), "{error}");
    let error = KvCodec::new(grouped(1, 8, DType::Bf16), "delta+rans".parse().unwrap()).unwrap_err();
    assert!(matches!(error, KvError::Codec { .. }), "{error}");
}
