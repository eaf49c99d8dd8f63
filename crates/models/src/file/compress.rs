//! Compression of whole files: safetensors, and of zip archives the members that were stored as they are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value, json};
use zipwire_codec::{DType, Spec};

use crate::file::archive::{Member, members};
use crate::file::encode::{Kept, write_parts};
use crate::file::foreign::Foreign;
use crate::file::header::Header;
use crate::file::model::Model;
use crate::file::note::{Archive, FORMAT_VERSION, KEY, Note, PartNote};
use crate::file::output::{Output, Sources};
use crate::file::plan::{
    BETWEEN, Codecs, Coding, How, LEAST_BYTES, Part, choose, for_bytes, share_of_sample,
};
use crate::file::{FileError, Watch, at};

/// The tensor with the header of the file that was compressed, unless one is called so.
const HEADER: &str = "zipwire.header";

/// How files are compressed.
#[derive(Clone, Debug)]
pub struct Compression {
    /// The codec of all tensors whose type it knows.
    pub spec: Spec,
    /// Whether a file that is there already is replaced.
    pub force: bool,
}

/// Sizes and digest of a file that was compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// Bytes before.
    pub bytes_raw: u64,
    /// Bytes after, with everything.
    pub bytes_coded: u64,
    /// Tensors that were coded, and those that are kept as they are.
    pub tensors: (usize, usize),
    /// Digest of the file that was compressed.
    pub digest: String,
}

/// Compresses a safetensors file into one that any reader of safetensors opens: tensors that were coded are `U8` in it, the others are as
/// they were, and the key `zipwire` of its metadata says how the file comes back, bit for bit ([`restore`](crate::file::restore)).
///
/// Each tensor is a container of frames ([`zipwire_codec::ContainerIndex`]) of 131072 values, so that any part of it can be read alone.
/// `base` is a file with earlier values of the same tensors, which the codec then takes differences from; it is needed to read the result.
/// Memory is about 3 MiB for each thread, whatever the file has, and the headers.
///
/// Zip archives, as PyTorch writes its `.pt`, `.bin` and `.distcp` files, and GGUF files are taken, too: each member or tensor that was stored as it is, has 4 KiB or more and is
/// worth it is such a tensor, of the type that codes a sample of it shortest. It has no base.
///
/// # Errors
/// If the input is no safetensors file and no archive, or is compressed already, the codec has no such values, the output is none ([`refuse_file`](crate::file::refuse_file)) or an input, the system
/// refuses something, or `watch` says to stop. Then there is no new file.
pub fn compress(
    input: &Path,
    output: &Path,
    compression: &Compression,
    base: Option<&Model>,
    watch: &Watch<'_>,
) -> Result<Compressed, FileError> {
    Sources::of(input, base)?.refuse_file(output)?;
    let staged = Output::like(output, compression.force, input)?;
    let made = compress_into(input, &staged, compression, base, watch)?;
    staged.finish()?;
    Ok(made)
}

/// [`compress`] into a file that its caller puts in its place, perhaps after a look at it.
///
/// # Errors
/// Errors of [`compress`] but those of places.
pub fn compress_into(
    input: &Path,
    output: &Output,
    compression: &Compression,
    base: Option<&Model>,
    watch: &Watch<'_>,
) -> Result<Compressed, FileError> {
    let file = crate::file::open_input(input).map_err(FileError::io("read", input))?;
    let header = match Header::read(&file) {
        Ok(header) => header,
        Err(source) => {
            return match Foreign::of(&file) {
                Some(format) if format.has_parts() => {
                    compress_archive((&file, input), format, output, compression, base, watch)
                }
                Some(foreign) => Err(foreign.refused(input)),
                None => Err(FileError::Header { path: input.to_owned(), source }),
            };
        }
    };
    if Note::of(&header, input)?.is_some() {
        return Err(FileError::Compressed { path: input.to_owned() });
    }
    let values_at = header.bytes().len() as u64;
    let codecs = Codecs::new(&compression.spec, base)?;
    // Read once, as frames name it; all of it, if it is not compressed.
    let base_digest = base.map(Model::digest).transpose()?;
    let tensors = header.tensors();
    let names: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut header_name = HEADER.to_owned();
    while names.contains(header_name.as_str()) {
        header_name.push('_');
    }
    let mut parts = vec![Part { tensor: header_name, at: 0, bytes: values_at, how: How::Bytes }];
    for tensor in &tensors {
        if (watch.cancelled)() {
            return Err(FileError::Cancelled);
        }
        let at = values_at + tensor.range.start;
        let how = choose((&file, input), tensor, at, &codecs)?;
        parts.push(Part { tensor: tensor.name.clone(), at, bytes: tensor.bytes(), how });
    }
    let outline = Outline { notes: header.notes(), archive: None, base: base_digest, parts };
    let kept = outline.write((&file, input), base, output, watch)?;
    let coded = outline.coded();
    Ok(Compressed {
        bytes_raw: outline.bytes(),
        bytes_coded: kept.end,
        tensors: (coded, tensors.len() - coded),
        digest: kept.digest,
    })
}

