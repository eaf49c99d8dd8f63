//! Bases: values that both ends of a transfer have, and that frames of differences name by an id.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::RefUnwindSafe;
use std::sync::Arc;

use crate::kernel::Kernel;
use crate::{DType, checksum, levels};

/// The second half of an id is that of words with these numbers more.
const SECOND: u64 = 1 << 40;

/// Values that both ends of a transfer have, and that others differ from little: the checkpoint before, the weights that a worker has.
///
/// Its id follows from type, number and bits of the values, so both ends mean the same by it. Bytes are shared and not copied: an
/// `Arc<Vec<u8>>` or a mapped file can be a base.
#[derive(Clone)]
pub struct Base {
    dtype: DType,
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync + RefUnwindSafe>,
    id: u64,
}

impl Base {
    /// The base of these values (little-endian). Reads them all, once: a base is made once for all frames that differ from it.
    ///
    /// Bytes behind the last whole value belong to no value; then no frame differs from this base.
    pub fn new(dtype: DType, bytes: impl AsRef<[u8]> + Send + Sync + RefUnwindSafe + 'static) -> Self {
        let id = id_of(levels::active(), dtype, bytes.as_ref());
        Self { dtype, bytes: Arc::new(bytes), id }
    }

    /// Id by which frames name the base: a hash of 64 bits.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Type of the values.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Number of whole values.
    pub fn count(&self) -> usize {
        self.as_bytes().len() / self.dtype.width()
    }

    /// The values.
    pub fn as_bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    /// Whether these are values of this type, and as many bytes of them.
    pub(crate) fn fits(&self, dtype: DType, bytes: usize) -> bool {
        self.dtype == dtype && self.as_bytes().len() == bytes
    }

    /// Whether both are the same values.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Base({:#018x}, {} values of {})", self.id, self.count(), self.dtype)
    }
}

/// Bases with the same id count as equal: that is what frames compare.
impl PartialEq for Base {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Base {}

impl Hash for Base {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

/// See [`Base::id`]: two checksums, with keys of their own, each of 32 bits. Blocks are still in the fastest cache for the second one.
fn id_of(kernel: &Kernel, dtype: DType, bytes: &[u8]) -> u64 {
    let head = [bytes.len() as u64, u64::from(dtype.tag())].map(u64::to_le_bytes);
    let head = checksum::of_front(head.as_flattened(), 0);
    let (mut low, mut high) = (head, head.rotate_left(16));
    let indexes = (0..).step_by(checksum::PART_BYTES / checksum::WORD);
    for (block, index) in bytes.chunks(checksum::PART_BYTES).zip(indexes) {
        low = low.wrapping_add((kernel.checksum)(block, index));
        high = high.wrapping_add((kernel.checksum)(block, index + SECOND));
    }
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_types_lengths_and_bits_apart_and_do_not_depend_on_the_level() {
        let (len, step) = if cfg!(miri) { (2_000_u32, 397) } else { (40_000, 97) };
        let bytes: Vec<u8> = (0..len).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        let mut ids: Vec<u64> = (0..100).map(|len| Base::new(DType::Bf16, vec![0; 2 * len]).id()).collect();
        ids.extend(DType::ALL.map(|dtype| Base::new(dtype, bytes.clone()).id()));
        for at in (0..bytes.len()).step_by(step) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            ids.push(Base::new(DType::Bf16, changed).id());
        }
        let count = ids.len();
        for half in [0, 32] {
            let mut halves: Vec<u32> = ids.iter().map(|id| (id >> half) as u32).collect();
            halves.sort_unstable();
            halves.dedup();
            assert_eq!(halves.len(), count);
        }
        for kernel in levels::all() {
            assert_eq!(id_of(kernel, DType::Bf16, &bytes), ids[100]);
        }
    }
}
