//! What every codec can do.

use crate::{DType, EncodeError, Layout};

/// A lossless codec with its options.
///
/// Encoding is a method of a codec, because options matter; decoding is the free function [`crate::decode`], because a
/// frame says itself how it was made.
///
/// The sizes depend on `layout`, `dtype` and `count` only, never on options or values.
pub trait Codec: std::fmt::Debug + Send + Sync {
    /// The id in specs, without options.
    fn id(&self) -> &'static str;

    /// Whether values of this type can be encoded.
    fn supports(&self, dtype: DType) -> bool;

    /// Bytes of the static section of a frame of `count` values; 0 in the compact layout.
    ///
    /// Counts whose values would not fit into memory saturate.
    fn static_len(&self, layout: Layout, dtype: DType, count: usize) -> usize;

    /// The most bytes that the static and the dynamic section of `count` values take together.
    ///
    /// Counts whose values would not fit into memory saturate.
    fn bound(&self, layout: Layout, dtype: DType, count: usize) -> usize;

    /// The fewest bytes that the static and the dynamic section of `count` values can take together; what is shorter is
    /// no such frame. It grows with `count`, so that a reader that looks first allocates no more than a frame earns.
    ///
    /// Counts whose values would not fit into memory saturate.
    fn least_len(&self, layout: Layout, dtype: DType, count: usize) -> usize {
        // Front matter, which is what the bound has beside the values, whatever becomes of these.
        let bound = self.bound(layout, dtype, count);
        match count.checked_mul(dtype.width()) {
            Some(values) if bound <= isize::MAX as usize => {
                (bound - values).max(self.static_len(layout, dtype, count))
            }
            _ => usize::MAX,
        }
    }

    /// Encodes `values` (little-endian, a whole number of them) and returns the length of the dynamic section in bytes.
    ///
    /// `static_out` has exactly [`Self::static_len`] bytes, all of which are written. `dynamic_out` has at least
    /// [`Self::bound`] less [`Self::static_len`] bytes; the dynamic section is its front, the rest is left unspecified.
    ///
    /// # Errors
    /// If the type is not supported, the values are not whole, or a buffer has the wrong length. Values never cause
    /// an error.
    fn encode(
        &self,
        layout: Layout,
        dtype: DType,
        values: &[u8],
        static_out: &mut [u8],
        dynamic_out: &mut [u8],
    ) -> Result<usize, EncodeError>;
}
