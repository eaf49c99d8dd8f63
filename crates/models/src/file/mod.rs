//! Model files and checkpoints, compressed without loss: [`compress`] and [`restore`] for whole files, [`Model`] for any part of one.
//!
//! A compressed file begins as a safetensors file does, with one entry of a type that safetensors do not have: other readers refuse it, and nobody takes coded
//! bytes for values. `docs/files.md` has recipes, `docs/format.md` every byte.

pub(crate) mod archive;
pub mod at;
mod bases;
mod compress;
mod container;
mod digest;
mod encode;
mod error;
mod foreign;
pub(crate) mod header;
mod layout;
mod model;
mod output;
mod part;
pub(crate) mod plan;
mod restore;
mod stamp;
mod v1;
pub(crate) mod watch;

pub use at::{buffer, open_input};
pub use bases::Bases;
pub use compress::{Compressed, Compression, compress, compress_into, compress_values, compress_values_into};
pub use container::Values;
pub use encode::Frames;
pub use error::{FileError, help_for_version};
pub use foreign::{Foreign, is_archive};
pub(crate) use header::bits;
pub use header::{Header, HeaderError, TensorInfo, begins_compressed};
pub use layout::FORMAT_VERSION;
pub use model::{Model, nearest, nearest_names};
pub use output::{
    Below, Link, Output, OutputFolder, STAGED, STORE_FILE, Sources, files_below, folder, refuse_file,
    refuse_folder, refuse_store, refuse_twice, sync_folder,
};
pub use plan::codec_for;
pub(crate) use plan::{LEAST_BYTES, LEAST_SAVING};
pub use restore::{Damage, damage, restore, restore_into, salvage, salvage_into, verify};
pub use stamp::Stamp;
pub use watch::Watch;
