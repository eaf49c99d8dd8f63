//! A code with the list of its lengths in front of its words: all that it takes to read some bytes again.

use super::{
    DecodeTable, EncodeTable, LONGEST, Lengths, MOST_LISTED, SPARE, coded_bits, decode_streams,
    encode_streams, limited, read_lengths, streams_len, write_lengths,
};
use crate::error::PlaneFault;
use crate::kernel::Kernel;

/// A code, its lengths as a frame lists them, and the bytes that all of it takes at most.
pub struct ListedCode {
    lengths: Lengths,
    list: [u8; MOST_LISTED],
    listed: usize,
    /// Bytes of the list and of the streams: as many as [`Self::write`] writes, or up to three more.
    pub len: usize,
}

impl ListedCode {
    /// A code with the fewest bits for symbols of these counts.
    pub fn of(counts: &[u32; 256]) -> Self {
        let lengths = limited(counts, LONGEST);
        let mut list = [0; MOST_LISTED];
        let listed = write_lengths(&lengths, &mut list);
        let len = listed + streams_len(coded_bits(counts, &lengths));
        Self { lengths, list, listed, len }
    }

    /// Writes list and streams to the front of `out`, and returns how many bytes they are. `None` if there is no room for [`SPARE`] bytes more, or
    /// if there is one symbol only.
    pub fn write(&self, kernel: &Kernel, bytes: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.len + SPARE > out.len() {
            return None;
        }
        let table = EncodeTable::new(&self.lengths)?;
        let (list, streams) = out.split_at_mut(self.listed);
        list.copy_from_slice(&self.list[..self.listed]);
        Some(self.listed + encode_streams(kernel, &table, bytes, streams)?)
    }
}

/// Reads what [`ListedCode::write`] wrote, as many bytes as `out` has.
///
/// # Errors
/// If it is nothing that it writes.
pub fn read_listed(mut coded: &[u8], out: &mut [u8]) -> Result<(), PlaneFault> {
    let lengths = read_lengths(&mut coded).ok_or(PlaneFault::Lengths)?;
    let table = DecodeTable::new(&lengths).ok_or(PlaneFault::Lengths)?;
    decode_streams(&table, coded, out).ok_or(PlaneFault::Words)
}
