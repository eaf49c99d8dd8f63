//! Frames without their signs and mantissas: with these they are what whole frames are, and as long.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{
    Codec, DType, DecodeError, Decoder, Dedup, EncodeError, FrameShape, Layout, Spec, encode_exponents,
    sign_mantissa_len, write_sign_mantissa,
};

const BF16: DType = DType::Bf16;
const SPECS: [&str; 7] =
    ["window7", "window7:scale=std", "tiered", "tiered:row=64", "rans", "codebook16", "grouped"];

fn codec(spec: &str) -> Box<dyn Codec> {
    zipwire_paper_codecs::register();
    spec.parse::<Spec>().unwrap().codec()
}

/// A frame in its three parts.
struct Parts {
    sign_mantissa: Vec<u8>,
    fixed: Vec<u8>,
    dynamic: Vec<u8>,
}

impl Parts {
    fn of(codec: &dyn Codec, values: &[u8]) -> Self {
        let count = values.len() / 2;
        let mut sign_mantissa = vec![0xee; sign_mantissa_len(codec, BF16, count).unwrap()];
        write_sign_mantissa(values, &mut sign_mantissa);
        let static_len = codec.static_len(FrameShape::new(Layout::Split, BF16, count));
        let mut fixed = vec![0xee; static_len - sign_mantissa.len()];
        let mut dynamic = vec![0xee; codec.bound(FrameShape::new(Layout::Split, BF16, count)) - static_len];
        let len = encode_exponents(codec, BF16, values, &mut fixed, &mut dynamic).unwrap();
        dynamic.truncate(len);
        Self { sign_mantissa, fixed, dynamic }
    }

    fn decode(&self, count: usize) -> Result<Vec<u8>, DecodeError> {
        let mut out = vec![0xee; 2 * count];
        Decoder::new()
            .decode_exponents(BF16, &self.sign_mantissa, &self.fixed, &self.dynamic, &mut out)
            .map(|()| out)
    }
}

/// Values whose tiles are coded, those that are stored, and both next to each other.
fn contents(count: usize) -> Vec<Vec<u8>> {
    let mut rng = ChaCha8Rng::seed_from_u64(count as u64);
    let mut coded = || -> Vec<u8> {
        (0..count)
            .flat_map(|i| (0x3c00 + ((i as u16 % 3) << 7) + rng.random_range(0..0x180)).to_le_bytes())
            .collect()
    };
    let coded = coded();
    let mut noise = vec![0; 2 * count];
    rng.fill(&mut noise[..]);
    // Longer than a piece of any codec, so that pieces alternate.
    let mixed = (0..2 * count).map(|i| if i / 100_000 % 2 == 1 { noise[i] } else { coded[i] }).collect();
    vec![coded, noise, mixed, vec![0; 2 * count]]
}

#[test]
fn rests_and_what_is_coded_beside_them_give_the_values() {
    for spec in SPECS {
        let codec = codec(spec);
        for count in [0, 1, 12, 13, 100, 8192, 8193, 33_000, 150_001] {
            for values in contents(count) {
                let parts = Parts::of(&*codec, &values);
                assert_eq!(parts.decode(count).unwrap(), values, "{spec}, {count} values");
                let whole = codec.encode_to_vec(Layout::Split, BF16, &values).unwrap();
                let Parts { sign_mantissa, fixed, dynamic } = parts;
                assert_eq!(
                    sign_mantissa.len() + fixed.len() + dynamic.len(),
                    whole.len(),
                    "{spec}, {count} values"
                );
            }
        }
    }
}

#[test]
fn damage_never_gives_other_values() {
    for spec in SPECS {
        let (codec, count) = (codec(spec), 9000);
        for values in contents(count) {
            let mut parts = Parts::of(&*codec, &values);
            let sections: [fn(&mut Parts) -> &mut Vec<u8>; 3] =
                [|parts| &mut parts.sign_mantissa, |parts| &mut parts.fixed, |parts| &mut parts.dynamic];
            for section in sections {
                let len = section(&mut parts).len();
                for at in (0..len).step_by(97).chain((0..len).take(160)) {
                    section(&mut parts)[at] ^= 0x11;
                    if let Ok(decoded) = parts.decode(count) {
                        assert_eq!(decoded, values, "{spec}: byte {at}");
                    }
                    section(&mut parts)[at] ^= 0x11;
                }
                if let Some(last) = section(&mut parts).pop() {
                    assert!(parts.decode(count).is_err(), "{spec}: one byte less");
                    section(&mut parts).push(last);
                }
                section(&mut parts).push(0);
                assert!(parts.decode(count).is_err(), "{spec}: one byte more");
                section(&mut parts).pop();
            }
        }
    }
}

/// Frames come over wires: sections that several edits have hit, and that were cut, are refused or have the values.
#[test]
fn no_number_of_edits_gives_other_values() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for spec in SPECS {
        let (codec, count) = (codec(spec), 9000);
        for values in contents(count) {
            let intact = Parts::of(&*codec, &values);
            for round in 0..120 {
                let mut parts = Parts {
                    sign_mantissa: intact.sign_mantissa.clone(),
                    fixed: intact.fixed.clone(),
                    dynamic: intact.dynamic.clone(),
                };
                for _ in 0..rng.random_range(1..6) {
                    // Tables and headers are in front.
                    let section = if rng.random_bool(0.7) { &mut parts.fixed } else { &mut parts.dynamic };
                    let reach = if rng.random_bool(0.7) { 96.min(section.len()) } else { section.len() };
                    if reach > 0 {
                        section[rng.random_range(0..reach)] = rng.random();
                    }
                }
                if round % 3 == 0 {
                    let len = rng.random_range(0..=parts.dynamic.len());
                    parts.dynamic.truncate(len);
                }
                if let Ok(decoded) = parts.decode(count) {
                    assert_eq!(decoded, values, "{spec}: round {round}");
                }
            }
        }
    }
}

#[test]
fn a_changed_rest_is_noticed() {
    for spec in SPECS {
        for values in contents(9000) {
            let mut parts = Parts::of(&*codec(spec), &values);
            parts.sign_mantissa[4711] ^= 0x80;
            assert!(matches!(parts.decode(9000), Err(DecodeError::Checksum { .. })), "{spec}");
        }
    }
}

#[test]
fn what_has_no_rests_is_refused() {
    let dedup = Dedup::new(codec("window7"), 64);
    let raw = codec("raw");
    let refused: [(&dyn Codec, DType); 4] =
        [(&*raw, BF16), (&dedup, BF16), (&*codec("tiered"), DType::F32), (&*codec("tiered"), DType::F8E4M3)];
    for (codec, dtype) in refused {
        assert_eq!(sign_mantissa_len(codec, dtype, 10), None);
        let error = encode_exponents(codec, dtype, &[0; 40], &mut [0; 400], &mut [0; 400]).unwrap_err();
        assert!(matches!(error, EncodeError::Unsupported { .. }), "{error}");
    }
    let error =
        encode_exponents(&*codec("window7"), BF16, &[0; 40], &mut [0; 400], &mut [0; 400]).unwrap_err();
    assert!(matches!(error, EncodeError::StaticBuffer { .. }), "{error}");
}
