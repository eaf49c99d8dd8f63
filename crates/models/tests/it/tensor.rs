//! Tensors by themselves, with a reader written from `docs/format.md`.

use std::io::Read;
use std::num::NonZero;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};
use zipwire_codec::{Base, ContainerIndex, Decoder, Reader};
use zipwire_models::file::Watch;
use zipwire_models::tensor::{Description, Origin, Packed, Packing, TensorError};

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Bytes of values like weights: exponents are few.
fn weights(len: usize) -> Vec<u8> {
    random(7, len)
        .into_iter()
        .enumerate()
        .map(|(at, byte)| if at % 2 == 1 { 0x3c + byte % 2 } else { byte })
        .collect()
}

fn packed(description: &Description, values: &[u8], spec: &str, base: Option<&[u8]>) -> Vec<u8> {
    let packing = Packing::new(description, &spec.parse().unwrap(), base).unwrap();
    let mut out = vec![0; packing.bound()];
    let len = packing.pack_into(values, &mut out, &Watch::default()).unwrap();
    out.truncate(len);
    out
}

fn unpacked(bytes: &[u8], base: Option<&[u8]>) -> Result<Vec<u8>, TensorError> {
    let packed = Packed::open(bytes)?;
    let mut values = vec![0; packed.len()];
    packed.unpack_into(&mut values, base, &Watch::default())?;
    Ok(values)
}

#[test]
fn every_type_comes_back_on_any_number_of_threads() {
    zipwire_paper_codecs::register();
    let types = [
        ("BOOL", 8),
        ("U8", 8),
        ("I16", 16),
        ("U32", 32),
        ("I64", 64),
        ("F16", 16),
        ("BF16", 16),
        ("F32", 32),
        ("F64", 64),
        ("C64", 64),
        ("F8_E4M3", 8),
        ("F8_E5M2", 8),
        ("F8_E8M0", 8),
        ("F4", 4),
    ];
    for (dtype, bits) in types {
        for shape in
            [vec![], vec![0, 3], vec![2], vec![3, 0], vec![300, 1000], vec![2, 5, 7, 2], vec![600_000]]
        {
            let description = Description { origin: Origin::Torch, ..Description::new(dtype, shape.clone()) };
            let bits = bits * shape.iter().product::<u64>();
            let Ok(len) = description.len() else {
                assert_ne!(bits % 8, 0, "{description}");
                continue;
            };
            assert_eq!(len as u64, bits / 8);
            let values = weights(len);
            for spec in ["auto", "tiered", "rans", "raw", "window7"] {
                let packing = Packing::new(&description, &spec.parse().unwrap(), None).unwrap();
                let [one, four] = [1, 4].map(|threads| {
                    let mut out = vec![0; packing.bound()];
                    let watch = Watch { threads: NonZero::new(threads).unwrap(), ..Watch::default() };
                    let len = packing.pack_into(&values, &mut out, &watch).unwrap();
                    out.truncate(len);
                    out
                });
                assert!(one == four, "{spec} of {description}: threads change the bytes");
                assert_eq!(Packed::open(&one).unwrap().description(), &description);
                assert!(unpacked(&one, None).unwrap() == values, "{spec} of {description}");
            }
        }
    }
}

/// From the page, with the codec crate for containers and frames alone.
#[test]
fn the_page_says_every_byte() {
    let (values, before) =
        (weights(600_000), weights(600_000).iter().map(|byte| byte ^ (byte & 1)).collect::<Vec<_>>());
    for base in [None, Some(&before[..])] {
        let bytes = packed(&Description::new("BF16", [3, 100_000]), &values, "rans", base);
        assert_eq!(bytes[..8], [b'Z', b'P', b'W', b'T', 1, 1 | if base.is_some() { 0x80 } else { 0 }, 2, 4]);
        assert_eq!(&bytes[8..16], b"BF16\0\0\0\0");
        let side = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((side(16), side(24), side(32)), (3, 100_000, xxh3_64(&bytes[..32])));
        let container = &bytes[40..];
        let mut decoder = Decoder::new();
        if let Some(base) = base {
            let index = ContainerIndex::read(&mut std::io::Cursor::new(container)).unwrap();
            for chunk in 0..index.chunk_count() {
                let range = index.data(chunk);
                let chunk = base[range.start as usize..range.end as usize].to_vec();
                decoder.add_base(Base::new(index.dtype(), chunk)).unwrap();
            }
        }
        let mut found = Vec::new();
        Reader::with_decoder(container, decoder).read_to_end(&mut found).unwrap();
        assert!(found == values);
    }
}

