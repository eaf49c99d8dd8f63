//! Objects of a store with other bytes, and a header whose hash is right.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipwire_fuzz::check_object;

fuzz_target!(|input: (u8, Option<u16>, Vec<(u16, u8)>)| {
    let (number, cut, edits) = input;
    check_object(number, &edits, cut);
});
