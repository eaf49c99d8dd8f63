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
//! [`register`] makes them known to specs and readers of this process. Until then their types encode, and readers refuse the
//! frames; functions of this crate that read frames register, too. `auto` does not choose them.
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

/// Makes the codecs known to this process: specs name them, and readers decode their frames. Every call but the first one does nothing.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for entry in &CODECS {
            registry::add(entry).expect("ids and tags of the papers' codecs are kept for them");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use zipwire_codec::{CustomCodec, DType, DecodeError, FrameShape, RegisterError, Spec};

    #[test]
    fn codecs_are_registered_once_by_many_threads_with_the_options_that_they_have() {
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(register))));
        for entry in &CODECS {
            let id = entry.codec.id();
            assert_eq!(Spec::ids().filter(|other| *other == id).count(), 1, "{id}");
            let spec: Spec = id.parse().unwrap();
            assert_eq!(spec.codec().id(), id);
            let takes_table = Spec::options(id).any(|option| option == "table");
            assert_eq!(takes_table, entry.tables.is_some(), "{id}");
        }
    }

    #[test]
    fn ids_and_tags_are_kept_for_them() {
        for entry in &CODECS {
            let id = entry.codec.id();
            assert_eq!(zipwire_codec::register(Other(id)), Err(RegisterError::IdKept { id }));
            let unknown = DecodeError::UnknownCodec { tag: entry.tag };
            assert!(unknown.help().is_some_and(|help| help.contains("zipwire-paper-codecs")), "{id}");
        }
    }

    /// A codec of a stranger with this id.
    #[derive(Debug)]
    struct Other(&'static str);

    impl CustomCodec for Other {
        fn id(&self) -> &'static str {
            self.0
        }
        fn tag(&self) -> u8 {
            200
        }
        fn supports(&self, _: DType) -> bool {
            true
        }
        fn bound(&self, shape: FrameShape) -> usize {
            shape.values_len()
        }
        fn min_len(&self, _: FrameShape) -> usize {
            0
        }
        fn encode(&self, _: FrameShape, _: &[u8], _: &mut [u8], _: &mut [u8]) -> usize {
            0
        }
        fn decode(&self, _: FrameShape, _: &[u8], _: &[u8], _: &mut [u8]) -> Result<(), String> {
            Ok(())
        }
    }
}
