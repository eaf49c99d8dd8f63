//! Frames of `dedup` in front of every other codec, damaged and given the checksums that their values call for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipwire_codec::Layout;

fuzz_target!(|bytes: &[u8]| zipwire_fuzz::run(bytes, |input| {
    let codec = zipwire_fuzz::dedup(input)?;
    let dtype = zipwire_fuzz::dtype(input, &*codec)?;
    // In the other layout its frames are those of the codec behind it.
    zipwire_fuzz::damaged_frame(input, &*codec, Layout::Compact, dtype)
}));
