//! CUDA kernels of zipwire's codecs, and what launches them.
//!
//! CUDA is loaded at run time: the same binary starts on a machine without it, and [`Device::open`] says what is missing.
//! The kernels are CUDA C++ that NVRTC compiles for the device at hand, once ([`cache`]). Frames are those of
//! [`zipwire_codec`] in the split layout, byte for byte; those in the compact layout are decoded where they lie and, for some codecs
//! ([`Coder::check_compact`]), encoded as well.
//!
//! Nothing here waits for the device unless its documentation says so: lengths of frames stay on the device, and what
//! follows is ordered by streams. A [`Device`] is a GPU, a [`Stream`] a queue of its work, a [`DeviceRegion`] bytes of its
//! memory; a [`Coder`] has the kernels of a codec, and makes an [`Encoder`] or a [`Decoder`] of the frames that one launch works
//! on. A [`Summer`] adds decoded values, whatever codec they came by.

mod batch;
pub mod cache;
mod coder;
mod compile;
mod device;
mod error;
mod module;
mod sign_mantissa;
mod sum;
mod variant;

/// Whether this program is linked statically. Such a program cannot load libraries: neither those of CUDA and NCCL nor MPI.
pub const IS_STATIC: bool = cfg!(all(unix, target_feature = "crt-static"));

pub use batch::{Block, CompactBlock};
pub use coder::{Coder, Decoder, Encoder};
pub use compile::{CompiledModule, check_code, compile_all, compiler};
pub use device::{Device, DeviceBuffer, DeviceRegion, Event, HostBuffer, Stream, take_all_queues};
pub use error::{Fault, GpuError};
pub use module::{Source, sources};
pub use sign_mantissa::{Apart, Splitter};
pub use sum::{Addition, Summer, Sums, Values};
