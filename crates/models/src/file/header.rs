//! Headers of safetensors files, in which no key is there twice.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use safetensors::Dtype;
use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, Visitor};

use crate::file::{at, buffer};

/// Bytes of the length in front of the header.
pub(crate) const LENGTH_BYTES: u64 = 8;
/// Bytes of a header at the most, as the format has it.
pub(crate) const LIMIT: u64 = 100_000_000;
/// Bytes of a header that is read at the most: files of version 1 have longer ones than their originals.
const MOST_READ: u64 = 3 * LIMIT;

/// Name of the tensor that is the bytes behind all values.
const TRAILING: &str = "zipwire.trailing";
/// Type of the one entry of a compressed file, which no tensor has.
const NO_TYPE: &str = "ZIPWIRE";

/// The header of a safetensors file: names, types, shapes and places of its tensors.
#[derive(Debug, Default)]
pub struct Header {
    bytes: Vec<u8>,
    notes: HashMap<String, String>,
    tensors: Vec<TensorInfo>,
    /// Numbers of the tensors in the order of their names.
    by_name: Vec<u32>,
    /// Bytes behind the values, which are the last tensor.
    trailing: u64,
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
    /// Its header has one entry, of a type that safetensors do not have.
    #[error("it is compressed by zipwire")]
    Compressed,
}

impl Header {
    /// Reads the header, and compares it with the length of the file.
    ///
    /// # Errors
    /// If the file cannot be read, is no safetensors file, or is longer or shorter than the header says. [`HeaderError::Compressed`] for one that
    /// [`compress`](crate::file::compress) wrote.
    pub fn read(file: &File) -> Result<Self, HeaderError> {
        let header = Self::begin(file)?;
        header.fits(file.metadata()?.len())?;
        Ok(header)
    }

    /// [`Self::read`] for a file that may be longer than its header says: what is behind its last tensor is a tensor, too ([`Self::add_trailing`]).
    ///
    /// # Errors
    /// Errors of [`Self::read`] but that of longer files.
    pub(crate) fn read_with_trailing(file: &File) -> Result<Self, HeaderError> {
        let mut header = Self::begin(file)?;
        let found = file.metadata()?.len();
        let end = header.bytes.len() as u64;
        let needed = end.saturating_add(header.data_len());
        if let Some(trailing) = found.checked_sub(needed) {
            header.add_trailing(trailing).map_err(|reason| HeaderError::Invalid { end, reason })?;
        }
        header.fits(found)?;
        Ok(header)
    }

    fn begin(file: &File) -> Result<Self, HeaderError> {
        let bytes = front(file)?;
        let end = bytes.len() as u64;
        if is_compressed(&bytes) {
            return Err(HeaderError::Compressed);
        }
        if end > LENGTH_BYTES + LIMIT {
            return Err(too_long(end));
        }
        Self::parse(bytes)
    }

