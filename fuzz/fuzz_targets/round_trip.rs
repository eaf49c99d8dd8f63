//! Any values through every codec, layout and type: the same bytes on every level, and the values again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipwire_codec::FrameShape;
use zipwire_fuzz::{Frame, SPECS};

fuzz_target!(|bytes: &[u8]| zipwire_fuzz::run(bytes, |input| {
    let codec = match input.int_in_range(0..=SPECS.len() + 1)? {
        0 => zipwire_fuzz::blocks(input, "tiered:row")?.codec(),
        1 => zipwire_fuzz::dedup(input)?,
        number => zipwire_fuzz::codec(SPECS[number - 2]),
    };
    let dtype = zipwire_fuzz::dtype(input, &*codec)?;
    let layout = zipwire_fuzz::layout(input)?;
    let values = zipwire_fuzz::values(input, dtype)?;
    let frame = Frame::new(&*codec, layout, dtype, &values);
    assert!(frame.len() <= codec.bound(FrameShape::new(layout, dtype, values.len() / dtype.width())));
    frame.check_intact(&values);
    Ok(())
}));
