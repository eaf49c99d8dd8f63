//! The codecs that `auto` chooses among, and what is known of each: a codec is added by its entry.
//!
//! The numbers are those of `cargo run --release -p zipwire-codec --example auto -- --table FILE...`, on 48 files with real weights,
//! gradients, optimizer states, payloads of All-to-All and caches of keys and values: one core of an Intel Emerald Rapids (Xeon of
//! 2023, AVX-512), tensors of 8 KiB to 1.5 MiB from and into its caches. Where no tensor of a type is sparse, the speed is that of
//! dense ones. They are data: what is chosen depends on no machine, and callers whose machine is another give their own speeds
//! ([`super::Auto::costs`]), and later changes of speed do not change them, as they would change frames. Speeds of a candidate for sizes are those of `rans`, times what it had of its speed in one run on eight of the files (AMD EPYC).

use super::{Class, Speed};
use crate::{Codec, DType, Planes, Rans, Raw, Tiered};

/// A codec that can be chosen.
pub(super) struct Candidate {
    /// Id of the codec, as in specs.
    pub(super) id: &'static str,
    /// Makes the codec for rows of this number of values; 0 if that is not known.
    pub(super) build: fn(u32) -> Box<dyn Codec>,
    /// Whether it is chosen only where the size alone counts, and all values are coded: no sample by `tiered` tells what it leaves.
    pub(super) for_size: bool,
    /// Types that it can be chosen for, and its sizes and speeds with them.
    types: &'static [Known],
}

/// Measured sizes and speeds of a codec for values of one type.
pub(super) struct Known {
    /// Type of the values.
    dtype: DType,
    /// Points of a line, in ascending order from 0 to 1: share that `tiered` leaves of the values in the compact layout, then
    /// the share that this codec leaves, both without front matter.
    pub(super) shares: &'static [(f64, f64)],
    /// Share that it leaves of typical values in the split layout.
    pub(super) split: f64,
    /// Speed with values of [`Class::Dense`].
    dense: Speed,
    /// Speed with values of [`Class::Sparse`].
    sparse: Speed,
}

impl Candidate {
    pub(super) fn known(&self, dtype: DType) -> Option<&'static Known> {
        self.types.iter().find(|known| known.dtype == dtype)
    }

    pub(super) fn speed(&self, dtype: DType, class: Class) -> Option<Speed> {
        self.known(dtype).map(|known| match class {
            Class::Dense => known.dense,
            Class::Sparse => known.sparse,
        })
    }
}

