//! The library by itself, without the codecs of papers: a process in which nothing registers them.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use zipwire_codec::{Codec, DType, DecodeError, FrameInfo, Layout, Raw, Spec, SpecError, decompress};

#[test]
fn codecs_of_papers_are_named_as_such() {
    assert!(Spec::ids().eq(["raw", "tiered", "rans", "planes", "auto"]));
    for (id, tag) in [("window7", 1), ("codebook16", 3), ("grouped", 7), ("blockwise", 8), ("huffman", 9)] {
        let error = id.parse::<Spec>().unwrap_err();
        assert!(matches!(&error, SpecError::UnknownId { .. }), "{error}");
        assert!(error.help().unwrap().contains("zipwire-paper-codecs"));
        let mut frame = Raw.encode_to_vec(Layout::Compact, DType::Bf16, &[1; 64]).unwrap();
        frame[5] = tag;
        let error = decompress(&frame).unwrap_err();
        assert_eq!(error, DecodeError::UnknownCodec { tag });
        assert!(error.help().unwrap().contains("zipwire-paper-codecs"));
    }
}

/// A frame of `auto` is read by whoever has this crate.
#[test]
fn what_is_chosen_can_be_read() {
    let values: Vec<u8> =
        (0..50_000u32).flat_map(|i| (0x3c00 + ((i * i) >> 9) as u16 % 700).to_le_bytes()).collect();
    for spec in ["auto", "auto:goal=size", "auto:goal=speed", "auto:link=25 GB/s"] {
        for dtype in DType::ALL {
            for layout in Layout::ALL {
                let frame =
                    spec.parse::<Spec>().unwrap().codec().encode_to_vec(layout, dtype, &values).unwrap();
                assert!(FrameInfo::peek(&frame).unwrap().static_len <= frame.len());
                assert_eq!(decompress(&frame).unwrap(), values, "{spec} {dtype} {layout}");
            }
        }
    }
}
