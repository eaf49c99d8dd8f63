//! Frames of `tiered`, with and without columns, damaged and given the checksum that their values call for.

#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // Too few bytes are no input.
    let _ = run(&mut Unstructured::new(input));
});

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let codec = zipwire_fuzz::blocks(input, "tiered:row")?.codec();
    let dtype = zipwire_fuzz::dtype(input, &*codec)?;
    let layout = zipwire_fuzz::layout(input)?;
    zipwire_fuzz::damaged_frame(input, &*codec, layout, dtype)
}
