//! Frames of `grouped`, `blockwise`, `huffman` and `planes`, damaged and given the checksum that their values call for.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| zipwire_fuzz::run(bytes, |input| {
    let specs = ["grouped", "blockwise", "huffman", "planes", "planes:width=2", "planes:width=8"];
    let codec = zipwire_fuzz::codec(input.choose(&specs)?);
    let dtype = zipwire_fuzz::dtype(input, &*codec)?;
    let layout = zipwire_fuzz::layout(input)?;
    zipwire_fuzz::damaged_frame(input, &*codec, layout, dtype)
}));
