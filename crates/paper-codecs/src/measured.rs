//! Sizes and speeds by which `auto` chooses among these codecs; `codec/src/auto/measured.rs` says how they were measured.

use zipwire_codec::auto::{Candidate, Known};
use zipwire_codec::{DType, Speed};

use crate::{Blockwise, Codebook16, Grouped, Window7};

#[rustfmt::skip]
pub(crate) static CANDIDATES: &[Candidate] = &[
    Candidate { id: "window7", build: |_| Box::new(Window7::new()), for_size: false, types: &[
        Known { dtype: DType::Bf16, shares: &[(0.0000, 0.0000), (0.1282, 0.1828), (0.6656, 0.7045), (1.0000, 1.0000)], split: 0.706, dense: Speed { encode_gbps: 4.92, decode_gbps: 12.77 }, sparse: Speed { encode_gbps: 4.55, decode_gbps: 7.13 } },
        Known { dtype: DType::F32, shares: &[(0.0000, 0.0000), (0.1634, 0.2469), (0.3341, 0.3623), (0.4723, 0.8546), (0.5584, 0.8993), (0.7085, 0.7767), (0.8335, 0.8520), (1.0000, 1.0000)], split: 0.856, dense: Speed { encode_gbps: 4.71, decode_gbps: 11.03 }, sparse: Speed { encode_gbps: 6.46, decode_gbps: 10.66 } },
    ] },
    Candidate { id: "codebook16", build: |_| Box::new(Codebook16::new()), for_size: false, types: &[
        Known { dtype: DType::Bf16, shares: &[(0.0000, 0.0000), (0.1282, 0.1893), (0.6656, 0.7513), (1.0000, 1.0000)], split: 0.752, dense: Speed { encode_gbps: 8.32, decode_gbps: 19.23 }, sparse: Speed { encode_gbps: 5.31, decode_gbps: 8.63 } },
        Known { dtype: DType::F8E4M3, shares: &[(0.0000, 0.0000), (0.8344, 1.0003), (1.0000, 1.0000)], split: 1.002, dense: Speed { encode_gbps: 1.79, decode_gbps: 18.16 }, sparse: Speed { encode_gbps: 1.79, decode_gbps: 18.16 } },
        Known { dtype: DType::F8E5M2, shares: &[(0.0000, 0.0000), (0.7104, 0.8754), (1.0000, 1.0000)], split: 0.878, dense: Speed { encode_gbps: 0.75, decode_gbps: 0.54 }, sparse: Speed { encode_gbps: 0.75, decode_gbps: 0.54 } },
    ] },
    Candidate { id: "grouped", build: |_| Box::new(Grouped), for_size: true, types: &[
        Known { dtype: DType::Bf16, shares: &[], split: 1.000, dense: Speed { encode_gbps: 1.54, decode_gbps: 2.38 }, sparse: Speed { encode_gbps: 0.54, decode_gbps: 3.13 } },
        Known { dtype: DType::F16, shares: &[], split: 1.000, dense: Speed { encode_gbps: 1.40, decode_gbps: 1.38 }, sparse: Speed { encode_gbps: 1.40, decode_gbps: 1.38 } },
        Known { dtype: DType::F32, shares: &[], split: 1.000, dense: Speed { encode_gbps: 1.35, decode_gbps: 1.96 }, sparse: Speed { encode_gbps: 0.24, decode_gbps: 3.03 } },
        Known { dtype: DType::F8E4M3, shares: &[], split: 1.000, dense: Speed { encode_gbps: 0.83, decode_gbps: 0.61 }, sparse: Speed { encode_gbps: 0.83, decode_gbps: 0.61 } },
        Known { dtype: DType::F8E5M2, shares: &[], split: 1.000, dense: Speed { encode_gbps: 0.93, decode_gbps: 0.97 }, sparse: Speed { encode_gbps: 0.93, decode_gbps: 0.97 } },
    ] },
    Candidate { id: "blockwise", build: |_| Box::new(Blockwise), for_size: true, types: &[
        Known { dtype: DType::Bf16, shares: &[], split: 1.000, dense: Speed { encode_gbps: 1.17, decode_gbps: 2.19 }, sparse: Speed { encode_gbps: 0.71, decode_gbps: 1.30 } },
        Known { dtype: DType::F16, shares: &[], split: 1.000, dense: Speed { encode_gbps: 0.95, decode_gbps: 1.17 }, sparse: Speed { encode_gbps: 0.95, decode_gbps: 1.17 } },
        Known { dtype: DType::F32, shares: &[], split: 1.000, dense: Speed { encode_gbps: 1.21, decode_gbps: 2.61 }, sparse: Speed { encode_gbps: 0.39, decode_gbps: 1.70 } },
        Known { dtype: DType::F8E4M3, shares: &[], split: 1.000, dense: Speed { encode_gbps: 0.69, decode_gbps: 0.57 }, sparse: Speed { encode_gbps: 0.69, decode_gbps: 0.57 } },
        Known { dtype: DType::F8E5M2, shares: &[], split: 1.000, dense: Speed { encode_gbps: 0.81, decode_gbps: 0.86 }, sparse: Speed { encode_gbps: 0.81, decode_gbps: 0.86 } },
    ] },
];
