//! The codec library by its public interface: one file for each codec or property.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod auto;
mod blocks_reference;
mod codecs;
mod common;
mod container;
mod dedup;
mod delta;
mod delta_reference;
mod golden;
mod outside;
mod planes;
mod planes_reference;
mod rans;
mod releases;
mod shared_tables;
mod sign_mantissa;
mod spec;
mod surface;
mod tiered;