/// Readers are frozen, and what is written is meant to stay, too: a change here is a change of what others have stored.
#[test]
fn what_is_written_stays() {
    let bytes = packed(&Description::new("BF16", [2, 1000]), &weights(4000), "rans", None);
    assert_eq!(format!("{} {:032x}", bytes.len(), xxh3_128(&bytes)), "2744 b66a91fa85123e5d449f0d4f5dd0aacd");
}

#[test]
fn differences_take_their_base_and_no_other() {
    let description = Description::new("F32", [700, 100]);
    let values = weights(280_000);
    let mut base = values.clone();
    base.iter_mut().step_by(40).for_each(|byte| *byte ^= 1);
    let alone = packed(&description, &values, "rans", None);
    let bytes = packed(&description, &values, "rans", Some(&base));
    assert!(2 * bytes.len() < alone.len(), "{} against {}", bytes.len(), alone.len());
    assert!(unpacked(&bytes, Some(&base)).unwrap() == values);
    assert!(matches!(unpacked(&bytes, None), Err(TensorError::NoBase)));
    assert!(matches!(unpacked(&bytes, Some(&values)), Err(TensorError::OtherBase)));
    assert!(matches!(unpacked(&bytes, Some(&base[4..])), Err(TensorError::BaseLength { .. })));
    let mut over = base.clone();
    Packed::open(&bytes).unwrap().unpack_over(&mut over, &Watch::default()).unwrap();
    assert!(over == values);
    assert!(
        Packed::open(&bytes).unwrap().unpack_over(&mut over, &Watch::default()).is_err(),
        "it is no longer the base"
    );
    // Not needed, and therefore not looked at.
    assert!(unpacked(&alone, Some(&base)).unwrap() == values);
    // Types that no codec knows have differences, too.
    assert!(unpacked(&packed(&description, &values, "auto", Some(&base)), Some(&base)).unwrap() == values);
    let description = Description::new("I32", [700, 100]);
    let bytes = packed(&description, &values, "rans", Some(&base));
    assert!(unpacked(&bytes, Some(&base)).unwrap() == values);
}

#[test]
fn damage_is_an_error_wherever_it_is() {
    let values = weights(5000);
    let bytes = packed(&Description::new("BF16", [50, 50]), &values, "tiered", None);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        // What a reader is told of the kind of object is in the digest, too.
        assert!(unpacked(&damaged, None).is_err(), "byte {at}");
        assert!(unpacked(&bytes[..at], None).is_err(), "cut at {at}");
    }
    assert!(unpacked(&[&bytes[..], &[0]].concat(), None).is_err());
    assert!(matches!(unpacked(b"PK\x03\x04", None), Err(TensorError::Foreign { .. })));
    let mut later = bytes;
    later[4] = 2;
    assert!(matches!(unpacked(&later, None), Err(TensorError::Version { found: 2, known: 1 })));
}

#[test]
fn descriptions_that_are_of_nothing_are_refused() {
    for (dtype, shape) in [("F99", vec![1]), ("F4", vec![3]), ("F32", vec![u64::MAX, 4]), ("U8", vec![1; 65])]
    {
        let error =
            Packing::new(&Description::new(dtype, shape), &"rans".parse().unwrap(), None).unwrap_err();
        assert!(matches!(error, TensorError::Shape { .. }), "{error}");
    }
    let description = Description::new("F32", [2]);
    let packing = Packing::new(&description, &"rans".parse().unwrap(), None).unwrap();
    let pack = |values: &[u8], room: usize| packing.pack_into(values, &mut vec![0; room], &Watch::default());
    assert!(matches!(pack(&[0; 7], 1000), Err(TensorError::Length { expected: 8, found: 7, .. })));
    assert!(matches!(pack(&[0; 8], packing.bound() - 1), Err(TensorError::Output { .. })));
    let stopped = Watch { cancelled: &|| true, ..Watch::default() };
    assert!(matches!(packing.pack_into(&[0; 8], &mut vec![0; 1000], &stopped), Err(TensorError::Stopped)));
}
