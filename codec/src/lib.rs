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

// Hidden modules are what codecs of this workspace are made of. They are outside of the promise of versions.
mod auto;
mod base;
mod blocks;
#[doc(hidden)]
pub mod canonical;
#[doc(hidden)]
pub mod checksum;
mod codec;
mod compress;
mod container;
mod custom;
mod decode;
mod dedup;
mod delta;
mod entropy;
mod error;
#[doc(hidden)]
pub mod frame;
mod info;
#[doc(hidden)]
pub mod kernel;
#[doc(hidden)]
pub mod levels;
#[doc(hidden)]
pub mod options;
#[cfg(feature = "parallel")]
pub mod parallel;
mod planes;
mod rans;
mod raw;
#[doc(hidden)]
pub mod registry;
#[doc(hidden)]
pub mod sections;
mod shape;
mod sign_mantissa;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[doc(hidden)]
pub mod simd;
mod spec;
#[doc(hidden)]
pub mod streaming_store;
#[doc(hidden)]
pub mod tables;
mod tiered;

pub use auto::{Auto, Class, Costs, Estimate, Goal, SPARSE_ZEROS_PCT, Speed};
pub use base::Base;
pub use codec::Codec;
#[doc(hidden)]
pub use codec::{Checked, EncodeChecked};
pub use compress::{compress, compress_bound, compress_into, decompress, decompress_into};
pub use container::{
    CONTAINER_VERSION, ContainerBuilder, ContainerError, ContainerIndex, DEFAULT_CHUNK_VALUES,
    MAX_CHUNK_VALUES, Reader, SeekReader, Writer, WriterOptions,
};
pub use custom::{CustomCodec, register};
pub use decode::Decoder;
#[doc(hidden)]
pub use decode::open;
pub use dedup::{Dedup, RowIndex, RowIndexError};
pub use delta::{Delta, DeltaCoding};
pub use error::{
    BlockFault, DecodeError, DeltaFault, EncodeError, PlaneFault, RegisterError, RowFault, Section,
    SpecError, TableError,
};
pub use frame::HEADER_LEN;
pub use info::FrameInfo;
pub use kernel::SimdLevel;
#[cfg(fuzzing)]
pub use levels::with_simd;
pub use levels::{SimdUnavailable, force_simd, simd_level, simd_levels};
pub use planes::Planes;
pub use rans::Rans;
pub use raw::Raw;
pub use shape::{DType, FrameShape, Layout};
pub use sign_mantissa::{encode_exponents, sign_mantissa_len, write_sign_mantissa};
pub use spec::Spec;
pub use tables::{Table, TableUsage};
pub use tiered::Tiered;

/// Latest version of the frame format. Decoders read it and those before it, down to 1, and refuse others; a frame has the lowest version that has its codec.
pub const FRAME_VERSION: u8 = 2;

/// Alignment, in bytes, at which callers place the sections of each peer in a shared buffer.
///
/// It is the size of a memory transaction of a GPU; the front matter of tiled frames is padded to it, so that
/// tile bodies of an aligned section are aligned as well. Decoding does not depend on it.
pub const CHUNK_ALIGN: usize = 128;
