//! Loops for instruction sets, with the results of the portable ones.
//!
//! This is the only module of the crate with `unsafe`: for the calls from the tables, which are handed out on machines that can run them.

#![allow(unsafe_code, reason = "processors differ in what they can run")]

#[cfg(target_arch = "x86_64")]
mod avx2 {
    pub(super) mod codes;
    pub(super) mod window;
}
#[cfg(target_arch = "x86_64")]
mod avx512 {
    pub(super) mod codes;
    pub(super) mod window;
}
mod escapes;
#[cfg(target_arch = "aarch64")]
mod neon {
    pub(super) mod codes;
    pub(super) mod window;
}

#[cfg(test)]
mod tests;

use crate::kernel::Loops;

/// Table of the loops of a level.
macro_rules! loops {
    ($level:ident) => {
        // SAFETY: `Kernel::new` takes the table of a level for the codec library's kernel of that level, which this library hands out after it has
        // found every feature that the functions called here are compiled for.
        Loops {
            window_bounds: |values, start| unsafe { $level::window::window_bounds(values, start) },
            pack: |values, coded| unsafe { $level::window::pack(values, coded) },
            unpack: |coded, values| unsafe { $level::window::unpack(coded, values) },
            pack_codes: |exponents, table, codes, escaped, streaming| unsafe {
                $level::codes::pack_codes(exponents, table, codes, escaped, streaming)
            },
            unpack_codes: |codes, book, exponents| unsafe { $level::codes::unpack_codes(codes, book, exponents) },
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) const AVX2: Loops = loops!(avx2);
#[cfg(target_arch = "x86_64")]
pub(crate) const AVX512: Loops = loops!(avx512);
#[cfg(target_arch = "aarch64")]
pub(crate) const NEON: Loops = loops!(neon);
