//! Weights that are held compressed and decoded just in time: a [`HeldModel`] keeps frames, in memory or on the disk, and a [`Walk`] gives out
//! the tensors of one *block* (a layer of a transformer) after the other, decoded by all threads into a buffer that is used again.
//!
//! It is the way of DFloat11 (arXiv:2504.11651, section 2.3), which decodes the matrices of a transformer block in one go, by any codec of
//! [`zipwire_codec`]; frames of `huffman` also in the memory of a GPU and by its kernels ([`DeviceModel`]). `docs/files.md` has a recipe and what was measured.

mod error;
mod gpu;
mod model;
mod walk;

pub use error::HeldError;
pub use gpu::DeviceModel;
pub use model::{Block, HeldModel, HeldOptions, Place};
pub use walk::{BlockView, Walk};