/// Compresses an archive into a safetensors file: members that compress well become coded tensors, and the bytes between them are kept.
fn compress_archive(
    (file, input): (&File, &Path),
    format: Foreign,
    output: &Output,
    compression: &Compression,
    base: Option<&Model>,
    watch: &Watch<'_>,
) -> Result<Compressed, FileError> {
    if base.is_some() {
        return Err(FileError::ArchiveBase { path: input.to_owned() });
    }
    let bytes = file.metadata().map_err(FileError::io("read", input))?.len();
    let members = members(file, input, format)?;
    let parts = archive_parts((file, input), members, bytes, &Codecs::new(&compression.spec, None)?, watch)?;
    let none = Header::none();
    let outline = Outline { notes: none.notes(), archive: Some(Archive::Zip), base: None, parts };
    let kept = outline.write((file, input), None, output, watch)?;
    let coded = outline.coded();
    Ok(Compressed {
        bytes_raw: bytes,
        bytes_coded: kept.end,
        tensors: (coded, outline.parts.len() - coded),
        digest: kept.digest,
    })
}

/// Compresses a file of values of one type into a container, as [`zipwire_codec::Writer`] writes them; bytes at the end that are no whole
/// value are kept, too.
///
/// # Errors
/// Like [`compress`], without the errors of safetensors.
pub fn compress_values(
    input: &Path,
    output: &Path,
    dtype: DType,
    compression: &Compression,
    watch: &Watch<'_>,
) -> Result<Compressed, FileError> {
    Sources::of(input, None)?.refuse_file(output)?;
    let staged = Output::like(output, compression.force, input)?;
    let made = compress_values_into(input, &staged, dtype, compression, watch)?;
    staged.finish()?;
    Ok(made)
}

/// [`compress_values`] into a file that its caller puts in its place.
///
/// # Errors
/// Errors of [`compress_values`] but those of places.
pub fn compress_values_into(
    input: &Path,
    output: &Output,
    dtype: DType,
    compression: &Compression,
    watch: &Watch<'_>,
) -> Result<Compressed, FileError> {
    let file = crate::file::open_input(input).map_err(FileError::io("read", input))?;
    let bytes = file.metadata().map_err(FileError::io("read", input))?.len();
    let coding = Coding { spec: Codecs::new(&compression.spec, None)?.plain, dtype, base: None };
    let parts = [Part { tensor: String::new(), at: 0, bytes, how: How::Coded(coding) }];
    let kept = write_parts((&file, input), &parts, None, (output.file(), output.path()), 0, watch)?;
    // Nothing is behind a container.
    let end = kept.parts[0].container.unwrap_or(0);
    output.file().set_len(end).map_err(FileError::io("write", output.path()))?;
    Ok(Compressed { bytes_raw: bytes, bytes_coded: end, tensors: (1, 0), digest: kept.digest })
}

/// Plan of a compressed file: its parts, and the metadata that its header carries.
struct Outline<'a> {
    /// Metadata (`__metadata__`) of the file that is compressed.
    notes: &'a HashMap<String, String>,
    archive: Option<Archive>,
    base: Option<&'a str>,
    parts: Vec<Part>,
}

