//! Properties that must hold of groups of KV caches.

use arbitrary::{Result, Unstructured};
use xxhash_rust::xxh3::xxh3_64;
use zipwire_codec::DType;
use zipwire_kv::{Geometry, HEADER_LEN, KvCodec, KvError, Place, Scratch};

use crate::values;

/// A cache of few heads, by a codec that codes its type.
pub fn kv_codec(u: &mut Unstructured<'_>) -> Result<KvCodec> {
    let dtype = *u.choose(&DType::ALL)?;
    let (heads, head_size) = (u.int_in_range(1..=4)?, u.int_in_range(1..=80)?);
    let geometry = match u.arbitrary()? {
        true => Geometry::grouped(3, heads, head_size, dtype),
        false => Geometry::latent(3, head_size, dtype),
    };
    let spec = *u.choose(&["tiered", "rans", "raw", "grouped"])?;
    let geometry = geometry.expect("it is a cache").with_group_tokens(64).expect("it is a cache");
    Ok(KvCodec::new(geometry, spec.parse().expect("it is a codec")).expect("these code all types"))
}

/// A group of values comes back; with edits, and a header that goes with them, it is values or an error.
pub fn check_group(u: &mut Unstructured<'_>) -> Result<()> {
    let codec = kv_codec(u)?;
    let geometry = codec.geometry();
    let mut plane = values(u, geometry.dtype())?;
    plane.truncate(64 * geometry.row_len());
    let tokens = (plane.len() / geometry.row_len()).max(1);
    plane.resize(tokens * geometry.row_len(), 0);
    let planes = vec![&plane[..]; geometry.planes()];
    let place = Place { layer: u.int_in_range(0..=2)?, token: u.arbitrary()? };
    let mut group = vec![0; codec.bound(tokens as u32)];
    let len = codec.encode(place, &planes, &mut group).expect("it is a group of the cache");
    group.truncate(len);
    let info = codec.peek(&group).expect("it is sound");
    assert_eq!((info.place, info.len, info.plane_len), (place, len, plane.len()));
    for out in decoded(&codec, &group).expect("it is sound") {
        assert!(out == plane);
    }
    for _ in 0..u.int_in_range(0..=4)? {
        let at = u.int_in_range(0..=len - 1)?;
        group[at] = u.arbitrary()?;
    }
    if u.arbitrary()? {
        group.truncate(u.int_in_range(0..=len)?);
    }
    if group.len() >= HEADER_LEN && u.arbitrary()? {
        let sum = xxh3_64(&group[..HEADER_LEN - 8]);
        group[HEADER_LEN - 8..HEADER_LEN].copy_from_slice(&sum.to_le_bytes());
    }
    check_bytes(&codec, &group);
    Ok(())
}

/// Any bytes: planes as long as they say, whole or by pages, or an error that prints.
pub fn check_bytes(codec: &KvCodec, group: &[u8]) {
    let whole = decoded(codec, group);
    let Ok(info) = codec.peek(group) else {
        assert!(!whole.expect_err("it cannot be read").to_string().is_empty());
        return;
    };
    assert!((1..=codec.geometry().group_tokens()).contains(&info.tokens));
    let row = codec.geometry().row_len();
    let mut planes = vec![vec![0; info.plane_len]; codec.geometry().planes()];
    let mut pages: Vec<Vec<&mut [u8]>> =
        planes.iter_mut().map(|plane| plane.chunks_mut(5 * row).collect()).collect();
    let mut pages: Vec<&mut [&mut [u8]]> = pages.iter_mut().map(Vec::as_mut_slice).collect();
    let by_pages = codec.decode_pages(group, &mut pages, &mut Scratch::default());
    match (whole, by_pages) {
        (Ok(whole), Ok(_)) => assert!(whole == planes),
        (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
        (one, other) => panic!("{:?} and {:?}", one.err(), other.err()),
    }
}

fn decoded(codec: &KvCodec, group: &[u8]) -> std::result::Result<Vec<Vec<u8>>, KvError> {
    let info = codec.peek(group)?;
    let mut planes = vec![vec![0; info.plane_len]; codec.geometry().planes()];
    let mut slices: Vec<&mut [u8]> = planes.iter_mut().map(Vec::as_mut_slice).collect();
    codec.decode(group, &mut slices)?;
    Ok(planes)
}
