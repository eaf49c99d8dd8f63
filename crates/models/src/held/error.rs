//! Errors of weights that are held compressed.

use std::io;
use std::path::PathBuf;

use crate::file::FileError;
use zipwire_codec::{ContainerError, DType, DecodeError, EncodeError, SpecError};
use zipwire_kernels::{Fault, GpuError};

/// Why a model is not held, or a block of it not decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum HeldError {
    /// A file cannot be read, or is damaged.
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` has no file `*.safetensors`\nhelp: name a model, or the folder of one", path.display())]
    NoFiles { path: PathBuf },
    #[error("tensor `{tensor}` is in `{}` and in `{}`\nhelp: name the files of one model only", first.display(), second.display())]
    Twice { tensor: String, first: PathBuf, second: PathBuf },
    /// The codec needs something beside the values: a base, or a table.
    #[error(
        "codec `{codec}`: {source}\nhelp: weights are held by codecs that need nothing else, such as `tiered` or `rans`"
    )]
    Codec { codec: String, source: SpecError },
    #[error("cannot encode tensor `{tensor}`: {source}")]
    Encode { tensor: String, source: EncodeError },
    /// A frame is not the one that the index of its file names.
    #[error("tensor `{tensor}` is damaged: {source}")]
    Index { tensor: String, source: Box<ContainerError> },
    /// A frame does not give the values that were encoded.
    #[error("tensor `{tensor}` is damaged: chunk {chunk}: {source}")]
    Decode {
        tensor: String,
        /// Which chunk of it.
        chunk: usize,
        source: DecodeError,
    },
    #[error(
        "tensor `{tensor}` is held by `{codec}` as `{dtype}`, whose frames no GPU kernel decodes\nhelp: hold weights by `tiered` or `rans`, or by \
         `huffman`, which codes BF16 and leaves other types as they are"
    )]
    DeviceCodec { tensor: String, codec: &'static str, dtype: DType },
    #[error("tensor `{tensor}` is damaged on the GPU: chunk {chunk}: {fault}")]
    Device {
        tensor: String,
        /// Which chunk of it.
        chunk: usize,
        fault: Fault,
    },
    /// The GPU.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error("the system refuses {bytes} bytes of memory: {source}")]
    Memory { bytes: usize, source: io::Error },
    #[error("cannot start {threads} threads: {reason}")]
    Threads { threads: usize, reason: String },
}
