//! Comparisons, warnings and critical paths of whole experiments.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod critical_path;
mod library_on_links;
mod warnings;
mod weight_sync;