    /// The header that these bytes are, with the length in front.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, HeaderError> {
        let end = bytes.len() as u64;
        let invalid = |reason: String| HeaderError::Invalid { end, reason };
        let Some((length, json)) = bytes.split_first_chunk() else {
            return Err(invalid(format!("`{end}` bytes are too few for a header")));
        };
        if u64::from_le_bytes(*length) != json.len() as u64 {
            return Err(invalid("it does not end where it says".to_owned()));
        }
        let Entries { notes, tensors } =
            serde_json::from_slice(json).map_err(|error| invalid(error.to_string()))?;
        Self::of(bytes, notes, tensors).map_err(invalid)
    }

    /// A header without bytes, for members of an archive.
    ///
    /// # Errors
    /// Why they are not tensors of one file.
    pub(crate) fn of_members(tensors: Vec<TensorInfo>) -> Result<Self, String> {
        Self::of(Vec::new(), HashMap::new(), tensors)
    }

    /// Orders the tensors, and checks that they fill the file.
    fn of(
        bytes: Vec<u8>,
        notes: HashMap<String, String>,
        mut tensors: Vec<TensorInfo>,
    ) -> Result<Self, String> {
        tensors.sort_unstable_by(|a, b| {
            (a.range.start, a.range.end, &a.name).cmp(&(b.range.start, b.range.end, &b.name))
        });
        let by_name = by_name(&tensors)?;
        let name = |number: u32| &tensors[number as usize].name;
        // Readers differ in which of two equal keys counts.
        if let Some(pair) = by_name.windows(2).find(|pair| name(pair[0]) == name(pair[1])) {
            return Err(format!("the key `{}` is there twice", name(pair[0])));
        }
        let mut end = 0;
        for tensor in &tensors {
            if tensor.range.start != end {
                return Err(format!(
                    "tensor `{}` begins at {} and not at {end}",
                    tensor.name, tensor.range.start
                ));
            }
            end = tensor.range.end;
        }
        Ok(Self { bytes, notes, tensors, by_name, trailing: 0 })
    }

    /// Adds a tensor of the bytes behind all values, if there are any: of type `U8`, called [`TRAILING`], with `_` in front if there is such a name.
    ///
    /// # Errors
    /// If that is more than a file can have.
    pub(crate) fn add_trailing(&mut self, bytes: u64) -> Result<(), String> {
        if bytes == 0 {
            return Ok(());
        }
        let (start, mut name) = (self.data_len(), TRAILING.to_owned());
        while self.number(&name).is_some() {
            name.insert(0, '_');
        }
        let (end, len) = (start.checked_add(bytes), usize::try_from(bytes).ok());
        let (end, len) =
            end.zip(len).ok_or_else(|| format!("`{bytes}` bytes behind its values are too many"))?;
        self.tensors.push(TensorInfo { name, dtype: "U8".to_owned(), shape: vec![len], range: start..end });
        self.by_name = by_name(&self.tensors)?;
        self.trailing = bytes;
        Ok(())
    }

    /// Bytes behind the values that the header says, which are the last tensor.
    pub(crate) fn trailing(&self) -> u64 {
        self.trailing
    }

    /// Whether a file of `found` bytes ends where the last tensor does.
    pub(crate) fn fits(&self, found: u64) -> Result<(), HeaderError> {
        let needed = (self.bytes.len() as u64).saturating_add(self.data_len());
        if found == needed { Ok(()) } else { Err(HeaderError::WrongLength { found, needed }) }
    }

    /// The bytes in front of the values, as they are in the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of the values of all tensors.
    pub(crate) fn data_len(&self) -> u64 {
        self.tensors.last().map_or(0, |tensor| tensor.range.end)
    }

    /// All tensors, in the order of their values, which fill the file behind the header without gaps; those without values at the same place
    /// by their names.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Number of the tensor of this name.
    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        let name_at = |number: &u32| self.tensors[*number as usize].name.as_str();
        let place = self.by_name.binary_search_by_key(&name, name_at).ok()?;
        Some(self.by_name[place] as usize)
    }

    /// Metadata of the file: the texts under `__metadata__`.
    pub fn notes(&self) -> &HashMap<String, String> {
        &self.notes
    }
}

/// Numbers of tensors in the order of their names.
fn by_name(tensors: &[TensorInfo]) -> Result<Vec<u32>, String> {
    let count = u32::try_from(tensors.len()).map_err(|_| "it has too many tensors".to_owned())?;
    let mut by_name: Vec<u32> = (0..count).collect();
    by_name.sort_unstable_by_key(|number| &tensors[*number as usize].name);
    Ok(by_name)
}

/// Whether there is a file that begins as a compressed one does, whatever comes behind.
pub fn begins_compressed(path: &Path) -> bool {
    at::open_input(path).is_ok_and(|file| front(&file).is_ok_and(|front| is_compressed(&front)))
}

/// The bytes in front of the values, with the length: of any safetensors file, or of one that is compressed.
pub(crate) fn front(file: &File) -> Result<Vec<u8>, HeaderError> {
    let found = file.metadata()?.len();
    if found < LENGTH_BYTES {
        let reason = format!("`{found}` bytes are too few for a header");
        return Err(HeaderError::Invalid { end: found, reason });
    }
    let mut length = [0; LENGTH_BYTES as usize];
    at::read_exact(file, &mut length, 0)?;
    let end = u64::from_le_bytes(length).saturating_add(LENGTH_BYTES);
    if end > MOST_READ {
        let mut bytes = length.into_iter();
        if bytes.all(|byte| byte.is_ascii_graphic() || b" \t\r\n".contains(&byte)) {
            let reason = "it begins with text, and not with the length of a header".to_owned();
            return Err(HeaderError::Invalid { end: LENGTH_BYTES, reason });
        }
        return Err(too_long(end));
    }
    if end > found {
        return Err(HeaderError::WrongLength { found, needed: end });
    }
    let mut bytes = buffer(end)?;
    bytes.resize(end as usize, 0);
    at::read_exact(file, &mut bytes, 0)?;
    Ok(bytes)
}

