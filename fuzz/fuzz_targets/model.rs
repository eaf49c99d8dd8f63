//! Compressed model files, damaged in their headers, in what they say of themselves (with digests that fit it, too) and in their values; and any bytes as one.

#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use zipwire_fuzz::{check_model, compressed_model, edited_front, scratch_file, scratch_path};

fuzz_target!(|bytes: &[u8]| zipwire_fuzz::run(bytes, |input| {
    if input.ratio(1, 8)? {
        check_model(&scratch_file(input.bytes(input.len())?), None);
        return Ok(());
    }
    let (mut bytes, base) = compressed_model(input)?;
    let is_edited = input.arbitrary()?;
    if is_edited {
        bytes = edited_front(&bytes, input)?;
    }
    for _ in 0..input.int_in_range(if is_edited { 0..=1 } else { 1..=4 })? {
        let header =
            8 + u64::from_le_bytes(*bytes.first_chunk().expect("a model file has a header")) as usize;
        let at = input.choose_index(bytes.len())?;
        let in_header = 8 + at % header.saturating_sub(8).clamp(1, bytes.len().saturating_sub(8).max(1));
        match input.int_in_range(0..=5)? {
            0 => bytes[at] = input.arbitrary()?,
            1 => bytes[at] ^= 1 << input.int_in_range(0..=7)?,
            // Another digit where there is one: lengths, offsets, shapes, versions.
            2 | 3 => {
                let digits = bytes.iter_mut().skip(in_header).take(header);
                if let Some(digit) = digits.into_iter().find(|byte| byte.is_ascii_digit()) {
                    *digit = b'0' + input.int_in_range(0..=9)?;
                }
            }
            4 if in_header < bytes.len() => bytes[in_header] = input.arbitrary()?,
            _ => bytes.truncate(at.max(8)),
        }
    }
    let path = scratch_path("damaged");
    fs::write(&path, &bytes).expect("there is room for a temporary file");
    check_model(&path, base);
    Ok(())
}));
