//! Groups of KV caches, sound, edited, and any bytes.

#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use zipwire_fuzz::{check_bytes, check_group, kv_codec};

fuzz_target!(|input: &[u8]| {
    zipwire_paper_codecs::register();
    let mut u = Unstructured::new(input);
    if u.arbitrary().unwrap_or(true) {
        // What is too short for a recipe says nothing.
        let _ = check_group(&mut u);
    } else if let Ok(codec) = kv_codec(&mut u) {
        check_bytes(&codec, u.take_rest());
    }
});
