//! Published numbers and their roles.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod accuracy;
mod constants;
mod roles;
