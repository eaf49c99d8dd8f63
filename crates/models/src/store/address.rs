//! Addresses of tensors: a hash of type and values.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are hashed and coded at a time: whole chunks of any type.
pub(crate) const PIECE: u64 = 1 << 20;
/// Bytes for the name of a type.
pub(crate) const DTYPE_BYTES: usize = 16;
/// Type name of bytes that belong to no tensor.
pub(crate) const NO_DTYPE: &str = "bytes";

/// A BLAKE3 hash of values and their type. Equal addresses are equal tensors, whatever these are called and whichever file they are in: a
/// hash that can be forged or that collides would let one tensor stand for another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address([u8; 32]);

impl Address {
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The folder of its object, and the object's name there.
    pub(crate) fn place(&self) -> (String, String) {
        let text = self.to_string();
        (text[..2].to_owned(), text[2..].to_owned())
    }

    /// The address whose object has this name in this folder.
    pub(crate) fn of_place(folder: &str, name: &str) -> Option<Self> {
        (folder.len() == 2).then(|| format!("{folder}{name}").parse().ok()).flatten()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address is 64 digits 0 to 9 and a to f")]
pub struct AddressError;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let digit = |byte: &u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(AddressError),
        };
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() {
            return Err(AddressError);
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = digit(&digits[0])? << 4 | digit(&digits[1])?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The text may have escapes, so it is not borrowed.
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The hash of a piece: of values, or of what they are coded as.
pub(crate) type PieceHash = [u8; 32];

pub(crate) fn hash_of_piece(bytes: &[u8]) -> PieceHash {
    *blake3::hash(bytes).as_bytes()
}

/// The hash of hashes of pieces, which can be made on any thread and in any order.
pub(crate) fn hash_of_pieces<'a>(pieces: impl IntoIterator<Item = &'a PieceHash>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for piece in pieces {
        hasher.update(piece);
    }
    *hasher.finalize().as_bytes()
}

/// The address of so many bytes of a type, by the hashes of their pieces: of at least one, which is empty where there are no bytes.
pub(crate) fn address_of(dtype: &str, bytes: u64, pieces: &[PieceHash]) -> Address {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&dtype_bytes(dtype));
    hasher.update(&bytes.to_le_bytes());
    for piece in pieces {
        hasher.update(piece);
    }
    Address(*hasher.finalize().as_bytes())
}

pub(crate) fn pieces_of(bytes: u64) -> u64 {
    bytes.div_ceil(PIECE).max(1)
}

/// The name of a type with zeros behind it. Names are shorter: the ones of safetensors have at most eight bytes.
pub(crate) fn dtype_bytes(dtype: &str) -> [u8; DTYPE_BYTES] {
    let mut bytes = [0; DTYPE_BYTES];
    let len = dtype.len().min(DTYPE_BYTES);
    bytes[..len].copy_from_slice(&dtype.as_bytes()[..len]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_their_text() {
        let pieces = [hash_of_piece(b"abc")];
        let address = address_of("BF16", 3, &pieces);
        assert_eq!(address.to_string().parse(), Ok(address));
        let (folder, name) = address.place();
        assert_eq!(Address::of_place(&folder, &name), Some(address));
        for text in ["", "00", &"g".repeat(64), &"A0".repeat(32), &"ä".repeat(32)] {
            assert_eq!(text.parse::<Address>(), Err(AddressError), "{text}");
        }
    }

    #[test]
    fn type_length_and_values_count() {
        let pieces = [hash_of_piece(b"abcd")];
        let address = address_of("BF16", 4, &pieces);
        assert_ne!(address, address_of("F16", 4, &pieces));
        assert_ne!(address, address_of("BF16", 5, &pieces));
        assert_ne!(address, address_of("BF16", 4, &[hash_of_piece(b"abce")]));
    }
}
