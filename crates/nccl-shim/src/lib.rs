//! Library in front of NCCL (`libzipwire_nccl.so`), by `LD_PRELOAD` or as a dependency of what is opened in NCCL's place.
//!
//! It defines those calls of NCCL that it looks at (`exports`) and goes on to the real ones (`real`); all others, and all that NCCL
//! will have, are NCCL's own. `ZIPWIRE_NCCL` chooses what it does (`settings`): nothing, a line of JSON for each call (`journal`,
//! `sample`), or messages compressed on the GPU (`sync`). docs/nccl.md is its page for users.
//!
//! Nothing in here ends the process: what fails on the library's own side is a line on stderr. NCCL gets the call as it came, or, where other ranks could
//! not know of that, none, and the program an error.

#![cfg(target_os = "linux")]

mod abi;
mod communicators;
mod driver;
mod exports;
mod journal;
mod process;
mod real;
mod sample;
mod settings;
mod sync;