pub(crate) fn too_long(end: u64) -> HeaderError {
    let reason = format!("a header of `{}` bytes is above the format's limit", end - LENGTH_BYTES);
    HeaderError::Invalid { end, reason }
}

/// How the header of a compressed file begins, behind its length. No reader of safetensors knows this type, so each of them refuses the file.
pub(crate) const COMPRESSED: &str = r#"{"zipwire":{"dtype":"ZIPWIRE","#;

/// Whether these bytes in front of a file are those of a compressed one, of version 2 or later.
pub(crate) fn is_compressed(front: &[u8]) -> bool {
    front.get(LENGTH_BYTES as usize..).is_some_and(|json| json.starts_with(COMPRESSED.as_bytes()))
}

/// A tensor as JSON has it, without its name.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl Entry {
    /// The tensor, whose length is that of its shape. Of a type that is not known, the length is what the header says.
    fn named(self, name: String) -> Result<TensorInfo, String> {
        let Self { dtype, shape, data_offsets: (start, end) } = self;
        if dtype == NO_TYPE {
            return Err(format!("tensor `{name}` is of the type of files that are compressed"));
        }
        let length = end.checked_sub(start);
        let values = shape.iter().try_fold(1_u64, |product, side| product.checked_mul(*side as u64));
        let needed = match bits(&dtype) {
            None => length,
            Some(bits) => {
                let bits = values.and_then(|values| values.checked_mul(bits));
                bits.filter(|bits| bits.is_multiple_of(8)).map(|bits| bits / 8)
            }
        };
        if needed.is_none() || length != needed {
            return Err(format!("tensor `{name}` of {dtype} {shape:?} has no bytes {start} to {end}"));
        }
        Ok(TensorInfo { name, dtype, shape, range: start..end })
    }
}

/// Bits of a value of a type; `None` of types that are not known.
pub(crate) fn bits(dtype: &str) -> Option<u64> {
    let name: StrDeserializer<'_, serde::de::value::Error> = dtype.into_deserializer();
    Dtype::deserialize(name).ok().map(|dtype| dtype.bitsize() as u64)
}

/// The JSON of a header that has these tensors and no metadata, with its length in front.
pub(crate) fn written(tensors: &[TensorInfo]) -> Vec<u8> {
    let mut bytes = vec![0; LENGTH_BYTES as usize];
    for tensor in tensors {
        let TensorInfo { name, dtype, shape, range } = tensor;
        bytes.push(if bytes.len() as u64 == LENGTH_BYTES { b'{' } else { b',' });
        let entry =
            serde_json::json!({ "dtype": dtype, "shape": shape, "data_offsets": [range.start, range.end] });
        bytes.extend(format!("{}:{entry}", serde_json::Value::from(name.as_str())).into_bytes());
    }
    bytes.extend(if tensors.is_empty() { &b"{}"[..] } else { b"}" });
    let length = bytes.len() as u64 - LENGTH_BYTES;
    bytes[..LENGTH_BYTES as usize].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// All that a header has, in the order of the JSON.
struct Entries {
    notes: HashMap<String, String>,
    tensors: Vec<TensorInfo>,
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a tensor for each key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let (mut notes, mut tensors) = (None, Vec::new());
        while let Some(key) = map.next_key::<String>()? {
            if key != "__metadata__" {
                let entry: Entry = map.next_value()?;
                tensors.push(entry.named(key).map_err(A::Error::custom)?);
            } else if notes.replace(map.next_value::<Option<Notes>>()?).is_some() {
                return Err(A::Error::custom("the key `__metadata__` is there twice"));
            }
        }
        let notes = notes.flatten().map_or_else(HashMap::new, |Notes(notes)| notes);
        Ok(Entries { notes, tensors })
    }
}

/// Texts, each under a key of its own.
struct Notes(HashMap<String, String>);

impl<'de> Deserialize<'de> for Notes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NotesVisitor)
    }
}

struct NotesVisitor;

