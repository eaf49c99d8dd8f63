//! Frames of `tiered`, with and without columns, damaged and given the checksum that their values call for.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| zipwire_fuzz::run(bytes, |input| {
    let codec = zipwire_fuzz::blocks(input, "tiered:row")?.codec();
    let dtype = zipwire_fuzz::dtype(input, &*codec)?;
    let layout = zipwire_fuzz::layout(input)?;
    zipwire_fuzz::damaged_frame(input, &*codec, layout, dtype)
}));
