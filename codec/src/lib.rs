#![doc = include_str!("../README.md")]
//!
//! # Levels
//!
//! Inner loops run on the best instruction set that the machine has ([`simd_level`]), unless [`force_simd`] has chosen
//! another; the bytes are the same.
//!
//! # Errors
//!
//! [`EncodeError`], [`DecodeError`], [`SpecError`] and [`ContainerError`] say in one line what is wrong; where it can be said
//! what to do about it, their `help` does.

mod auto;
mod blocks;
mod canonical;
mod checksum;
mod codebook16;
mod codec;
mod compress;
mod container;
mod custom;
mod decode;
mod dedup;
mod delta;
mod entropy;
mod error;
mod frame;
mod groups;
mod huffman;
mod kernel;
mod levels;
mod options;
#[cfg(feature = "parallel")]
pub mod parallel;
mod planes;
mod rans;
mod raw;
mod registry;
pub mod scale;
mod sections;
mod shape;
mod sign_mantissa;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod simd;
mod spec;
mod streaming_store;
mod tables;
mod tiered;
mod tile;
mod window7;

pub use auto::{Auto, Class, Costs, Estimate, Goal, SPARSE_ZEROS_PCT, Speed};
pub use codebook16::{Codebook, Codebook16};
pub use codec::Codec;
pub use compress::{
    compress, compress_bound, compress_into, compress_into_with, compress_with, decompress, decompress_into,
    encode_to_vec,
};
pub use container::{
    CONTAINER_VERSION, ContainerBuilder, ContainerError, ContainerIndex, DEFAULT_CHUNK_VALUES,
    MAX_CHUNK_VALUES, Reader, SeekReader, Writer, WriterOptions,
};
pub use custom::{CustomCodec, RegisterError, register};
pub use decode::{Decoder, decode, decode_from_slice};
pub use dedup::{Dedup, RowIndex, RowIndexError};
pub use delta::{Base, Delta, DeltaCoding};
pub use error::{
    BlockFault, DecodeError, DeltaFault, EncodeError, GroupFault, RowFault, Section, TableError, TileFault,
    WordFault,
};
pub use frame::{FRAME_VERSION, FrameInfo, HEADER_LEN};
pub use groups::{Blockwise, ByteGroup, Grouped};
pub use huffman::{ExponentWords, Huffman};
pub use kernel::SimdLevel;
#[cfg(fuzzing)]
pub use levels::with_simd;
pub use levels::{SimdUnavailable, force_simd, simd_level, simd_levels};
pub use planes::Planes;
pub use rans::Rans;
pub use raw::Raw;
pub use shape::{DType, FrameShape, Layout};
pub use sign_mantissa::{decode_exponents, encode_exponents, sign_mantissa_len, write_sign_mantissa};
pub use spec::{Spec, SpecError};
pub use tables::{BookUsage, Table, TableUsage};
pub use tiered::Tiered;
pub use window7::Window7;

/// Alignment, in bytes, at which callers place the sections of each peer in a shared buffer.
///
/// It is the size of a memory transaction of a GPU; the front matter of tiled frames is padded to it, so that
/// tile bodies of an aligned section are aligned as well. Decoding does not depend on it.
pub const CHUNK_ALIGN: usize = 128;
