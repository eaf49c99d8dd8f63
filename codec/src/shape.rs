//! Shape of a frame: known at both ends of a transfer before anything is compressed.

use crate::{DType, Layout};

/// Shape of a frame: its layout, and the type and number of its values.
///
/// All lengths that do not depend on values follow from it, and the header of a frame says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameShape {
    /// How its bytes are divided between the sections.
    pub layout: Layout,
    /// Type of the values.
    pub dtype: DType,
    /// Number of values.
    pub count: usize,
}

impl FrameShape {
    /// A frame of `count` values of type `dtype` in layout `layout`.
    pub const fn new(layout: Layout, dtype: DType, count: usize) -> Self {
        Self { layout, dtype, count }
    }

    /// Bytes of the values. Saturates where they would not fit into memory.
    pub fn values_len(self) -> usize {
        self.count.saturating_mul(self.dtype.width())
    }
}

impl std::fmt::Display for FrameShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} values in layout {}", self.count, self.dtype, self.layout)
    }
}
