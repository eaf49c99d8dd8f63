//! Codecs of published papers, after their texts, with the inner loops of [`zipwire_codec`]: references that its own codecs are held against, and readers of
//! their frames.
//!
//! | codec | paper |
//! |---|---|
//! | [`Window7`] | ZipCCL |
//! | [`Codebook16`] | SplitZip |
//! | [`Huffman`] | DFloat11 |
//! | [`Grouped`] | ZipNN |
//! | [`Blockwise`] | LMC |
//!
//! [`register`] makes them known to specs, readers and `auto`.
//!
//! ```
//! use zipwire_codec::{Codec, DType, Layout, Spec, decompress};
//!
//! zipwire_paper_codecs::register();
//! let codec = "window7".parse::<Spec>()?.codec();
//! let values: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700).to_le_bytes()).collect();
//! let frame = codec.encode_to_vec(Layout::Compact, DType::Bf16, &values)?;
//! assert_eq!(decompress(&frame)?, values);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod codebook16;
mod error;
mod groups;
mod huffman;
mod kernel;
mod measured;
pub mod scale;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod simd;
mod tile;
mod window7;

pub use codebook16::{BookUsage, Codebook, Codebook16};
pub use error::CodebookError;
pub use groups::{Blockwise, ByteGroup, Grouped};
pub use huffman::{ExponentWords, Huffman};
pub use window7::Window7;

use std::sync::Once;

use groups::Scheme;
use zipwire_codec::registry::{self, Entry, Own};

#[rustfmt::skip]
static CODECS: [Entry; 5] = [
    Entry { tag: window7::TAG, codec: &Window7::new(), options: window7::OPTIONS, of: &Own { build: window7::build, decode: window7::decode }, tables: None, pieces: Some(window7::PIECES) },
    Entry { tag: codebook16::TAG, codec: &Codebook16::new(), options: codebook16::OPTIONS, of: &Own { build: |_| Box::new(Codebook16::new()), decode: codebook16::decode }, tables: Some(codebook16::TABLES), pieces: Some(codebook16::PIECES) },
    Entry { tag: Scheme::Grouped.tag(), codec: &Grouped, options: &[], of: &Own { build: |_| Box::new(Grouped), decode: groups::decode_grouped }, tables: None, pieces: Some(groups::GROUPED_PIECES) },
    Entry { tag: Scheme::Blockwise.tag(), codec: &Blockwise, options: &[], of: &Own { build: |_| Box::new(Blockwise), decode: groups::decode_blockwise }, tables: None, pieces: None },
    Entry { tag: huffman::TAG, codec: &Huffman, options: &[], of: &Own { build: |_| Box::new(Huffman), decode: huffman::decode }, tables: None, pieces: None },
];

/// Makes the codecs known to this process: specs name them, readers decode their frames, and `auto` chooses among them as well. Every call but the first one
/// does nothing.
///
/// # Panics
/// If another codec has been registered under one of their ids.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for entry in &CODECS {
            registry::add(entry).expect("no other codec has the id of one of the papers'");
        }
        zipwire_codec::auto::add(measured::CANDIDATES);
    });
}
