//! The scenario language: what it resolves to, and what it says of mistakes.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod adaptive;
mod auto;
mod base;
mod common;
mod dispatch;
mod errors_in_algorithms;
mod errors_in_arguments;
mod errors_in_data;
mod errors_in_faults;
mod errors_in_files;
mod errors_in_serving;
mod errors_in_workloads;
mod impossible;
mod links;
mod parcel;
mod presets;
mod resolve;
mod robustness;
mod schema;
mod shipped;
mod sweep;
mod tables;
mod topologies;
mod training;
