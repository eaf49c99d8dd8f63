//! Every test of frames once more on the portable path, in a process that runs nothing else.

#![allow(clippy::duplicate_mod, reason = "each of these is a test target of its own as well")]

#[path = "auto.rs"]
mod auto;
#[path = "blocks_reference.rs"]
mod blocks_reference;
#[path = "codebook16.rs"]
mod codebook16;
#[path = "codebook16_reference.rs"]
mod codebook16_reference;
#[path = "codecs.rs"]
mod codecs;
#[path = "dedup.rs"]
mod dedup;
#[path = "delta.rs"]
mod delta;
#[path = "delta_reference.rs"]
mod delta_reference;
#[path = "golden.rs"]
mod golden;
#[path = "rans.rs"]
mod rans;
#[path = "reference.rs"]
mod reference;
#[path = "shared_tables.rs"]
mod shared_tables;
#[path = "theory.rs"]
mod theory;
#[path = "tiered.rs"]
mod tiered;
#[path = "window7.rs"]
mod window7;

#[test]
fn this_process_is_portable() {
    let level = codecs::common::level();
    assert_eq!(level, zipwire_codec::SimdLevel::Portable);
    zipwire_codec::force_simd(level).unwrap();
    assert_eq!(zipwire_codec::simd_level(), level);
}
