//! Reports as a browser would get them: they are whole, ask for nothing, obey nothing that is in files, and are the same twice.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod page;
mod plot;
mod samples;
mod wrong;
