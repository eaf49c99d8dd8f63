//! Frames of `delta+rans` and `delta+tiered`, damaged or naming another base, and given the checksums that their values call for.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| zipwire_fuzz::run(bytes, zipwire_fuzz::damaged_difference));
