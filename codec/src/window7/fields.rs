//! The two types: BF16 values are coded as they are, FP32 values by their upper halves, beside lower halves as they are.

use crate::DType;
use crate::checksum::WORD;
use crate::kernel::{Kernel, TILE};
use crate::streaming_store::{STRIP_BYTES, StreamingStore};

/// A type of values, and the kernel for it.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    kernel: &'static Kernel,
    dtype: DType,
}

/// Room for the BF16 values of a tile.
pub(super) type Upper = [u8; 2 * TILE];

const _: () = assert!(2 * TILE <= STRIP_BYTES);

impl Fields {
    pub(super) fn of(kernel: &'static Kernel, dtype: DType) -> Self {
        debug_assert!(supports(dtype));
        Self { kernel, dtype }
    }

    /// Bytes of a value.
    pub(super) fn width(self) -> usize {
        self.dtype.width()
    }

    /// Bytes of a value's lower half, if it has one.
    pub(super) fn lower_width(self) -> usize {
        lower_width(self.dtype)
    }

    /// Whether decoded values, `len` bytes in all, are to be written past the caches. A tile of FP32 values is longer than
    /// a strip.
    pub(super) fn streaming<'a>(self, len: usize) -> Option<StreamingStore<'a>> {
        if self.dtype == DType::Bf16 { StreamingStore::of_large(self.kernel, len) } else { None }
    }

    /// The values as BF16; `room` is for those that are not yet.
    pub(super) fn upper<'a>(self, values: &'a [u8], room: &'a mut Upper) -> &'a [u8] {
        if self.dtype == DType::Bf16 {
            return values;
        }
        let upper = &mut room[..values.len() / 2];
        (self.kernel.upper_halves)(values, upper);
        upper
    }

    /// Index of the first word of tile `number` in the checksum, if packing and unpacking see its values.
    pub(super) fn word(self, number: usize) -> Option<u64> {
        (self.dtype == DType::Bf16).then(|| (number * 2 * TILE / WORD) as u64)
    }

    /// Writes the lower halves, if there are any; returns whether any of them is not 0.
    pub(super) fn write_lower(self, values: &[u8], lower: &mut [u8]) -> bool {
        self.dtype != DType::Bf16 && (self.kernel.lower_halves)(values, lower)
    }

    /// Writes values whose upper halves are what `unpack` writes.
    pub(super) fn join<E>(
        self,
        lower: &[u8],
        out: &mut [u8],
        room: &mut Upper,
        unpack: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.dtype == DType::Bf16 {
            return unpack(out);
        }
        let upper = &mut room[..out.len() / 2];
        unpack(upper)?;
        (self.kernel.join_halves)(upper, lower, out);
        Ok(())
    }

    /// How many values are exactly +0.
    pub(super) fn zeros(self, values: &[u8]) -> usize {
        match self.dtype {
            DType::Bf16 => (self.kernel.zeros)(values),
            _ => (self.kernel.zeros_32)(values),
        }
    }

    /// See [`Kernel::drop_zeros`].
    pub(super) fn drop_zeros(self, values: &[u8], mask: &mut [u8], kept: &mut [u8]) -> usize {
        match self.dtype {
            DType::Bf16 => (self.kernel.drop_zeros)(values, mask, kept),
            _ => (self.kernel.drop_zeros_32)(values, mask, kept),
        }
    }

    /// See [`Kernel::restore_zeros`].
    pub(super) fn restore_zeros(self, mask: &[u8], kept: &[u8], out: &mut [u8]) {
        match self.dtype {
            DType::Bf16 => (self.kernel.restore_zeros)(mask, kept, out),
            _ => (self.kernel.restore_zeros_32)(mask, kept, out),
        }
    }
}

/// Whether the codec has a form for values of this type.
pub(super) fn supports(dtype: DType) -> bool {
    matches!(dtype, DType::Bf16 | DType::F32)
}

/// Bytes of what a value has beside its upper half.
pub(super) fn lower_width(dtype: DType) -> usize {
    dtype.width() - 2
}