/// Codecs that can be chosen, in the order in which equal ones are preferred. Those of other crates are not among them: the frame for given values is the same
/// in every process, whatever that has registered.
#[rustfmt::skip]
pub(super) static CANDIDATES: &[Candidate] = &[
    Candidate { id: "raw", build: |_| Box::new(Raw), for_size: false, types: &[
        Known { dtype: DType::Bf16, shares: &[(0.0000, 1.0000), (1.0000, 1.0000)], split: 1.000, dense: Speed { encode_gbps: 28.30, decode_gbps: 27.42 }, sparse: Speed { encode_gbps: 29.21, decode_gbps: 29.30 } },
        Known { dtype: DType::F16, shares: &[(0.0000, 1.0000), (1.0000, 1.0000)], split: 1.000, dense: Speed { encode_gbps: 13.23, decode_gbps: 12.72 }, sparse: Speed { encode_gbps: 13.23, decode_gbps: 12.72 } },
        Known { dtype: DType::F32, shares: &[(0.0000, 1.0000), (1.0000, 1.0000)], split: 1.000, dense: Speed { encode_gbps: 26.79, decode_gbps: 25.69 }, sparse: Speed { encode_gbps: 30.94, decode_gbps: 29.92 } },
        Known { dtype: DType::F8E4M3, shares: &[(0.0000, 1.0000), (1.0000, 1.0000)], split: 1.000, dense: Speed { encode_gbps: 28.21, decode_gbps: 27.87 }, sparse: Speed { encode_gbps: 28.21, decode_gbps: 27.87 } },
        Known { dtype: DType::F8E5M2, shares: &[(0.0000, 1.0000), (1.0000, 1.0000)], split: 1.000, dense: Speed { encode_gbps: 29.83, decode_gbps: 29.37 }, sparse: Speed { encode_gbps: 29.83, decode_gbps: 29.37 } },
    ] },
    Candidate { id: "tiered", build: |row| Box::new(Tiered::new().row(row)), for_size: false, types: &[
        Known { dtype: DType::Bf16, shares: &[(0.0000, 0.0000), (0.1282, 0.1282), (0.6656, 0.6656), (1.0000, 1.0000)], split: 0.667, dense: Speed { encode_gbps: 6.72, decode_gbps: 10.84 }, sparse: Speed { encode_gbps: 9.54, decode_gbps: 16.08 } },
        Known { dtype: DType::F16, shares: &[(0.0000, 0.0000), (0.8542, 0.8542), (1.0000, 1.0000)], split: 0.854, dense: Speed { encode_gbps: 2.86, decode_gbps: 5.13 }, sparse: Speed { encode_gbps: 2.86, decode_gbps: 5.13 } },
        Known { dtype: DType::F32, shares: &[(0.0000, 0.0000), (0.1634, 0.1634), (0.3341, 0.3341), (0.4723, 0.4723), (0.5584, 0.5584), (0.7085, 0.7085), (0.8335, 0.8335), (1.0000, 1.0000)], split: 0.834, dense: Speed { encode_gbps: 1.96, decode_gbps: 5.54 }, sparse: Speed { encode_gbps: 0.71, decode_gbps: 7.30 } },
        Known { dtype: DType::F8E4M3, shares: &[(0.0000, 0.0000), (0.8344, 0.8344), (1.0000, 1.0000)], split: 0.835, dense: Speed { encode_gbps: 1.72, decode_gbps: 2.75 }, sparse: Speed { encode_gbps: 1.72, decode_gbps: 2.75 } },
        Known { dtype: DType::F8E5M2, shares: &[(0.0000, 0.0000), (0.7104, 0.7104), (1.0000, 1.0000)], split: 0.711, dense: Speed { encode_gbps: 1.75, decode_gbps: 2.88 }, sparse: Speed { encode_gbps: 1.75, decode_gbps: 2.88 } },
    ] },
    Candidate { id: "rans", build: |row| Box::new(Rans::new().row(row)), for_size: false, types: &[
        Known { dtype: DType::Bf16, shares: &[(0.0000, 0.0000), (0.1282, 0.1282), (0.6656, 0.6623), (1.0000, 1.0000)], split: 0.663, dense: Speed { encode_gbps: 2.20, decode_gbps: 3.24 }, sparse: Speed { encode_gbps: 4.65, decode_gbps: 8.01 } },
        Known { dtype: DType::F16, shares: &[(0.0000, 0.0000), (0.8542, 0.8514), (1.0000, 1.0000)], split: 0.853, dense: Speed { encode_gbps: 1.76, decode_gbps: 2.28 }, sparse: Speed { encode_gbps: 1.76, decode_gbps: 2.28 } },
        Known { dtype: DType::F32, shares: &[(0.0000, 0.0000), (0.1634, 0.1634), (0.3341, 0.3331), (0.4723, 0.4709), (0.5584, 0.5584), (0.7085, 0.7076), (0.8335, 0.8324), (1.0000, 1.0000)], split: 0.833, dense: Speed { encode_gbps: 1.35, decode_gbps: 3.51 }, sparse: Speed { encode_gbps: 0.65, decode_gbps: 5.89 } },
        Known { dtype: DType::F8E4M3, shares: &[(0.0000, 0.0000), (0.8344, 0.8230), (1.0000, 1.0000)], split: 0.830, dense: Speed { encode_gbps: 0.67, decode_gbps: 1.12 }, sparse: Speed { encode_gbps: 0.67, decode_gbps: 1.12 } },
        Known { dtype: DType::F8E5M2, shares: &[(0.0000, 0.0000), (0.7104, 0.7007), (1.0000, 1.0000)], split: 0.709, dense: Speed { encode_gbps: 0.72, decode_gbps: 1.28 }, sparse: Speed { encode_gbps: 0.72, decode_gbps: 1.28 } },
    ] },
    Candidate { id: "planes", build: |_| Box::new(Planes::new()), for_size: true, types: &[
        Known { dtype: DType::Bf16, shares: &[], split: 1.000, dense: Speed { encode_gbps: 1.40, decode_gbps: 2.40 }, sparse: Speed { encode_gbps: 0.38, decode_gbps: 1.81 } },
        Known { dtype: DType::F16, shares: &[], split: 1.000, dense: Speed { encode_gbps: 1.08, decode_gbps: 1.36 }, sparse: Speed { encode_gbps: 1.08, decode_gbps: 1.36 } },
        Known { dtype: DType::F32, shares: &[], split: 1.000, dense: Speed { encode_gbps: 0.79, decode_gbps: 2.22 }, sparse: Speed { encode_gbps: 0.14, decode_gbps: 1.80 } },
        Known { dtype: DType::F8E4M3, shares: &[], split: 1.000, dense: Speed { encode_gbps: 0.80, decode_gbps: 0.61 }, sparse: Speed { encode_gbps: 0.80, decode_gbps: 0.61 } },
        Known { dtype: DType::F8E5M2, shares: &[], split: 1.000, dense: Speed { encode_gbps: 0.84, decode_gbps: 0.97 }, sparse: Speed { encode_gbps: 0.84, decode_gbps: 0.97 } },
    ] },
];
