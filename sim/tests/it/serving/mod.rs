//! Simulated serving against closed forms, queueing theory and plain simulations of the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone;
mod batch;
mod case;
mod conserved;
mod ends;
mod pieces;
mod queues;
mod scale;
mod shared;
mod slowdown;
