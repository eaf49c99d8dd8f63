//! How values of a type divide into exponent and rest.

use super::geometry::ALIGN;
use crate::DType;

/// A type of values that can be coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    dtype: DType,
}

impl Fields {
    /// The fields of a type.
    pub(super) fn of(dtype: DType) -> Self {
        Self { dtype }
    }

    /// Bytes of a value.
    pub(super) fn width(self) -> usize {
        self.dtype.width()
    }

    /// Bytes of sign and mantissa of `count` values, padding included.
    pub(super) fn rest_bytes(self, count: usize) -> usize {
        count.next_multiple_of(ALIGN)
    }

    /// About how many bits a +0 takes that is coded: it is mostly an escape, and has a rest.
    pub(super) fn bits_of_zero(self) -> usize {
        24
    }
}
