//! Serving with ranks that are threads: caches of real bytes, decisions of the machine that simulations have, too.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod ends;
mod moves;
mod paced;
mod scenes;
