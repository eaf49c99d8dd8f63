//! Errors of devices, compilation and launches, and why a decoder on the GPU refuses a frame.

use std::path::PathBuf;

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
         help: `libcuda.so.1` comes with NVIDIA's driver; without a GPU, `sim` and `threads` run the same plans"
    )]
    NoDriver,
    /// The program is linked statically.
    #[error(
        "this program is static and cannot load `{library}`\n\
         help: the release archive for `linux-gnu` can, and so can a program that is built for a target with shared libraries"
    )]
    Static { library: &'static str },
    /// The driver works with no device.
    #[error("the CUDA driver has no device: {0}\nhelp: `nvidia-smi` lists the devices that programs can see")]
    NoDevice(String),
    /// There are fewer devices.
    #[error("there is no CUDA device {ordinal}: this machine has {count}")]
    Ordinal { ordinal: usize, count: usize },
    /// NVRTC is not installed.
    #[error(
        "the run-time compiler for kernels was not found (`libnvrtc.so`)\n\
         help: it is part of the CUDA toolkit; `python3 -m pip install nvidia-cuda-nvrtc==13.0.88` installs it as well, in the folder \
         `nvidia/cu13/lib` of the site packages, which `ZIPWIRE_NVRTC=FOLDER` then names"
    )]
    NoCompiler,
    /// Kernels in the cache are damaged, and there is no NVRTC.
    #[error(
        "the compiled kernels in {} are damaged, and the run-time compiler to make them anew was not found (`libnvrtc.so`)\n\
         help: `zipwire kernels compile`, where there is one, writes such files; `ZIPWIRE_NVRTC=FOLDER` names the folder of `libnvrtc.so`",
        .path.display()
    )]
    DamagedCache { path: PathBuf },
    /// Compiled kernels cannot be written.
    #[error("cannot write the compiled kernels {}: {why}\nhelp: name another folder", .path.display())]
    Cache { path: PathBuf, why: String },
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
    /// No variant of the kernels has this name.
    #[error("`ZIPWIRE_KERNELS` names no variant of the kernels with `{name}`\nhelp: there are `{known}`")]
    Variant { name: String, known: String },
    /// Kernels that do not check frames are for measuring only.
    #[error(
        "`ZIPWIRE_KERNELS` asks for decoders that compare no checksums, and these are for measuring only\n\
         help: take `unchecked` out of it; `zipwire bench gpu` may have it"
    )]
    Unchecked,
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
        matches!(
            self,
            Self::NoDriver
                | Self::Static { .. }
                | Self::NoDevice(_)
                | Self::Ordinal { .. }
                | Self::NoCompiler
                | Self::DamagedCache { .. }
        )
    }
}

/// The result of a driver call, with its name.
pub(crate) fn check<T>(call: &'static str, result: Result<T, DriverError>) -> Result<T, GpuError> {
    result.map_err(|error| GpuError::Driver { call, error })
}

impl GpuError {
    /// Whether the driver refuses machine code as such: made for other devices, or by a compiler that is newer than the driver.
    pub(crate) fn is_of_image(&self) -> bool {
        use cudarc::driver::sys::CUresult::{
            CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_SOURCE, CUDA_ERROR_NO_BINARY_FOR_GPU,
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        };
        let codes = [
            CUDA_ERROR_INVALID_IMAGE,
            CUDA_ERROR_INVALID_SOURCE,
            CUDA_ERROR_NO_BINARY_FOR_GPU,
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        ];
        matches!(self, Self::Driver { error, .. } if codes.contains(&error.0))
    }
}

/// Whether what was given back was known to the driver. After a kernel's fault every call fails with that fault's error.
pub(crate) fn is_released(result: Result<(), DriverError>) -> bool {
    use cudarc::driver::sys::CUresult::{
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_INVALID_VALUE,
    };
    let mistakes = [
        CUDA_ERROR_INVALID_CONTEXT,
        CUDA_ERROR_INVALID_DEVICE,
        CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_INVALID_VALUE,
    ];
    result.map_or_else(|error| !mistakes.contains(&error.0), |()| true)
}

/// Defect of a frame that a decoder has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The header is not that of such a frame.
    #[error("its header is not that of such a frame")]
    Header,
    /// The dynamic section has another length than the tiles say.
    #[error("its dynamic section has another length than its tiles say")]
    Length,
    /// An entry of the tile table that no encoder writes.
    #[error("its tile table has an entry that no encoder writes")]
    Tile,
    /// Codes or escapes that contradict one another.
    #[error("its codes and escapes contradict one another")]
    Codes,
    /// Padding that is not zero.
    #[error("its padding is not zero")]
    Padding,
    /// A wrong checksum.
    #[error("its checksum is wrong")]
    Checksum,
    /// Columns have offsets, which the kernels know in compact frames only; or such as no encoder writes.
    #[error("its columns have offsets that the kernels do not know, or that no encoder writes")]
    Columns,
    /// The code book is none of the type.
    #[error("its code book does not ascend, or has exponents that the type does not")]
    Book,
    /// The lengths of words are those of no complete code.
    #[error("the lengths of its words are those of no Huffman code")]
    Lengths,
    /// Positions of blocks that do not ascend, or pass the last value.
    #[error("the positions of its blocks do not ascend, or pass the last value")]
    Positions,
    /// Words that do not end where the next ones begin.
    #[error("its words do not end where the next ones begin")]
    Words,
    /// Frequencies of symbols that are those of no table.
    #[error("the frequencies of its symbols are those of no table")]
    Frequencies,
    /// A number that this build does not know.
    #[error("the kernel reported {0}")]
    Other(u32),
}

impl Fault {
    /// Fault with this number in a kernel's state, as in `cuda/common.cuh`; `None` for 0.
    pub(crate) fn of(status: u32) -> Option<Self> {
        Some(match status {
            0 => return None,
            1 => Self::Header,
            2 => Self::Length,
            3 => Self::Tile,
            4 => Self::Codes,
            5 => Self::Padding,
            6 => Self::Checksum,
            7 => Self::Columns,
            8 => Self::Book,
            9 => Self::Lengths,
            10 => Self::Positions,
            11 => Self::Words,
            12 => Self::Frequencies,
            other => Self::Other(other),
        })
    }
}
