//! NCCL, loaded at run time: transfers and collectives between GPUs, in the order of their streams.
//!
//! Nothing of NCCL is needed to build. [`library`] finds `libnccl.so.2` from version 2.19 on, and says what is missing where there is none.
//! A [`Communicator`] is one rank's part; it is always nonblocking, so that whatever hangs, a rank that never comes among it, is noticed by
//! the caller's deadline and ended by [`Communicator::abort`].
//!
//! This crate has the `unsafe` of calling a C library. It takes regions and streams of [`zipwire_kernels`], and keeps them alive for as
//! long as NCCL may still look at them.

mod abi;
mod communicator;
mod element;
mod error;
mod library;
mod search;
mod version;

pub use abi::UniqueId;
pub use communicator::{Communicator, Config, State};
pub use element::Element;
pub use error::NcclError;
pub use library::{Library, library, share_gpus};
pub use search::LIBRARY_VARIABLE;
pub use version::Version;
