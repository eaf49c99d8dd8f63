//! Inputs that users choose codecs by: specs, and files of tables.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use zipwire_codec::{Codec, Layout, Spec};
use zipwire_traces::{TableFile, parse_table};

fuzz_target!(|bytes: &[u8]| {
    zipwire_paper_codecs::register();
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_spec(text);
    }
    match parse_table(bytes, Path::new("table.json")) {
        Ok(file) => check_table(bytes, &file),
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
            assert!(spec.table_id().is_none() || spec.complete().is_err());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A table comes back from its file, and codes values.
fn check_table(bytes: &[u8], file: &TableFile) {
    assert_eq!(parse_table(file.to_text().as_bytes(), Path::new("table.json")).ok().as_ref(), Some(file));
    let (spec, dtype) = (file.spec(), file.table.dtype().expect("the file was compared with its bytes"));
    let values = &bytes[..bytes.len() / dtype.width() * dtype.width()];
    for layout in Layout::ALL {
        let codec = spec.codec();
        let frame = codec.encode_to_vec(layout, dtype, values).expect("the type is supported");
        let out = spec.decoder().decompress(&frame);
        assert!(out.is_ok_and(|out| out == values));
    }
}
