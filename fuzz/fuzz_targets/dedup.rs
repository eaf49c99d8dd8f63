//! Frames of `dedup` in front of every other codec, damaged and given the checksums that their values call for.

#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use zipwire_codec::Layout;

fuzz_target!(|input: &[u8]| {
    // Too few bytes are no input.
    let _ = run(&mut Unstructured::new(input));
});

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let codec = zipwire_fuzz::dedup(input)?;
    let dtype = zipwire_fuzz::dtype(input, &*codec)?;
    // In the other layout its frames are those of the codec behind it.
    zipwire_fuzz::damaged_frame(input, &*codec, Layout::Compact, dtype)
}
