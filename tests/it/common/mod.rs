//! Helpers of several tests.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod conformance;
pub(crate) mod faults;
pub(crate) mod gpus;
pub(crate) mod markdown;
#[cfg(unix)]
pub(crate) mod pages;
pub(crate) mod process;
