//! Model files and checkpoints, compressed without loss.
//!
//! - [`file`](mod@file): safetensors files and zip archives, compressed and restored, any part of one read alone;
//! - [`store`]: checkpoints, each tensor once, what training changed as differences;
//! - [`held`]: weights that stay compressed in memory, on the disk or on a GPU, and are decoded block by block.
//! - [`tensor`]: one tensor in memory, with its type and shape.
//!
//! `docs/files.md` has recipes, `docs/format.md` every byte.

pub mod file;
pub mod held;
pub mod store;
pub mod tensor;
