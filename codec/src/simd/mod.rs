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

/// An entry of a table, which calls a function for the instruction set with these arguments. To be used once for each, in the table of the level that the
/// function is of.
macro_rules! call {
    ($function:path $(, $argument:ident)*) => {
        |$($argument),*| {
            // SAFETY: this closure is only in the table of its level; `kernel` hands that out, and nothing else does, after it has found
            // every feature that the function called here is compiled for.
            unsafe { $function($($argument),*) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod escapes;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
mod shuffles;

#[cfg(all(test, miri))]
mod planted;
#[cfg(test)]
mod tests;
