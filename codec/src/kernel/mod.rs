//! The inner loops of the codecs, as a table of functions, so that an implementation for an instruction set can take the
//! place of the portable one.
//!
//! Every implementation gives the same bytes; the portable one is the reference. Kernels work on one tile at a time and
//! know nothing of frames, modes or layouts, nor of which of them is in use: that is [`crate::levels`], above them all.

pub(crate) mod bits;
pub(crate) mod changes;
pub(crate) mod codes;
pub(crate) mod columns;
pub(crate) mod delta;
pub(crate) mod fields;
pub(crate) mod four;
pub(crate) mod joint;
pub(crate) mod mask;
pub(crate) mod pass;
pub(crate) mod planes;
pub(crate) mod rans;
pub(crate) mod short;
pub(crate) mod sums;
mod table;
pub(crate) mod tier;
mod tile;
pub(crate) mod window;
pub(crate) mod window_bounds;
pub(crate) mod words;

pub use table::SimdLevel;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) use table::signature;
pub(crate) use table::{Kernel, PORTABLE};
pub(crate) use tile::{
    BASE_GROUP, CODE_GROUP, Coded, CodedMut, ESCAPE, EscapeIndex, EscapeRoom, GroupSums, INDEX_GROUP,
    LAST_BASE, Packed, Starts, TILE, Unpacked, WORD_VALUES, base_of,
};