impl<'de> Visitor<'de> for NotesVisitor {
    type Value = Notes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a text for each key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Notes, A::Error> {
        let mut notes = HashMap::new();
        while let Some((key, text)) = map.next_entry::<String, String>()? {
            if notes.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` is there twice")));
            }
            notes.insert(key, text);
        }
        Ok(Notes(notes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(json: &str) -> Result<Header, HeaderError> {
        Header::parse([&(json.len() as u64).to_le_bytes(), json.as_bytes()].concat())
    }

    #[test]
    fn a_key_is_there_once_in_each_object() {
        let empty = r#"{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#;
        let header =
            parsed(&format!(r#"{{"b":{empty},"a":{empty},"__metadata__":{{"a":"b","b":"a"}}}}"#)).unwrap();
        assert_eq!((header.number("a"), header.number("b"), header.number("c")), (Some(0), Some(1), None));
        assert_eq!((header.notes()["a"].as_str(), header.data_len()), ("b", 0));
        for (json, key) in [
            (format!(r#"{{"a":{empty},"a":{empty}}}"#), "a"),
            (format!(r#"{{"a":{empty},"\u0061":{empty}}}"#), "a"),
            (r#"{"__metadata__":{"x":"1","x":"2"}}"#.to_owned(), "x"),
            (r#"{"__metadata__":{},"__metadata__":{}}"#.to_owned(), "__metadata__"),
        ] {
            let error = parsed(&json).unwrap_err().to_string();
            assert!(error.contains(&format!("the key `{key}` is there twice")), "{error}");
        }
        assert!(parsed(r#"{"a":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}}"#).is_err());
        assert!(parsed("{} {}").is_err() && parsed("{").is_err());
    }

    #[test]
    fn tensors_have_the_bytes_of_their_shapes_and_leave_no_gap() {
        for entry in [
            r#""dtype":"BF16","shape":[2],"data_offsets":[0,3]"#,
            r#""dtype":"BF16","shape":[2],"data_offsets":[2,6]"#,
            r#""dtype":"BF16","shape":[2],"data_offsets":[4,0]"#,
            r#""dtype":"F4","shape":[3],"data_offsets":[0,1]"#,
            r#""dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]"#,
            r#""dtype":"ZIPWIRE","shape":[0],"data_offsets":[0,0]"#,
            r#""dtype":"I4","shape":[2],"data_offsets":[1,2]"#,
            r#""dtype":"I4","shape":[2],"data_offsets":[0,-1]"#,
        ] {
            assert!(parsed(&format!(r#"{{"a":{{{entry}}}}}"#)).is_err(), "{entry}");
        }
    }

    #[test]
    fn types_that_are_not_known_have_the_length_that_is_said() {
        let header = r#"{"a":{"dtype":"I4","shape":[3],"data_offsets":[0,2]},"b":{"dtype":"Q\n","shape":[],"data_offsets":[2,9]}}"#;
        let found = parsed(header).unwrap();
        let found: Vec<_> = found.tensors().iter().map(|tensor| (&*tensor.dtype, tensor.bytes())).collect();
        assert_eq!(found, [("I4", 2), ("Q\n", 7)]);
        assert_eq!(
            (bits("F4"), bits("F6_E2M3"), bits("C64"), bits("C128")),
            (Some(4), Some(6), Some(64), None)
        );
    }

    #[test]
    fn bytes_behind_the_values_are_a_tensor_of_a_free_name() {
        let entry = r#"{"dtype":"U8","shape":[4],"data_offsets":[0,4]}"#;
        let mut header = parsed(&format!(r#"{{"zipwire.trailing":{entry}}}"#)).unwrap();
        header.add_trailing(0).unwrap();
        assert_eq!((header.tensors().len(), header.trailing()), (1, 0));
        header.add_trailing(3).unwrap();
        assert_eq!(
            (header.trailing(), header.data_len(), header.number("_zipwire.trailing")),
            (3, 7, Some(1))
        );
        assert!(header.add_trailing(u64::MAX).is_err());
    }

    #[test]
    fn a_header_that_was_written_is_read() {
        let tensor = |name: &str, range: Range<u64>| TensorInfo {
            name: name.to_owned(),
            dtype: "U8".to_owned(),
            shape: vec![(range.end - range.start) as usize],
            range,
        };
        for tensors in [vec![], vec![tensor("a \"b\"", 0..3), tensor("\u{1}", 3..3)]] {
            assert_eq!(Header::parse(written(&tensors)).unwrap().tensors(), tensors);
        }
    }
}
