//! Lossless codecs for tensors on their way between devices.
//!
//! A codec turns the values of one chunk (one tensor, or the part of it that goes to one peer) into a *frame*, and
//! back, bit for bit. A frame has two parts:
//!
//! - the **static section**, whose length follows from the number of values alone, so that both ends of a transfer
//!   know it before anything is compressed;
//! - the **dynamic section**, whose length depends on the values.
//!
//! The [`Layout`] says how bytes are divided between them. In [`Layout::Split`] nearly everything is static and can be
//! sent at once; [`Layout::Compact`] has no static section and is smaller. No frame is ever longer than
//! [`Codec::bound`], whatever the values are.
//!
//! ```
//! use zipwire_codec::{DType, FrameShape, Layout, Spec, decode};
//!
//! let values: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700).to_le_bytes()).collect();
//! let count = values.len() / DType::Bf16.width();
//! let codec = "window7".parse::<Spec>()?.codec();
//!
//! let shape = FrameShape::new(Layout::Split, DType::Bf16, count);
//! let static_len = codec.static_len(shape);
//! let mut static_section = vec![0; static_len];
//! let mut dynamic_section = vec![0; codec.bound(shape) - static_len];
//! let dynamic_len =
//!     codec.encode(Layout::Split, DType::Bf16, &values, &mut static_section, &mut dynamic_section)?;
//!
//! let mut out = vec![0; values.len()];
//! decode(Layout::Split, DType::Bf16, &static_section, &dynamic_section[..dynamic_len], &mut out)?;
//! assert_eq!(out, values);
//! assert!(static_len + dynamic_len < values.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is *asked* of a codec is a [`Spec`] (`window7:scale=std`); what it *chose* for each tile is stored in the frame,
//! so [`decode`] needs no spec. Every byte is specified in `docs/format.md`; the format is unstable.
//!
//! Inner loops run on the best instruction set that the machine has ([`simd_level`]), unless [`force_simd`] has chosen
//! another; the bytes are the same.
//!
//! The crate is pure: no clock, no threads, no I/O, no global state but this choice; the same values give the same bytes
//! on every machine. It is not a container format: frames carry no names or shapes, and no list of tensors.

mod apart;
mod body;
mod book_usage;
mod checksum;
mod codebook16;
mod codec;
mod compress;
mod container;
mod decode;
mod decoder;
mod dedup;
mod dtype;
mod error;
mod frame;
mod header;
mod info;
mod kernel;
mod layout;
mod levels;
mod memory;
mod options;
#[cfg(feature = "parallel")]
pub mod parallel;
mod past;
mod pieces;
mod raw;
mod registry;
pub mod scale;
mod sections;
mod shape;
#[cfg(target_arch = "x86_64")]
mod simd;
mod spec;
mod tables;
mod tiered;
mod tile;
mod window7;

pub use apart::{decode_apart, encode_apart, rests_len, write_rests};
pub use book_usage::BookUsage;
pub use codebook16::{Codebook, Codebook16};
pub use codec::Codec;
pub use compress::{
    compress, compress_bound, compress_into, compress_into_with, compress_with, decompress, decompress_into,
    encode_to_vec,
};
pub use container::{
    CONTAINER_VERSION, ContainerError, DEFAULT_CHUNK_VALUES, MAX_CHUNK_VALUES, Reader, SeekReader, Writer,
    WriterOptions,
};
pub use decode::{decode, decode_from_slice};
pub use decoder::Decoder;
pub use dedup::{Dedup, RowIndex, RowIndexError};
pub use dtype::DType;
pub use error::{BlockFault, DecodeError, EncodeError, RowFault, Section, SpecError, TableError, TileFault};
pub use header::{FRAME_VERSION, HEADER_LEN};
pub use info::FrameInfo;
pub use kernel::SimdLevel;
pub use layout::Layout;
#[cfg(fuzzing)]
pub use levels::with_simd;
pub use levels::{SimdUnavailable, force_simd, simd_level, simd_levels};
pub use raw::Raw;
pub use shape::FrameShape;
pub use spec::Spec;
pub use tables::Table;
pub use tiered::Tiered;
pub use window7::Window7;

/// Alignment, in bytes, at which callers place the sections of each peer in a shared buffer.
///
/// It is the size of a memory transaction of a GPU; the front matter of tiled frames is padded to it, so that
/// tile bodies of an aligned section are aligned as well. Decoding does not depend on it.
pub const CHUNK_ALIGN: usize = 128;
