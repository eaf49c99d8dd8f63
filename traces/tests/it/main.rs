//! Timelines out, recordings in.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod diff;
mod large;
mod recordings;
