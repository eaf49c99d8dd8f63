//! What users choose codecs by: specs, and code book files.

#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use zipwire_codec::{Codebook, FrameShape, Layout, Spec, decode_from_slice, encode_to_vec};
use zipwire_fuzz::scratch_file;

// The facade's own module, without the crates that the facade is in front of.
#[path = "../../src/codebook.rs"]
mod codebook;
#[path = "../../src/help.rs"]
mod help;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_spec(text);
    }
    let path = scratch_file(bytes);
    match codebook::read_codebook(&path) {
        Ok(book) => check_book(&path, book),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

/// A spec that parses is that of its own text.
fn check_spec(text: &str) {
    match text.parse::<Spec>() {
        Ok(spec) => {
            let canonical = spec.to_string();
            assert_eq!(canonical.parse::<Spec>().as_ref(), Ok(&spec));
            // A speed is written in one unit, whatever it was given in.
            assert!(canonical.len() <= text.len() || text.contains("link="));
            assert_eq!(spec.codec().id(), canonical.split([':', '+']).next().unwrap_or_default());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A book comes back from its file, and codes values.
fn check_book(path: &std::path::Path, book: Codebook) {
    let text = fs::read(path).expect("the file was read before");
    codebook::write_codebook(path, &book).expect("the file can be written");
    assert_eq!(codebook::read_codebook(path).ok(), Some(book));
    let values = &text[..text.len() / 2 * 2];
    let count = values.len() / book.dtype().width();
    for layout in Layout::ALL {
        let frame =
            encode_to_vec(&*book.codec(), layout, book.dtype(), values).expect("the type is supported");
        let out = decode_from_slice(FrameShape::new(layout, book.dtype(), count), &frame);
        assert!(out.is_ok_and(|out| out == values));
    }
}
