//! The scenario language: what it resolves to, and what it says of mistakes.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod adaptive;
mod base;
mod common;
mod dispatch;
mod errors;
mod impossible;
mod named_files;
mod parcel;
mod presets;
mod profile;
mod resolve;
mod robustness;
mod schema;
mod serving;
mod shipped;
mod sweep;
mod tables;
mod topologies;
mod training;
