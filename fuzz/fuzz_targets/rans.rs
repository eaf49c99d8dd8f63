//! Frames of `rans`, with and without columns, bits of mantissas and a table that they name, damaged and given the checksum that their values call for.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| zipwire_fuzz::run(bytes, |input| {
    let id = if input.arbitrary()? { "rans:mantissa=2,row" } else { "rans:row" };
    let spec = zipwire_fuzz::blocks(input, id)?;
    let dtype = zipwire_fuzz::dtype(input, &*spec.codec())?;
    let layout = zipwire_fuzz::layout(input)?;
    let spec = zipwire_fuzz::with_table(input, &spec, layout, dtype)?;
    zipwire_fuzz::damaged_frame_with(input, &*spec.codec(), spec.decoder(), layout, dtype)
}));
