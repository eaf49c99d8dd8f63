//! Headers of safetensors files, in which no key is there twice.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;

use safetensors::tensor::Metadata;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::file::{at, buffer};

/// Bytes of the length in front of the header.
const LENGTH_BYTES: u64 = 8;
/// Bytes of a header at the most, as the format has it.
const LIMIT: u64 = 100_000_000;

/// The header of a safetensors file: names, types, shapes and places of its tensors.
#[derive(Debug)]
pub struct Header {
    bytes: Vec<u8>,
    metadata: Metadata,
}

/// A tensor of a file, without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Type of the values, as the file names it: `BF16`, `I64`, `BOOL`.
    pub dtype: String,
    /// Shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Where its values are among the values of all tensors, in bytes.
    pub range: Range<u64>,
}

impl TensorInfo {
    /// Bytes of its values.
    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// Why a file is not read as safetensors.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum HeaderError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("bytes 0 to {end} are no header: {reason}")]
    Invalid {
        /// Where the header ends, as far as that is known.
        end: u64,
        reason: String,
    },
    #[error("it has {found} bytes, and its header says {needed}")]
    WrongLength { found: u64, needed: u64 },
}

impl Header {
    /// An empty header, for archives.
    pub(crate) fn none() -> Self {
        let metadata = Metadata::new(None, Vec::new()).expect("no tensors fill no bytes");
        Self { bytes: Vec::new(), metadata }
    }

    /// Reads the header, and compares it with the length of the file.
    ///
    /// # Errors
    /// If the file cannot be read, is no safetensors file, or is longer or shorter than the header says.
    pub fn read(file: &File) -> Result<Self, HeaderError> {
        let found = file.metadata()?.len();
        let invalid = |end: u64, reason: String| HeaderError::Invalid { end: end.min(found), reason };
        if found < LENGTH_BYTES {
            return Err(invalid(found, format!("`{found}` bytes are too few for a header")));
        }
        let mut length = [0; LENGTH_BYTES as usize];
        at::read_exact(file, &mut length, 0)?;
        let length = u64::from_le_bytes(length);
        let end = length.saturating_add(LENGTH_BYTES);
        if length > LIMIT {
            let mut bytes = length.to_le_bytes().into_iter();
            if bytes.all(|byte| byte.is_ascii_graphic() || b" \t\r\n".contains(&byte)) {
                let reason = "it begins with text, and not with the length of a header".to_owned();
                return Err(invalid(LENGTH_BYTES, reason));
            }
            return Err(invalid(end, format!("a header of `{length}` bytes is above the format's limit")));
        }
        if end > found {
            return Err(HeaderError::WrongLength { found, needed: end });
        }
        let mut bytes = buffer(end)?;
        bytes.resize(end as usize, 0);
        at::read_exact(file, &mut bytes, 0)?;
        Self::parse(bytes, found)
    }

    /// The header of a file of `found` bytes that begins with `bytes`, which end where it ends.
    pub(crate) fn parse(bytes: Vec<u8>, found: u64) -> Result<Self, HeaderError> {
        let end = bytes.len() as u64;
        let invalid = |reason: String| HeaderError::Invalid { end, reason };
        let Some((length, json)) = bytes.split_first_chunk() else {
            return Err(invalid(format!("`{end}` bytes are too few for a header")));
        };
        if u64::from_le_bytes(*length) != json.len() as u64 {
            return Err(invalid("it does not end where it says".to_owned()));
        }
        // The parser takes the last of equal keys, other readers the first.
        check_keys(json).map_err(|error| invalid(error.to_string()))?;
        let metadata: Metadata = serde_json::from_slice(json).map_err(|error| invalid(error.to_string()))?;
        let needed = end.saturating_add(metadata.data_len() as u64);
        if found != needed {
            return Err(HeaderError::WrongLength { found, needed });
        }
        Ok(Self { bytes, metadata })
    }

    /// The bytes in front of the values, as they are in the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All tensors, in the order of their values, which fill the file behind the header without gaps; those without values at the same place
    /// by their names.
    pub fn tensors(&self) -> Vec<TensorInfo> {
        let named = |name: String| {
            let info = self.metadata.info(&name)?;
            let (start, end) = info.data_offsets;
            Some(TensorInfo {
                name,
                dtype: info.dtype.to_string(),
                shape: info.shape.clone(),
                range: start as u64..end as u64,
            })
        };
        let mut tensors: Vec<TensorInfo> =
            self.metadata.offset_keys().into_iter().filter_map(named).collect();
        // The parser leaves equal places in any order.
        tensors.sort_by(|a, b| {
            (a.range.start, a.range.end, &a.name).cmp(&(b.range.start, b.range.end, &b.name))
        });
        tensors
    }

    /// Metadata of the file: the texts under `__metadata__`.
    pub fn notes(&self) -> &HashMap<String, String> {
        static NONE: std::sync::LazyLock<HashMap<String, String>> = std::sync::LazyLock::new(HashMap::new);
        self.metadata.metadata().as_ref().unwrap_or(&NONE)
    }
}

/// Whether JSON is well-formed and no object in it has a key twice.
/// Readers differ in which of two equal keys counts.
fn check_keys(json: &[u8]) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    Keys.deserialize(&mut deserializer)?;
    deserializer.end()
}

struct Keys;

impl<'de> DeserializeSeed<'de> for Keys {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(Keys)?;
            if let Some(key) = keys.replace(key) {
                return Err(A::Error::custom(format!("the key `{key}` is there twice")));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Keys)?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_there_once_in_each_object() {
        check_keys(br#"{"a":{"b":[1,-2,0.5,"x",null,true]},"b":{"b":1}}"#).unwrap();
        for json in [r#"{"a":1,"a":1}"#, r#"{"x":{"a":1,"b":2,"\u0061":3}}"#, r#"[{"a":1,"a":2}]"#] {
            let error = check_keys(json.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("the key `a` is there twice"), "{error}");
        }
        assert!(check_keys(b"{} {}").is_err() && check_keys(b"{").is_err());
    }
}
