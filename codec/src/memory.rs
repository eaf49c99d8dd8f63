//! Memory of the size of a payload: that there is none is an error, not the end of the process.

/// So many zeros, or nothing if there is no memory for them. Pages that nobody writes are not touched.
pub(crate) fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    bytemuck::allocation::try_zeroed_vec(bytes).ok()
}
