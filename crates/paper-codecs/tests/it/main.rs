//! The papers' codecs by their public interface: laws, known sizes, and second writers and readers by the text of the format.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[path = "../../../../codec/tests/it/common/mod.rs"]
mod common;

mod codebook16;
mod codebook16_reference;
#[path = "codecs.rs"]
mod codecs;
mod groups_reference;
mod huffman_reference;
mod window7;
mod window7_reference;

/// The error for a defect of a tile.
fn in_tile(codec: &'static str, tile: usize, defect: &str) -> zipwire_codec::DecodeError {
    zipwire_codec::DecodeError::Custom { codec, defect: format!("tile `{tile}`: {defect}") }
}
