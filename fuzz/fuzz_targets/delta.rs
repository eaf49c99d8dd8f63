//! Frames of `delta+rans` and `delta+tiered`, damaged or naming another base, and given the checksums that their values call for.

#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // Too few bytes are no input.
    let _ = zipwire_fuzz::damaged_difference(&mut Unstructured::new(input));
});
