//! Inner loops of `window7` and `codebook16`, beside those that all codecs share: a table for each level.

pub(crate) mod codes;
pub(crate) mod window;

use std::ops::Deref;
use std::sync::OnceLock;

pub(crate) use zipwire_codec::kernel::{
    BASE_GROUP, GroupSums, Kernel as Shared, SimdLevel, TILE, WORD_VALUES, bits, sums,
};
use zipwire_codec::levels;

use crate::error::TileFault;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
use crate::simd;
use codes::{CodeTable, ENTRIES};
use window::WindowBounds;

/// Loops of one level. The shared ones are those of the codec library at the same level.
pub(crate) struct Kernel {
    shared: &'static Shared,
    loops: Loops,
}

/// Loops that differ from level to level. `values` are BF16, little-endian, at most [`TILE`] of them.
#[derive(Clone, Copy)]
pub(crate) struct Loops {
    /// Exponents counted around the window that begins at `start`, where that is faster than all of them.
    pub(crate) window_bounds: fn(&[u8], u8) -> Option<WindowBounds>,
    /// Codes the values.
    pub(crate) pack: fn(&[u8], CodedMut<'_>) -> Packed,
    /// Inverse of `pack`. It fails if the number of escapes is not that of the codes, or if a code beyond
    /// the last value is not zero.
    pub(crate) unpack: fn(Coded<'_>, &mut [u8]) -> Result<Unpacked, TileFault>,
    /// Codes of four bits, 0 where the table has none, and a bit for each exponent that it has none for: exponents, table, codes (a byte for two
    /// exponents), escapes (a word for 64), and whether codes are written past the caches, where the kernel can.
    pub(crate) pack_codes: fn(&[u8], &CodeTable, &mut [u8], &mut [u64], bool),
    /// The exponents that the codes stand for: codes, book, exponents.
    pub(crate) unpack_codes: fn(&[u8], &[u8; ENTRIES], &mut [u8]),
}

/// The reference: plain Rust.
static PORTABLE: Loops = Loops {
    window_bounds: |_, _| None,
    pack: window::pack,
    unpack: window::unpack,
    pack_codes: codes::pack_codes,
    unpack_codes: codes::unpack_codes,
};

impl Deref for Kernel {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.shared
    }
}

impl Kernel {
    fn new(shared: &'static Shared) -> Self {
        let loops = match shared.level {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => simd::AVX2,
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => simd::AVX512,
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            SimdLevel::Neon => simd::NEON,
            _ => PORTABLE,
        };
        Self { shared, loops }
    }

    /// The loops of this crate.
    pub(crate) fn loops(&self) -> &Loops {
        &self.loops
    }
}

/// The kernel of the level in use.
pub(crate) fn active() -> &'static Kernel {
    let level = levels::active().level;
    all().iter().find(|kernel| kernel.level == level).expect("the level in use is one of the machine's")
}

/// The reference kernel.
#[cfg(test)]
pub(crate) fn portable() -> &'static Kernel {
    &all()[0]
}

/// The kernels of all levels that this machine can run, the portable one first.
pub(crate) fn all() -> &'static [Kernel] {
    static ALL: OnceLock<Vec<Kernel>> = OnceLock::new();
    ALL.get_or_init(|| levels::all().map(Kernel::new).collect())
}

/// Values whose codes of three bits are interleaved with each other.
pub(crate) const CODE_GROUP: usize = 1024;
/// Values per entry of the escape index.
pub(crate) const INDEX_GROUP: usize = 512;
/// The code of a value whose exponent is outside the window.
pub(crate) const ESCAPE: u8 = 7;

/// First exponent of the window of each group of 512 values of a tile, at most 249; of no meaning for absent groups.
pub(crate) type Starts = [u8; TILE / INDEX_GROUP];

/// Number of escapes before each group of 512 values of a tile; of no meaning for absent groups.
pub(crate) type EscapeIndex = [u16; TILE / INDEX_GROUP];

/// A coded tile.
#[derive(Clone, Copy)]
pub(crate) struct Coded<'a> {
    /// The windows.
    pub(crate) starts: &'a Starts,
    /// Sign and mantissa of each value, a byte each.
    pub(crate) rest: &'a [u8],
    /// Twelve bytes for each 32 values, or part of 32, in a group of 1024.
    pub(crate) codes: &'a [u8],
    /// Exponents outside the window, in the order of the values.
    pub(crate) escapes: &'a [u8],
    /// The index of the first word of the checksum, if the values are to be summed.
    pub(crate) word: Option<u64>,
    /// Whether the values are written past the caches, where the kernel can. Only where
    /// [`zipwire_codec::streaming_store::StreamingStore::is_direct`].
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "for kernels that write past the caches")
    )]
    pub(crate) streaming: bool,
}

/// Buffers that a coded tile is written to: as [`Coded`], with exactly the right lengths but for the escapes, whose number is not
/// known before.
pub(crate) struct CodedMut<'a> {
    pub(crate) starts: &'a Starts,
    pub(crate) rest: &'a mut [u8],
    pub(crate) codes: &'a mut [u8],
    pub(crate) escapes: &'a mut EscapeRoom,
    pub(crate) word: Option<u64>,
    /// Permission to write rest and codes past the caches, as in [`Coded`].
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "for kernels that write past the caches")
    )]
    pub(crate) streaming: bool,
}

/// Room for the escapes of a tile, and for what a kernel writes behind them. It is of no meaning.
pub(crate) type EscapeRoom = [u8; TILE + 64];

/// Counts and index of a tile that is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    /// Number of escapes.
    pub(crate) escapes: usize,
    /// Index of the escapes.
    pub(crate) index: EscapeIndex,
    /// How many values have the codes 0, 1, 5 and 6.
    pub(crate) edges: [u32; 4],
    /// The sum of words for the checksum, not folded; 0 unless it was asked for.
    pub(crate) sum: u64,
}

/// Counts and index of a tile that is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Index of the escapes.
    pub(crate) index: EscapeIndex,
    pub(crate) sum: u64,
}
