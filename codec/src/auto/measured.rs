//! The codecs that `auto` chooses among, and what is known of each.
//!
//! Provisional.

use super::{Class, Speed};
use crate::{Codebook16, Codec, DType, Rans, Raw, Tiered, Window7};

/// A codec that can be chosen.
pub(super) struct Candidate {
    /// As in specs.
    pub(super) id: &'static str,
    /// The codec for rows of so many values; 0 if that is not known.
    pub(super) build: fn(u32) -> Box<dyn Codec>,
    types: &'static [Known],
}

/// What is known of a codec for values of one type.
pub(super) struct Known {
    dtype: DType,
    /// Points of a line, in ascending order from 0 to 1: share that `tiered` leaves of the values in the compact layout, then
    /// the share that this codec leaves, both without front matter.
    pub(super) shares: &'static [(f64, f64)],
    /// Share that it leaves of typical values in the split layout.
    pub(super) split: f64,
    dense: Speed,
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

#[rustfmt::skip]
pub(super) static CANDIDATES: &[Candidate] = &[
    Candidate { id: "raw", build: |_| Box::new(Raw), types: &[
        Known { dtype: DType::Bf16, shares: &[(0.0, 1.0), (1.0, 1.0)], split: 1.0, dense: Speed { encode_gbps: 10.0, decode_gbps: 10.0 }, sparse: Speed { encode_gbps: 10.0, decode_gbps: 10.0 } },
        Known { dtype: DType::F16, shares: &[(0.0, 1.0), (1.0, 1.0)], split: 1.0, dense: Speed { encode_gbps: 10.0, decode_gbps: 10.0 }, sparse: Speed { encode_gbps: 10.0, decode_gbps: 10.0 } },
        Known { dtype: DType::F32, shares: &[(0.0, 1.0), (1.0, 1.0)], split: 1.0, dense: Speed { encode_gbps: 10.0, decode_gbps: 10.0 }, sparse: Speed { encode_gbps: 10.0, decode_gbps: 10.0 } },
        Known { dtype: DType::F8E4M3, shares: &[(0.0, 1.0), (1.0, 1.0)], split: 1.0, dense: Speed { encode_gbps: 10.0, decode_gbps: 10.0 }, sparse: Speed { encode_gbps: 10.0, decode_gbps: 10.0 } },
        Known { dtype: DType::F8E5M2, shares: &[(0.0, 1.0), (1.0, 1.0)], split: 1.0, dense: Speed { encode_gbps: 10.0, decode_gbps: 10.0 }, sparse: Speed { encode_gbps: 10.0, decode_gbps: 10.0 } },
    ] },
    Candidate { id: "window7", build: |_| Box::new(Window7::new()), types: &[
        Known { dtype: DType::Bf16, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.7, dense: Speed { encode_gbps: 8.0, decode_gbps: 8.0 }, sparse: Speed { encode_gbps: 8.0, decode_gbps: 8.0 } },
        Known { dtype: DType::F32, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.7, dense: Speed { encode_gbps: 8.0, decode_gbps: 8.0 }, sparse: Speed { encode_gbps: 8.0, decode_gbps: 8.0 } },
    ] },
    Candidate { id: "tiered", build: |row| Box::new(Tiered::new().row(row)), types: &[
        Known { dtype: DType::Bf16, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.67, dense: Speed { encode_gbps: 10.0, decode_gbps: 12.0 }, sparse: Speed { encode_gbps: 10.0, decode_gbps: 12.0 } },
        Known { dtype: DType::F16, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.67, dense: Speed { encode_gbps: 10.0, decode_gbps: 12.0 }, sparse: Speed { encode_gbps: 10.0, decode_gbps: 12.0 } },
        Known { dtype: DType::F32, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.67, dense: Speed { encode_gbps: 10.0, decode_gbps: 12.0 }, sparse: Speed { encode_gbps: 10.0, decode_gbps: 12.0 } },
        Known { dtype: DType::F8E4M3, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.67, dense: Speed { encode_gbps: 10.0, decode_gbps: 12.0 }, sparse: Speed { encode_gbps: 10.0, decode_gbps: 12.0 } },
        Known { dtype: DType::F8E5M2, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.67, dense: Speed { encode_gbps: 10.0, decode_gbps: 12.0 }, sparse: Speed { encode_gbps: 10.0, decode_gbps: 12.0 } },
    ] },
    Candidate { id: "codebook16", build: |_| Box::new(Codebook16::new()), types: &[
        Known { dtype: DType::Bf16, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.75, dense: Speed { encode_gbps: 6.0, decode_gbps: 6.0 }, sparse: Speed { encode_gbps: 6.0, decode_gbps: 6.0 } },
        Known { dtype: DType::F8E4M3, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.75, dense: Speed { encode_gbps: 6.0, decode_gbps: 6.0 }, sparse: Speed { encode_gbps: 6.0, decode_gbps: 6.0 } },
        Known { dtype: DType::F8E5M2, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.75, dense: Speed { encode_gbps: 6.0, decode_gbps: 6.0 }, sparse: Speed { encode_gbps: 6.0, decode_gbps: 6.0 } },
    ] },
    Candidate { id: "rans", build: |row| Box::new(Rans::new().row(row)), types: &[
        Known { dtype: DType::Bf16, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.66, dense: Speed { encode_gbps: 3.0, decode_gbps: 3.0 }, sparse: Speed { encode_gbps: 3.0, decode_gbps: 3.0 } },
        Known { dtype: DType::F16, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.66, dense: Speed { encode_gbps: 3.0, decode_gbps: 3.0 }, sparse: Speed { encode_gbps: 3.0, decode_gbps: 3.0 } },
        Known { dtype: DType::F32, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.66, dense: Speed { encode_gbps: 3.0, decode_gbps: 3.0 }, sparse: Speed { encode_gbps: 3.0, decode_gbps: 3.0 } },
        Known { dtype: DType::F8E4M3, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.66, dense: Speed { encode_gbps: 3.0, decode_gbps: 3.0 }, sparse: Speed { encode_gbps: 3.0, decode_gbps: 3.0 } },
        Known { dtype: DType::F8E5M2, shares: &[(0.0, 0.0), (1.0, 1.0)], split: 0.66, dense: Speed { encode_gbps: 3.0, decode_gbps: 3.0 }, sparse: Speed { encode_gbps: 3.0, decode_gbps: 3.0 } },
    ] },
];
