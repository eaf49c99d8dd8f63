//! Kernels for instruction sets, each a table of the same functions as the portable one, with the same results.
//!
//! They replace inner loops over full groups; short ends and everything around the loops is the portable code. This is
//! the only module of the crate with `unsafe`: for the loads and stores of vectors, each of a whole array behind a
//! reference or in a slice at a position that is proved on the spot, for prefetches, and for the calls from the table,
//! which is handed out on machines that can run it.

#![allow(
    unsafe_code,
    reason = "vectors are loaded through pointers, and processors differ in what they can run"
)]

pub(crate) mod avx2;

#[cfg(test)]
mod tests;
