//! Executors on hosts: threads, and requests that are served.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod algorithms;
mod common;
mod dedup;
mod differences;
mod gather;
mod groups;
mod library;
mod overlap;
mod reduction;
mod serving;
mod threads;
