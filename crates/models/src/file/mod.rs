//! Model files and checkpoints, compressed without loss: [`compress`] and [`restore`] for whole files, [`Model`] for any part of one.
//!
//! A compressed safetensors file is a safetensors file still. Every reader opens it; tensors that were coded are bytes (`U8`) to those
//! that do not know zipwire. `docs/files.md` has recipes, `docs/format.md` every byte.

mod archive;
pub mod at;
mod chunks;
mod compress;
mod duplicate_keys;
mod error;
mod folder;
mod frames;
mod header;
mod input;
mod model;
mod nearest;
mod note;
mod output;
mod parts;
mod pieces;
mod restore;
mod values;
mod watch;
mod znn;

pub use archive::is_archive;
pub use compress::{Compressed, Compression, compress, compress_values};
pub use error::{FileError, help_for_version};
pub use folder::{OutputFolder, files_below, mirror};
pub use frames::Frames;
pub use header::{Header, HeaderError, TensorInfo};
pub use input::{buffer, open_input};
pub use model::Model;
pub use nearest::{nearest, nearest_names};
pub use note::FORMAT_VERSION;
pub use output::{Output, STAGED, folder, stage, sync_folder};
pub use parts::{FOR_BYTES, LEAST_BYTES, LEAST_SAVING};
pub use restore::{restore, verify};
pub use values::Values;
pub use watch::Watch;
pub use znn::Znn;
