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

/// Entry of a table that calls a function for the instruction set.
macro_rules! call {
    ([$function:path] ($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {
        |$($argument),*| {
            // SAFETY: this closure is only in the table of its level; `kernel` hands that out, and nothing else does, after it has found
            // every feature that the function called here is compiled for.
            unsafe { $function($($argument),*) }
        }
    };
}

/// Entry of a table that calls a portable function, compiled once more for an instruction set. The function is always inlined.
#[cfg(target_arch = "x86_64")]
macro_rules! compile {
    ([$features:literal $function:path] ($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {{
        #[target_feature(enable = $features)]
        fn compiled($($argument: $type),*) $(-> $result)? {
            $function($($argument),*)
        }
        |$($argument),*| {
            // SAFETY: as in `call`.
            unsafe { compiled($($argument),*) }
        }
    }};
}

/// Table of a level: functions of its modules by their names in [`crate::kernel::Kernel`], then portable ones that are compiled for
/// its features, and those of a lower level for the rest.
macro_rules! level {
    (
        $level:ident, else $lower:ident { $($module:ident: $($name:ident),+;)+ }
        $(compiled for $features:literal { $($portable:ident: $($compiled:ident),+;)+ })*
    ) => {
        Kernel {
            level: SimdLevel::$level,
            $($($name: signature!(call [$module::$name] $name),)+)+
            $($($($compiled: signature!(compile [$features crate::kernel::$portable::$compiled] $compiled),)+)+)*
            ..$lower
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
#[cfg(target_arch = "aarch64")]
pub mod neon;
pub mod shuffles;

#[cfg(all(test, miri))]
mod planted;
#[cfg(test)]
mod tests;
