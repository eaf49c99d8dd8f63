//! Errors of devices, compilation and launches.

use cudarc::driver::DriverError;
use zipwire_codec::{DType, Spec};

/// Why something cannot be done on a GPU.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The driver's library is not installed.
    #[error(
        "there is no CUDA driver on this machine (`libcuda.so.1` was not found)\n\
         help: it comes with NVIDIA's driver; without a GPU, `sim` and `threads` run the same plans"
    )]
    NoDriver,
    /// The driver works with no device.
    #[error("the CUDA driver has no device: {0}\nhelp: `nvidia-smi` lists the devices that programs can see")]
    NoDevice(String),
    /// There are fewer devices.
    #[error("there is no CUDA device {ordinal}: this machine has {count}")]
    Ordinal { ordinal: usize, count: usize },
    /// NVRTC is not installed.
    #[error(
        "the run-time compiler for kernels was not found (`libnvrtc.so`)\n\
         help: it is part of the CUDA toolkit and of the Python package `nvidia-cuda-nvrtc`; `ZIPWIRE_NVRTC=FOLDER` names the \
         folder that it is in"
    )]
    NoCompiler,
    /// NVRTC refused the kernels.
    #[error("the kernels of `{module}` cannot be compiled for `{arch}`: {log}")]
    Compile { module: &'static str, arch: String, log: String },
    /// A call of the driver failed.
    #[error("`{call}` failed on the GPU: {error:?}")]
    Driver { call: &'static str, error: DriverError },
    /// No kernels for this codec.
    #[error(
        "there are no GPU kernels for codec `{spec}` with `{dtype}`\n\
         help: there are some for `window7` (BF16, F32), `codebook16` (BF16, FP8), `tiered` and `rans` (all types) and `huffman` (BF16), \
         without options"
    )]
    Unsupported { spec: Box<Spec>, dtype: DType },
    /// Values that cannot be added up.
    #[error(
        "{len} bytes of {dtype} at {address:#x} on the GPU cannot be part of this sum, which takes {needed}"
    )]
    Term { dtype: DType, len: u64, address: u64, needed: String },
    /// Compact frames of this codec are decoded on a GPU, but not encoded.
    #[error(
        "kernels of `{codec}` encode no `compact` frames of `{dtype}`\n\
         help: those of `window7` (BF16, F32), `huffman` (BF16), `codebook16` (BF16, FP8) and `tiered` (all types but F32) do; `{codec}` encodes `split`, \
         and the CPU encodes both"
    )]
    NoCompact { codec: &'static str, dtype: DType },
    /// A region that is not what a kernel needs.
    #[error(
        "a frame of {values} values has {what} of {found} bytes at {address:#x} on the GPU, where it takes {needed}"
    )]
    Region { what: &'static str, values: usize, found: u64, address: u64, needed: String },
}

impl GpuError {
    /// Whether something that runs kernels is missing here: driver, device or compiler.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NoDriver | Self::NoDevice(_) | Self::Ordinal { .. } | Self::NoCompiler)
    }
}

/// The result of a driver call, with its name.
pub(crate) fn check<T>(call: &'static str, result: Result<T, DriverError>) -> Result<T, GpuError> {
    result.map_err(|error| GpuError::Driver { call, error })
}
