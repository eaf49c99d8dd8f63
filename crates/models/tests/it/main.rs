//! Model files, the store and held weights.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod file;
mod held;
mod store;