impl Outline<'_> {
    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    fn coded(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part.how, How::Coded(_))).count()
    }

    fn write(
        &self,
        input: (&File, &Path),
        base: Option<&Model>,
        output: &Output,
        watch: &Watch<'_>,
    ) -> Result<Kept, FileError> {
        // The header is in front of what it counts, so it gets the room that it may need at the most, and spaces for the rest.
        let room = self.header(None).len().next_multiple_of(8) as u64;
        let target = (output.file(), output.path());
        let kept = write_parts(input, &self.parts, base, target, 8 + room, watch)?;
        let mut text = self.header(Some(&kept));
        text.push_str(&" ".repeat(room as usize - text.len()));
        let front = [&room.to_le_bytes(), text.as_bytes()].concat();
        at::write_all(output.file(), &front, 0).map_err(FileError::io("write", output.path()))?;
        Ok(kept)
    }

    /// The header of the compressed file: before it is known what was kept, with all numbers as long as they can be.
    fn header(&self, kept: Option<&Kept>) -> String {
        let mut metadata: BTreeMap<&str, String> =
            self.notes.iter().map(|(key, text)| (key.as_str(), text.clone())).collect();
        let note = Note {
            version: FORMAT_VERSION,
            bytes: self.bytes(),
            digest: kept.map_or_else(|| "0".repeat(32), |kept| kept.digest.clone()),
            base: self
                .base
                .filter(|_| self.parts.iter().any(|part| takes_base(&part.how)))
                .map(str::to_owned),
            archive: self.archive,
            parts: (0..).zip(&self.parts).map(|(number, part)| self.note_of(number, part, kept)).collect(),
        };
        metadata.insert(KEY, serde_json::to_string(&note).expect("it has text and numbers"));
        let mut entries = Map::new();
        entries.insert("__metadata__".to_owned(), json!(metadata));
        let most: u64 = self.parts.iter().map(Part::bound).sum();
        let mut start = 0;
        for (number, part) in self.parts.iter().enumerate() {
            let len = kept.map_or(part.bound(), |kept| kept.parts[number].len);
            let (dtype, shape) = match &part.how {
                How::Stored { dtype, shape } => (dtype.as_str(), json!(shape)),
                How::Bytes | How::Coded(_) => ("U8", json!([len])),
            };
            let offsets = if kept.is_some() { [start, start + len] } else { [most; 2] };
            entries.insert(
                part.tensor.clone(),
                json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets }),
            );
            start += len;
        }
        Value::Object(entries).to_string()
    }

    fn note_of(&self, number: usize, part: &Part, kept: Option<&Kept>) -> PartNote {
        let coding = match &part.how {
            How::Coded(coding) => Some(coding),
            How::Stored { .. } | How::Bytes => None,
        };
        PartNote {
            tensor: part.tensor.clone(),
            bytes: part.bytes,
            container: coding.and_then(|_| match kept {
                Some(kept) => kept.parts[number].container,
                None => Some(part.bound()),
            }),
            // A safetensors file says itself of what type its tensors are.
            dtype: self.archive.and(coding).map(|coding| coding.dtype_name().to_owned()),
        }
    }
}

fn takes_base(how: &How) -> bool {
    matches!(how, How::Coded(coding) if coding.base.is_some())
}

/// Types that values of a member may have. A sample says which: the one that codes it shortest.
const TYPES: [DType; 5] = DType::ALL;

/// Cuts an archive of `bytes` bytes into parts: members that are worth coding, and the bytes between them.
/// Only members that were stored as they are get coded, one by one.
fn archive_parts(
    (file, path): (&File, &Path),
    members: Vec<Member>,
    bytes: u64,
    codecs: &Codecs<'_>,
    watch: &Watch<'_>,
) -> Result<Vec<Part>, FileError> {
    let mut parts: Vec<Part> = Vec::new();
    let (mut end, mut names) = (0, HashSet::new());
    let between = |parts: &mut Vec<Part>, range: Range<u64>| {
        if !range.is_empty() {
            let tensor = format!("{BETWEEN}{}", parts.len());
            parts.push(Part { tensor, at: range.start, bytes: range.end - range.start, how: How::Bytes });
        }
    };
    for Member { name, range, dtype } in members {
        if (watch.cancelled)() {
            return Err(FileError::Cancelled);
        }
        // Two that overlap are no archive that a program wrote: the second one is then only bytes.
        if range.start < end || range.end - range.start < LEAST_BYTES {
            continue;
        }
        let Some(coding) = choose_for_member((file, path), &range, dtype, codecs)? else { continue };
        between(&mut parts, end..range.start);
        let mut tensor = name;
        while tensor.starts_with(BETWEEN) || !names.insert(tensor.clone()) {
            tensor.insert(0, '_');
        }
        // What is no whole value at its end is kept behind it.
        let bytes = (range.end - range.start) / coding.dtype.width() as u64 * coding.dtype.width() as u64;
        parts.push(Part { tensor, at: range.start, bytes, how: How::Coded(coding) });
        end = range.start + bytes;
    }
    between(&mut parts, end..bytes);
    Ok(parts)
}

/// How a member is coded: by the type that makes its sample shortest, as bytes if that is shorter; `None` if none is worth it.
fn choose_for_member(
    (file, path): (&File, &Path),
    range: &Range<u64>,
    dtype: Option<DType>,
    codecs: &Codecs<'_>,
) -> Result<Option<Coding>, FileError> {
    let mut best: Option<(f64, Coding)> = None;
    let types = TYPES.into_iter().filter(|other| dtype.is_none_or(|dtype| dtype == *other));
    let plain = types.filter(|dtype| codecs.plain.codec().supports(*dtype));
    let codings = plain.map(|dtype| Coding { spec: codecs.plain.clone(), dtype, base: None });
    for coding in codings.chain([for_bytes()]) {
        let share = share_of_sample((file, path), range, &coding, None)?;
        if share.is_some_and(|share| best.as_ref().is_none_or(|(least, _)| share < *least)) {
            best = share.map(|share| (share, coding));
        }
    }
    Ok(best.map(|(_, coding)| coding))
}
