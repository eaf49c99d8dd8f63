//! `dispatch_dtype`: what a forward dispatch carries of a token, its values as they are, or quantized to FP8.

use zipwire_codec::DType;
use zipwire_payload::{FP8_BLOCK, fp8_row_bytes};

use crate::error::Result;
use crate::language::{Reader, choice, keys};
use crate::model::VALUE_BYTES;
use crate::problem::PayloadProblem;

const DTYPES: [DType; 2] = [DType::Bf16, DType::F8E4M3];

keys! { pub(crate) static KEYS =
    dispatch_dtype: DType = choice("type of dispatched values", &DTYPES, DType::name), "what the forward dispatch carries of a token: its values, or FP8 values with an F32 scale for every 128; `BF16` by default";
}

/// Row of a token in a forward dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DispatchRow {
    pub(crate) dtype: DType,
    /// Values.
    hidden: u32,
}

impl DispatchRow {
    /// Reads the key of a workload whose tokens have `hidden` values.
    pub(crate) fn read(table: &Reader<'_>, hidden: u32) -> Result<Self> {
        let dtype = table.get(KEYS.dispatch_dtype)?.unwrap_or(DType::Bf16);
        if dtype != DType::Bf16 && !hidden.is_multiple_of(FP8_BLOCK as u32) {
            let problem = PayloadProblem::PartialBlock { hidden, block: FP8_BLOCK };
            return Err(problem.at(table.need_field(KEYS.dispatch_dtype)?.place()));
        }
        Ok(Self { dtype, hidden })
    }

    /// Bytes, those of scales included.
    pub(crate) fn bytes(self) -> u64 {
        match self.fp8_values() {
            Some(values) => fp8_row_bytes(values) as u64,
            None => u64::from(self.hidden) * VALUE_BYTES,
        }
    }

    /// Values of a token, if they are quantized.
    pub(crate) fn fp8_values(self) -> Option<usize> {
        (self.dtype == DType::F8E4M3).then_some(self.hidden as usize)
    }
}
