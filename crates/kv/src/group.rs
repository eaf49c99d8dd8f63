//! The header of a group: `docs/format.md`, "Groups of KV caches".

use xxhash_rust::xxh3::xxh3_64;

use crate::KvError;

/// Bytes of the header.
pub const HEADER_LEN: usize = 48;
/// Version of the format.
pub const VERSION: u8 = 1;
const MAGIC: [u8; 4] = *b"ZWKV";
/// Bytes of the header that its checksum is of.
const CHECKED: usize = 40;

/// Layer and tokens of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The layer, from 0.
    pub layer: u32,
    /// The first token, counted from the begin of the sequence or as both ends agree.
    pub token: u64,
}

/// Header of a group, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// Layer and tokens.
    pub place: Place,
    /// How many tokens it has.
    pub tokens: u32,
    /// Bytes of each plane, decoded.
    pub plane_len: usize,
    /// Bytes of the group, the header included.
    pub len: usize,
}

/// The header as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) compatibility: u64,
    pub(crate) place: Place,
    pub(crate) tokens: u32,
    /// Bytes of the frame of each plane; 0 for one that is not there.
    pub(crate) frames: [u32; 2],
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[8..16].copy_from_slice(&self.compatibility.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.place.token.to_le_bytes());
        for (at, number) in
            (24..).step_by(4).zip([self.place.layer, self.tokens, self.frames[0], self.frames[1]])
        {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let sum = xxh3_64(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn read(group: &[u8]) -> Result<Self, KvError> {
        let damaged = |what| KvError::Damaged { what };
        let bytes = group.first_chunk::<HEADER_LEN>().ok_or(damaged("it is shorter than its header"))?;
        if bytes[..4] != MAGIC {
            return Err(damaged("it begins with something else"));
        }
        if bytes[4] != VERSION {
            return Err(KvError::Version { found: bytes[4] });
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if word(CHECKED) != xxh3_64(&bytes[..CHECKED]) {
            return Err(damaged("its header has another checksum"));
        }
        if bytes[5..8] != [0; 3] {
            return Err(damaged("its header has numbers where zeros belong"));
        }
        let half = |at: usize| word(at) as u32;
        Ok(Self {
            compatibility: word(8),
            place: Place { layer: half(24), token: word(16) },
            tokens: half(28),
            frames: [half(32), half(36)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_every_flip_is_found() {
        let place = Place { layer: 31, token: u64::MAX - 5 };
        let header =
            Header { compatibility: 0x0123_4567_89ab_cdef, place, tokens: 256, frames: [9999, u32::MAX] };
        let bytes = header.to_bytes();
        assert_eq!(Header::read(&bytes), Ok(header));
        for bit in 0..8 * HEADER_LEN {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::read(&bytes).is_err(), "bit {bit}");
        }
        for len in 0..HEADER_LEN {
            assert_eq!(
                Header::read(&bytes[..len]),
                Err(KvError::Damaged { what: "it is shorter than its header" })
            );
        }
        let mut newer = bytes;
        newer[4] = 2;
        let error = Header::read(&newer).unwrap_err();
        assert_eq!(error, KvError::Version { found: 2 });
        assert!(error.to_string().contains("help:"), "{error}");
    }
}
