//! Model files and checkpoints, compressed without loss: [`compress`] and [`restore`] for whole files, [`Model`] for any part of one.
//!
//! A compressed safetensors file is a safetensors file still. Every reader opens it; tensors that were coded are bytes (`U8`) to those
//! that do not know zipwire. `docs/files.md` has recipes, `docs/format.md` every byte.

pub(crate) mod archive;
pub mod at;
mod compress;
mod container;
mod encode;
mod error;
mod foreign;
mod header;
mod model;
mod note;
mod output;
mod plan;
mod restore;
mod watch;

pub use at::{buffer, open_input};
pub use compress::{Compressed, Compression, compress, compress_into, compress_values, compress_values_into};
pub use container::Values;
pub use encode::Frames;
pub use error::{FileError, help_for_version};
pub use foreign::{Foreign, is_archive};
pub use header::{Header, HeaderError, TensorInfo};
pub use model::{Model, nearest, nearest_names};
pub use note::FORMAT_VERSION;
pub use output::{
    Output, OutputFolder, STAGED, STORE_FILE, Sources, files_below, folder, refuse_file, refuse_folder,
    refuse_store, refuse_twice, sync_folder,
};
pub use plan::{FOR_BYTES, LEAST_BYTES, LEAST_SAVING};
pub use restore::{restore, restore_into, verify};
pub use watch::Watch;
