//! Why something cannot be done with NCCL.

use std::ffi::c_int;
use std::path::PathBuf;

use zipwire_kernels::GpuError;

use crate::search::{LIBRARY_VARIABLE, NAMES};
use crate::{Element, Version};

/// Remedy where no library fits.
const REMEDY: &str = "`python3 -m pip install nvidia-nccl-cu13` (or `-cu12`, as the driver is) installs one, or let ZIPWIRE_NCCL_LIB name \
                      the file `libnccl.so.2` or its folder";

/// Why something cannot be done with NCCL.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NcclError {
    /// There is no library.
    #[error("there is no NCCL library: {0}\nhelp: {REMEDY}")]
    Absent(String),
    /// The program is linked statically.
    #[error(
        "this program is static and cannot load a library of NCCL\n\
         help: the release archive for `linux-gnu` can, and so can a program that is built for a target with shared libraries"
    )]
    Static,
    /// The file that the variable names is no library of NCCL.
    #[error(
        "{LIBRARY_VARIABLE} names `{}`, which {why}\nhelp: `{}`, or the folder that it is in", path.display(), NAMES[0]
    )]
    NotLibrary { path: PathBuf, why: String },
    /// The library lacks a function that all versions have.
    #[error("the NCCL library `{}` has no `{symbol}`\nhelp: {REMEDY}", library.display())]
    Symbol { library: PathBuf, symbol: &'static str },
    /// The library is too old.
    #[error(
        "the NCCL library `{}` is version {found}, and at least {} is needed\nhelp: {REMEDY}", library.display(), Version::OLDEST
    )]
    TooOld { library: PathBuf, found: Version },
    /// A call has failed, or a communicator because of one.
    #[error("{function}: {code}: {text}{}", if last.is_empty() { String::new() } else { format!(" ({last})") })]
    Call {
        function: &'static str,
        /// NCCL's name of the result, such as `ncclSystemError`.
        code: &'static str,
        /// NCCL's sentence for the result.
        text: String,
        /// The last error that NCCL has noted in this process; empty if there is none.
        last: String,
    },
    /// A communicator is not ready for a call, because the one before is still in progress.
    #[error("{function}: the communicator is still at the call before; `state` says when it is ready")]
    InProgress { function: &'static str },
    /// A communicator was not ready in time.
    #[error("{function}: the communicator was not ready in time")]
    Late { function: &'static str },
    /// A type of values is not added up.
    #[error("NCCL adds up no values of type `{name}`\nhelp: it does {}", names())]
    NotAdded { name: String },
    /// The device has failed.
    #[error(transparent)]
    Device(#[from] GpuError),
}

fn names() -> String {
    Element::ALL.map(|element| format!("`{element}`")).join(", ")
}

impl NcclError {
    /// Whether NCCL cannot be had here, which says nothing about a run.
    pub fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::Absent(_)
                | Self::Static
                | Self::NotLibrary { .. }
                | Self::Symbol { .. }
                | Self::TooOld { .. }
        )
    }
}

/// Name of a result of NCCL (`ncclResult_t`).
pub(crate) fn code_name(code: c_int) -> &'static str {
    match code {
        0 => "ncclSuccess",
        1 => "ncclUnhandledCudaError",
        2 => "ncclSystemError",
        3 => "ncclInternalError",
        4 => "ncclInvalidArgument",
        5 => "ncclInvalidUsage",
        6 => "ncclRemoteError",
        7 => "ncclInProgress",
        8 => "ncclTimeout",
        _ => "an unknown result",
    }
}
