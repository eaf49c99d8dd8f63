//! Payloads of transfers: [`Payload`] fills chunks with rows of values, drawn from a seed or recorded, and checks what arrives.
//!
//! All random numbers of the workspace come from [`stream`]: the same seed gives the same draws on every machine. Recorded values
//! come in as bytes; who reads them from files is no concern of this crate.

mod fp8;
mod payload;
mod rows;
mod stream;

pub use fp8::{FP8_BLOCK, fp8_row_bytes};
pub use payload::{ChunkId, Payload};
pub use rows::Rows;
pub use stream::stream;
