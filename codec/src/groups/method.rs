//! How a group of a chunk is coded: an entry of the chunk map.

use super::geometry::ENTRY;
use crate::fault::GroupFault;

/// How the bytes of a group are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// They are as they are.
    Stored,
    /// All of them are the one that there is.
    Same,
    /// By a Huffman code of the group.
    Huffman,
    /// By zstd.
    Zstd,
    /// Runs of equal bytes.
    Runs,
}

const ALL: [Method; 5] = [Method::Stored, Method::Same, Method::Huffman, Method::Zstd, Method::Runs];
/// Bits of an entry below the method: the number of bytes.
const LEN_BITS: u32 = 20;

/// Writes an entry: the method and the number of coded bytes, at most 256 Ki.
pub(super) fn write(method: Method, len: usize, out: &mut [u8]) {
    let entry = (method as u32) << LEN_BITS | len as u32;
    out[..ENTRY].copy_from_slice(&entry.to_le_bytes()[..ENTRY]);
}

/// Reads an entry of a group of `bytes` bytes.
///
/// # Errors
/// If no method has this tag, or it cannot take this number of bytes.
pub(super) fn read([low, middle, high]: [u8; ENTRY], bytes: usize) -> Result<(Method, usize), GroupFault> {
    let entry = u32::from_le_bytes([low, middle, high, 0]);
    let tag = entry >> LEN_BITS;
    let method = *ALL.get(tag as usize).ok_or(GroupFault::Method(tag as u8))?;
    let len = (entry & ((1 << LEN_BITS) - 1)) as usize;
    let is_possible = match method {
        Method::Stored => len == bytes,
        Method::Same => len == 1 && bytes > 1,
        Method::Huffman | Method::Zstd | Method::Runs => len < bytes,
    };
    if is_possible { Ok((method, len)) } else { Err(GroupFault::Length { found: len, bytes }) }
}
