//! Types of NCCL's interface, as far as the library looks at them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use zipwire_codec::DType;

/// A communicator, opaque.
pub(crate) type Comm = *mut c_void;
/// A stream of CUDA (`cudaStream_t`, which is `CUstream`).
pub(crate) type CudaStream = *mut c_void;

/// `ncclSuccess`, `ncclUnhandledCudaError`, `ncclSystemError`, `ncclInternalError`, `ncclInvalidUsage`.
pub(crate) const SUCCESS: c_int = 0;
pub(crate) const CUDA_ERROR: c_int = 1;
pub(crate) const SYSTEM_ERROR: c_int = 2;
pub(crate) const INTERNAL_ERROR: c_int = 3;
pub(crate) const INVALID_USAGE: c_int = 5;
/// `ncclInProgress`: the call goes on beside the program.
pub(crate) const IN_PROGRESS: c_int = 7;

/// `ncclUniqueId`, which calls take by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId {
    pub(crate) bytes: [c_char; 128],
}

/// Beginning of `ncclConfig_t`, the same in all versions.
#[repr(C)]
pub(crate) struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

impl Config {
    /// Whether it asks for calls that block; `None` if it leaves that open.
    pub(crate) fn blocking(&self) -> Option<bool> {
        match self.blocking {
            c_int::MIN => None,
            blocking => Some(blocking != 0),
        }
    }
}

/// Name and width in bytes of a `ncclDataType_t`; `None` for such as this build does not know.
pub(crate) fn type_of(code: c_int) -> Option<(&'static str, usize)> {
    Some(match code {
        0 => ("int8", 1),
        1 => ("uint8", 1),
        2 => ("int32", 4),
        3 => ("uint32", 4),
        4 => ("int64", 8),
        5 => ("uint64", 8),
        6 => ("float16", 2),
        7 => ("float32", 4),
        8 => ("float64", 8),
        9 => ("bfloat16", 2),
        10 => ("float8_e4m3", 1),
        11 => ("float8_e5m2", 1),
        _ => return None,
    })
}

/// Type of the values for codecs. `assumed` is the type of what comes as bytes.
pub(crate) fn coded_type(code: c_int, assumed: Option<DType>) -> Option<DType> {
    match code {
        0 | 1 => assumed,
        6 => Some(DType::F16),
        7 => Some(DType::F32),
        9 => Some(DType::Bf16),
        10 => Some(DType::F8E4M3),
        11 => Some(DType::F8E5M2),
        _ => None,
    }
}

/// Name of a `ncclRedOp_t`: `custom` for those that a program has made.
pub(crate) fn reduction_of(code: c_int) -> &'static str {
    match code {
        0 => "sum",
        1 => "prod",
        2 => "max",
        3 => "min",
        4 => "avg",
        _ => "custom",
    }
}
