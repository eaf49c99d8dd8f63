//! Bytes, taken off the front, as readers of frames take them.

/// Bytes that are read from the front.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        self.0.split_off(..len).unwrap()
    }

    /// A part that is filled up to a multiple of 8 bytes.
    pub(crate) fn part(&mut self, len: usize) -> &'a [u8] {
        let part = self.take(len);
        assert!(self.take(len.next_multiple_of(8) - len).iter().all(|byte| *byte == 0));
        part
    }
}
