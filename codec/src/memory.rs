//! Memory of the size of a payload: that there is none is an error, not the end of the process.

/// A vector of zeros, or none if there is no memory for it. Pages that are never written are not touched.
pub(crate) fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    bytemuck::allocation::try_zeroed_vec(bytes).ok()
}
