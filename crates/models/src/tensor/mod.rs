//! One tensor in memory, compressed: its type and shape in front of a container of its values. `docs/format.md` has every byte.
//!
//! ```
//! use zipwire_models::file::Watch;
//! use zipwire_models::tensor::{Description, Packed, Packing};
//!
//! let values: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700).to_le_bytes()).collect();
//! let description = Description::new("BF16", [100, 200]);
//! let packing = Packing::new(&description, &"rans".parse()?, None)?;
//! let mut packed = vec![0; packing.bound()];
//! let len = packing.pack_into(&values, &mut packed, &Watch::default())?;
//!
//! let packed = Packed::open(&packed[..len])?;
//! let mut restored = vec![0; packed.len()];
//! packed.unpack_into(&mut restored, None, &Watch::default())?;
//! assert_eq!((packed.description(), &restored), (&description, &values));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod front;
mod pack;
mod unpack;

use zipwire_codec::{ContainerError, SpecError};

use crate::file::{FileError, help_for_version};

pub use front::{Description, Origin, TENSOR_VERSION};
pub use pack::Packing;
pub use unpack::Packed;

/// A tensor was not compressed, or not restored.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
#[non_exhaustive]
pub enum TensorError {
    /// The codec, or the codec of differences that is made of it.
    #[error("{source}{}", source.help().map_or_else(String::new, |help| format!("\nhelp: {help}")))]
    Spec { source: SpecError },
    #[error("a tensor of {dtype} {shape:?} has {expected} bytes, not {found}")]
    Length { dtype: String, shape: Vec<u64>, expected: u64, found: usize },
    #[error("no tensor of {dtype} {shape:?} can be described: {reason}")]
    Shape { dtype: String, shape: Vec<u64>, reason: &'static str },
    #[error(
        "the base has {found} bytes, and differences are taken from {expected}\nhelp: a base has the type and shape of the tensor"
    )]
    BaseLength { expected: usize, found: usize },
    #[error(
        "the tensor is coded as differences from a base, which is not given\nhelp: give the values that were its base"
    )]
    NoBase,
    #[error(
        "the base has other values than those that differences were taken from\nhelp: give the values that were the base when it was compressed"
    )]
    OtherBase,
    #[error("not a tensor that zipwire has compressed: it begins with `{}`", found.escape_ascii())]
    Foreign { found: Vec<u8> },
    #[error("the tensor has version {found} of the format, and this program reads version {known}\nhelp: {}", help_for_version(u64::from(*found), u64::from(*known)))]
    Version { found: u8, known: u8 },
    #[error("the compressed tensor is damaged: {what}")]
    Damaged { what: String },
    #[error("the output has {found} bytes, {needed} are needed")]
    Output { needed: usize, found: usize },
    #[error(transparent)]
    Container(#[from] ContainerError),
    #[error("stopped")]
    Stopped,
}

impl From<FileError> for TensorError {
    /// Work without files only fails because it was stopped.
    fn from(error: FileError) -> Self {
        match error {
            FileError::Cancelled => Self::Stopped,
            error => Self::Damaged { what: error.to_string() },
        }
    }
}
