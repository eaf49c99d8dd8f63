//! Planted defects of the kinds that loads of vectors could have. Miri refuses each of them, or it would not find these in the kernels:
//! `tools/miri` runs them one by one and demands an error.

/// Loads like `load_8_at` of the kernels, but at a position that the caller has not compared with the length.
fn load_8_at(bytes: &[u8], position: usize) -> u64 {
    // SAFETY: there is none, on purpose. Nobody promises that eight bytes are there.
    unsafe { bytes.as_ptr().add(position).cast::<u64>().read_unaligned() }
}

#[test]
#[ignore = "wrong on purpose, for Miri to refuse"]
fn a_load_that_reaches_past_the_end() {
    let bytes = vec![1u8; 39].into_boxed_slice();
    assert_eq!(load_8_at(&bytes, 31), 0x0101_0101_0101_0101, "the last one that fits");
    assert_ne!(load_8_at(&bytes, 32), 0);
}

#[test]
#[ignore = "wrong on purpose, for Miri to refuse"]
fn a_load_of_what_was_never_written() {
    let mut bytes = Vec::<u8>::with_capacity(16);
    bytes.extend([1; 8]);
    // SAFETY: there is none, on purpose. Half of the bytes are uninitialised.
    unsafe { bytes.set_len(16) };
    assert_eq!(load_8_at(&bytes, 0), 0x0101_0101_0101_0101, "the half that was written");
    assert_ne!(load_8_at(&bytes, 8), 1);
}

#[test]
#[ignore = "wrong on purpose, for Miri to refuse"]
fn a_store_while_the_bytes_are_borrowed() {
    let mut bytes = [0u8; 32];
    let pointer = bytes.as_mut_ptr();
    let borrowed = &bytes[..];
    // SAFETY: there is none, on purpose. The bytes are borrowed for reading.
    unsafe { pointer.cast::<u64>().write_unaligned(7) };
    assert_eq!(borrowed[0], 7);
}
