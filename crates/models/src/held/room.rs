//! Large memory that is used again: on huge pages where the system has them, which saves misses of address translation.

use std::io;

use memmap2::MmapMut;

use crate::held::HeldError;

/// Bytes of a huge page of most systems, and where memory that has one or more begins.
const HUGE: usize = 2 << 20;

/// Bytes that begin where a page does, at a multiple of 2 MiB if there are that many. They are zeros at first, and no page is there before it
/// is touched.
#[derive(Debug, Default)]
pub(crate) struct Room {
    map: Option<MmapMut>,
    begin: usize,
    len: usize,
}

impl Room {
    pub(crate) fn new(len: usize) -> Result<Self, HeldError> {
        if len == 0 {
            return Ok(Self::default());
        }
        let boundary = if len < HUGE { 0 } else { HUGE };
        let refused = |source: io::Error| HeldError::Memory { bytes: len, source };
        let whole = len.checked_add(boundary).ok_or_else(|| refused(io::ErrorKind::OutOfMemory.into()))?;
        let map = MmapMut::map_anon(whole).map_err(refused)?;
        // What a kernel that knows no huge pages says does not matter.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let begin = if boundary == 0 { 0 } else { map.as_ptr().addr().wrapping_neg() % boundary };
        Ok(Self { map: Some(map), begin, len })
    }

    /// The first `len` bytes, of new memory if there are not so many: then what was there is lost.
    pub(crate) fn at_least(&mut self, len: usize) -> Result<&mut [u8], HeldError> {
        if len > self.len {
            // The old one goes first.
            *self = Self::default();
            *self = Self::new(len)?;
        }
        Ok(&mut self.bytes_mut()[..len])
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.map.as_ref().map_or(&[], |map| &map[self.begin..self.begin + self.len])
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.map.as_mut().map_or(&mut [], |map| &mut map[self.begin..self.begin + self.len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_grows() {
        let mut room = Room::default();
        assert!(room.at_least(0).unwrap().is_empty() && room.bytes().is_empty());
        for len in [1, 5000, HUGE, 2 * HUGE + 1, 7] {
            let bytes = room.at_least(len).unwrap();
            assert_eq!((bytes.len(), bytes.as_ptr().addr() % 4096), (len, 0));
            bytes.fill(1);
        }
        assert_eq!((room.len, room.bytes().as_ptr().addr() % HUGE), (2 * HUGE + 1, 0));
        assert!(matches!(Room::new(usize::MAX - 5), Err(HeldError::Memory { .. })));
    }
}
