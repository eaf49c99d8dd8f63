//! Frames of values in blocks: what `tiered` and `rans` have in common, which is all but how residuals are coded.
//!
//! An exponent is coded by its distance to a base, its residual. Blocks have 32 768 values; each
//! has one base, or one for every 256 values where these differ in scale; and where a frame is told how long its rows are,
//! its columns can have offsets. Sign and mantissa are kept as they are.

mod coding;
mod columns;
mod decode;
mod encode;
mod entry;
mod fields;
mod frame;
mod geometry;
mod histogram;
mod order;
mod plan;
mod rans;
mod rest;
mod sample;
mod shared;
mod spread;
pub(crate) mod symbols;
mod tiers;

use crate::options::{Choice, ROW_KEY, Values};
pub(crate) use coding::Coding;
pub(crate) use frame::{How, bound, decode, encode, pieces, static_len, usage};
pub(crate) use shared::Shared;

/// The longest rows that have columns.
pub(crate) const MAX_ROW: u32 = 1 << 24;

/// `row`: how many values a row has, for offsets of columns.
pub(crate) const ROW_CHOICE: Choice = Choice { key: ROW_KEY, values: Values::UpTo(MAX_ROW) };
/// The options of `tiered`.
pub(crate) const OPTIONS: &[Choice] = &[ROW_CHOICE];
