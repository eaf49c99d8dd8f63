//! Containers, damaged and given the checksums that they call for; and any bytes as a container.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipwire_fuzz::{check_container, container};

fuzz_target!(|bytes: &[u8]| zipwire_fuzz::run(bytes, |input| {
    if input.ratio(1, 8)? {
        check_container(&mut input.bytes(input.len())?.to_vec());
        return Ok(());
    }
    let (mut bytes, data) = container(input)?;
    assert_eq!(
        check_container(&mut bytes.clone()).as_deref(),
        Some(&data[..]),
        "an intact container gives its data"
    );
    for _ in 0..input.int_in_range(1..=4)? {
        let at = input.choose_index(bytes.len())?;
        match input.int_in_range(0..=4)? {
            0 => bytes[at] = input.arbitrary()?,
            1 => bytes[at] ^= 1 << input.int_in_range(0..=7)?,
            // The ends, where header and index are.
            2 => bytes[at % 16] = input.arbitrary()?,
            3 => {
                let from_end = 1 + at % bytes.len().min(64);
                let at = bytes.len() - from_end;
                bytes[at] = input.arbitrary()?;
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    check_container(&mut bytes);
    Ok(())
}));
