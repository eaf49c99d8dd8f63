//! `dispatch_dtype`: what a forward dispatch carries of a token, its values as they are, or quantized to FP8.

use zipwire_codec::DType;
use zipwire_payload::{FP8_BLOCK, fp8_row_bytes};

use crate::error::Result;
use crate::model::VALUE_BYTES;
use crate::problem::Problem;
use crate::reader::Reader;
use crate::schema::{Key, names, optional};

/// The key.
pub(crate) const DISPATCH_DTYPE: &str = "dispatch_dtype";
const DTYPES: [DType; 2] = [DType::Bf16, DType::F8E4M3];

/// What a forward dispatch carries of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DispatchRow {
    pub(crate) dtype: DType,
    /// Values.
    hidden: u32,
}

impl DispatchRow {
    /// Reads the key of a workload whose tokens have `hidden` values.
    pub(crate) fn read(table: &Reader<'_>, hidden: u32) -> Result<Self> {
        let Some(field) = table.get(DISPATCH_DTYPE) else { return Ok(Self { dtype: DType::Bf16, hidden }) };
        let dtype = field.choice("type of dispatched values", &DTYPES, DType::name)?;
        if dtype != DType::Bf16 && !hidden.is_multiple_of(FP8_BLOCK as u32) {
            return Err(field.error(Problem::PartialBlock { hidden, block: FP8_BLOCK }));
        }
        Ok(Self { dtype, hidden })
    }

    /// What [`read`](Self::read) reads.
    pub(crate) fn key() -> Key {
        optional(
            DISPATCH_DTYPE,
            "what the forward dispatch carries of a token: its values, or FP8 values with an F32 scale for every 128; `BF16` by default",
            names(DTYPES.map(DType::name)),
        )
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
