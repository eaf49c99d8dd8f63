//! Whole training iterations: which segments there are, what they move, and how long they compute.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod experts;
mod iteration;
mod refused;
mod sharded;
mod shipped;
mod sums;
mod times;
