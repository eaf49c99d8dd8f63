//! Compressed tensors, sound, edited, and any bytes.

#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::num::NonZero;
use xxhash_rust::xxh3::xxh3_64;
use zipwire_models::file::Watch;
use zipwire_models::tensor::{Description, Packed, Packing, TensorError};

/// Most bytes of values that are decoded.
const MOST: usize = 1 << 24;
const DTYPES: [(&str, u64); 6] =
    [("BF16", 2), ("F32", 4), ("F8_E4M3", 1), ("I64", 8), ("BOOL", 1), ("F16", 2)];
const SPECS: [&str; 6] = ["auto", "tiered", "rans", "raw", "planes", "window7"];

fuzz_target!(|input: &[u8]| {
    zipwire_paper_codecs::register();
    let mut u = Unstructured::new(input);
    if u.arbitrary().unwrap_or(true) {
        // What is too short for a recipe says nothing.
        let _ = check_tensor(u);
    } else {
        let _ = unpack(u.take_rest(), None);
    }
});

fn watch() -> Watch<'static> {
    Watch { threads: NonZero::<usize>::MIN, ..Watch::default() }
}

/// The values, or an error that prints.
fn unpack(bytes: &[u8], base: Option<&[u8]>) -> std::result::Result<Vec<u8>, TensorError> {
    let packed = Packed::open(bytes).inspect_err(|error| drop(error.to_string()))?;
    let mut values = vec![0; packed.len().min(MOST)];
    packed.unpack_into(&mut values, base, &watch()).inspect_err(|error| drop(error.to_string()))?;
    Ok(values)
}

/// A tensor comes back within its bound; with edits, of which the header knows nothing or its digest is made to fit, it gives as many values as it says or an error.
fn check_tensor(mut u: Unstructured<'_>) -> Result<()> {
    let (dtype, width) = *u.choose(&DTYPES)?;
    let shape = [u.int_in_range(0..=300)?, u.int_in_range(0..=300)?];
    let spec = u.choose(&SPECS)?.parse().expect("it is registered");
    let (has_base, edits, fits) =
        (u.arbitrary::<bool>()?, u.int_in_range(0..=4_usize)?, u.arbitrary::<bool>()?);
    let edits: Vec<(u32, u8)> = (0..edits).map(|_| u.arbitrary()).collect::<Result<_>>()?;
    let pattern = u.take_rest();
    let len = (shape[0] * shape[1] * width) as usize;
    let values: Vec<u8> = pattern.iter().copied().chain([0x3c]).cycle().take(len).collect();
    let before: Vec<u8> = values.iter().map(|byte| byte & 0xfe).collect();
    let base = has_base.then_some(&before[..]);
    let description = Description::new(dtype, shape);
    // A codec may have no differences.
    let Ok(packing) = Packing::new(&description, &spec, base) else { return Ok(()) };
    let mut bytes = vec![0; packing.bound()];
    let end = packing.pack_into(&values, &mut bytes, &watch()).expect("the room is its bound");
    bytes.truncate(end);
    assert!(unpack(&bytes, base).expect("it is sound") == values, "{description} by {spec}");
    for (at, bits) in &edits {
        let at = *at as usize % bytes.len();
        bytes[at] ^= bits;
    }
    let front = 8 + dtype.len().next_multiple_of(8) + 16;
    if fits {
        let digest = xxh3_64(&bytes[..front]).to_le_bytes();
        bytes[front..front + 8].copy_from_slice(&digest);
    }
    let _ = unpack(&bytes, base);
    Ok(())
}
