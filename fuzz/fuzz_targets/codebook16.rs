//! Frames of `codebook16`, with books of their own or any others, damaged and given the checksum that their values call
//! for.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| zipwire_fuzz::run(bytes, |input| {
    let own = zipwire_fuzz::codec("codebook16");
    let dtype = zipwire_fuzz::dtype(input, &*own)?;
    let codec = if input.arbitrary()? { zipwire_fuzz::codebook16(input, dtype)? } else { own };
    let layout = zipwire_fuzz::layout(input)?;
    zipwire_fuzz::damaged_frame(input, &*codec, layout, dtype)
}));
