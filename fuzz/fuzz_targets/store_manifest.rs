//! Any text as the manifest of a checkpoint.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipwire_fuzz::check_manifest;

fuzz_target!(|body: &[u8]| check_manifest(body));
