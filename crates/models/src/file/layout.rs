//! Layout of a compressed file, of version 2: a header that readers of safetensors refuse, behind it the *front*, which says all of the original but
//! its values, and then the values, part by part.
//!
//! All lengths of the front follow from the original's header and from how its tensors are kept, so it stands in front of the values though
//! lengths of containers and digests are known last of all: a file that was cut still says what its beginning is.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::file::digest::{Digest, PIECE, pieces};
use crate::file::header::{COMPRESSED, Header, HeaderError, LENGTH_BYTES, LIMIT, TensorInfo};
use crate::file::part::{Part, span};
use crate::file::{FileError, at, buffer};

/// Key of the metadata with what is said of the file as a whole.
pub(crate) const KEY: &str = "zipwire";

/// The version that is written. Files of this one and of version 1 are read, others are refused.
pub const FORMAT_VERSION: u64 = 2;

/// Bytes of the index at the most before it is coded: the longest header, and what is said of its tensors, which takes less.
const MOST_INDEX: u64 = 2 * LIMIT;
/// Bytes of the original's metadata at the most, as JSON, that the header of the compressed file shows, too.
const MOST_SHOWN: usize = 4096;
/// Level of zstd for the index.
const LEVEL: i32 = 3;

/// How the file that was compressed comes back, but for its tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) version: u64,
    /// Bytes of the file that was compressed.
    pub(crate) bytes: u64,
    /// [`Digest`] of it.
    pub(crate) digest: String,
    /// Digests of the files that tensors are differences from, with `+` between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<String>,
    /// Bytes of the original behind its values, which its header does not say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) trailing: u64,
    /// Format of the original, if it was no safetensors file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) archive: Option<Archive>,
    /// Bytes of the index, which is the beginning of the front.
    pub(crate) index_bytes: u64,
    /// Bytes of the front.
    pub(crate) front_bytes: u64,
    /// XXH3-64 of the front, 16 hexadecimal digits.
    pub(crate) front_digest: String,
}

/// Files that are no safetensors and have parts all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Archive {
    /// A zip archive, as PyTorch writes it.
    Zip,
}

/// The header of a compressed file, as JSON has it.
#[derive(Deserialize)]
struct Outer {
    zipwire: Contents,
    #[serde(rename = "__metadata__")]
    metadata: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Contents {
    data_offsets: (u64, u64),
}

/// Digests of all pieces of a file, in their order: those of its header, and then those of each tensor.
#[derive(Debug)]
pub(crate) struct Digests {
    pieces: Vec<u64>,
    /// Number of the first piece of each tensor.
    firsts: Vec<u64>,
}

impl Digests {
    /// The hash of a piece of a tensor.
    pub(crate) fn of_piece(&self, tensor: usize, piece: u64) -> u64 {
        self.pieces[(self.firsts[tensor] + piece) as usize]
    }
}

/// Whether a file may end before it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It has the length that it says.
    Whole,
    /// It may be shorter.
    Cut,
}

impl Ending {
    /// Compares the length of a file with the one that it should have.
    pub(crate) fn check(self, path: &Path, found: u64, needed: u64) -> Result<(), FileError> {
        if found == needed || self == Self::Cut && found < needed {
            return Ok(());
        }
        let source = HeaderError::WrongLength { found, needed };
        Err(FileError::Header { path: path.to_owned(), source })
    }
}

/// All that a compressed file says of the original.
pub(crate) struct Front {
    pub(crate) note: Note,
    pub(crate) header: Header,
    pub(crate) parts: Vec<Part>,
    pub(crate) digests: Digests,
}

/// Bytes in front of the values that belong to the original: none of an archive, whose header is made for it.
pub(crate) fn own_bytes(header: &Header, archive: Option<Archive>) -> &[u8] {
    if archive.is_some() { &[] } else { header.bytes() }
}

impl Front {
    /// Reads the front of a file of `found` bytes that begins with `outer`, its header.
    ///
    /// # Errors
    /// If it is damaged, is of a later version, has another length than it says, or the system refuses something.
    pub(crate) fn read(
        (file, path): (&File, &Path),
        outer: &[u8],
        found: u64,
        ending: Ending,
    ) -> Result<Self, FileError> {
        let damaged = |what: String| FileError::damaged(path, what);
        let unread = |error: serde_json::Error| damaged(format!("its header: {error}"));
        let Outer { zipwire, metadata } =
            serde_json::from_slice(&outer[LENGTH_BYTES as usize..]).map_err(unread)?;
        let note = Note::parse(metadata.get(KEY).map_or("", String::as_str), path)?;
        let begin = outer.len() as u64;
        let needed = begin.saturating_add(zipwire.data_offsets.1);
        ending.check(path, found, needed)?;
        if note.index_bytes > note.front_bytes || note.front_bytes > found - begin {
            return Err(damaged(format!("it has no {} bytes in front of its values", note.front_bytes)));
        }
        let read = FileError::io("read", path);
        let mut front = buffer(note.front_bytes).map_err(&read)?;
        front.resize(note.front_bytes as usize, 0);
        at::read_exact(file, &mut front, begin).map_err(&read)?;
        if note.front_digest != digest_of(&front) {
            return Err(damaged("what it says of its tensors has another digest".to_owned()));
        }
        let (index, tables) = front.split_at(note.index_bytes as usize);
        let (header, runs) =
            read_index(index, note.trailing).map_err(|error| damaged(format!("its index: {error}")))?;
        let values = (begin + note.front_bytes, needed);
        let (parts, digests) = read_tables(&note, &header, &runs, tables, values).map_err(damaged)?;
        Ok(Self { note, header, parts, digests })
    }
}

impl Note {
    fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u64,
        }
        let unread = |error| FileError::damaged(path, format!("metadata `{KEY}`: {error}"));
        let Versioned { version: found } = serde_json::from_str(text).map_err(unread)?;
        if found != FORMAT_VERSION {
            return Err(FileError::Version { path: path.to_owned(), found, known: FORMAT_VERSION });
        }
        serde_json::from_str(text).map_err(unread)
    }
}

fn digest_of(front: &[u8]) -> String {
    format!("{:016x}", xxh3_64(front))
}

/// Successive tensors, and whether they are in a container.
pub(crate) type Run = (Range<usize>, bool);

/// Codes the index: the header, and the number of tensors of each part, twice, with one more for those in a container.
pub(crate) fn write_index(header: &[u8], runs: &[Run]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), LEVEL)?;
    encoder.write_all(header)?;
    for (tensors, is_coded) in runs {
        let mut number = (tensors.len() as u64) << 1 | u64::from(*is_coded);
        // Seven bits of it in a byte, the lowest ones first; the highest bit is set but in the last byte.
        while number >= 1 << 7 {
            encoder.write_all(&[number as u8 | 1 << 7])?;
            number >>= 7;
        }
        encoder.write_all(&[number as u8])?;
    }
    encoder.finish()
}

fn read_index(index: &[u8], trailing: u64) -> Result<(Header, Vec<Run>), String> {
    let mut raw = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(index).map_err(|error| error.to_string())?;
    decoder.take(MOST_INDEX + 1).read_to_end(&mut raw).map_err(|error| error.to_string())?;
    let length = raw.first_chunk().map(|length| u64::from_le_bytes(*length).saturating_add(LENGTH_BYTES));
    let end = length.filter(|end| *end <= raw.len() as u64 && raw.len() as u64 <= MOST_INDEX);
    let rest = raw.split_off(end.ok_or("it has not the length that it says")? as usize);
    if raw.len() as u64 > LENGTH_BYTES + LIMIT {
        return Err(format!("its header has {} bytes, and {LIMIT} are the most", raw.len()));
    }
    let mut header = Header::parse(raw).map_err(|error| error.to_string())?;
    header.add_trailing(trailing)?;
    let (mut runs, mut begin) = (Vec::new(), 0);
    let mut bytes = rest.into_iter();
    while !bytes.as_slice().is_empty() {
        let (mut number, mut shift) = (0_u64, 0);
        loop {
            let byte = bytes.next().filter(|_| shift < 63).ok_or("a number in it has no end")?;
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 1 << 7 {
                break;
            }
        }
        let most = (header.tensors().len() - begin) as u64;
        let count = Some(number >> 1).filter(|count| (1..=most).contains(count));
        let end = begin + count.ok_or("it has other tensors than its header")? as usize;
        runs.push((begin..end, number & 1 == 1));
        begin = end;
    }
    if begin != header.tensors().len() {
        return Err("it has fewer tensors than its header".to_owned());
    }
    Ok((header, runs))
}

/// Reads lengths of containers and digests, and places the parts between `start` and `end`.
fn read_tables(
    note: &Note,
    header: &Header,
    runs: &[Run],
    tables: &[u8],
    (start, end): (u64, u64),
) -> Result<(Vec<Part>, Digests), String> {
    let tensors = header.tensors();
    let own = own_bytes(header, note.archive);
    if header.data_len().checked_add(own.len() as u64) != Some(note.bytes) {
        return Err(format!("its parts have not the {} bytes of the whole", note.bytes));
    }
    let mut words = tables.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    let (mut parts, mut at) = (Vec::with_capacity(runs.len()), start);
    for (range, is_coded) in runs {
        let span = span(&tensors[range.clone()]);
        let bytes = span.end - span.start;
        if *is_coded && range.len() > 1 && bytes > PIECE {
            return Err(format!("{} tensors are in one container of {bytes} bytes", range.len()));
        }
        let container = if *is_coded { Some(words.next().ok_or("its tables are too short")?) } else { None };
        parts.push(Part::new(range.clone(), at, container));
        let next = at.checked_add(container.unwrap_or(bytes)).filter(|at| *at <= end);
        at = next.ok_or_else(|| format!("tensor `{}` is not within it", tensors[range.start].name))?;
    }
    let (firsts, count) = firsts(own, tensors);
    let digests: Vec<u64> = words.collect();
    if at != end || digests.len() as u64 != count || !tables.len().is_multiple_of(8) {
        return Err("its parts have other lengths than it says".to_owned());
    }
    if !own.chunks(PIECE as usize).map(Digest::of_piece).zip(&digests).all(|(found, needed)| found == *needed)
    {
        return Err("its header has another digest".to_owned());
    }
    if Digest::of(digests.iter().copied()).text() != note.digest {
        return Err("digests of its pieces have not the digest of the whole".to_owned());
    }
    Ok((parts, Digests { pieces: digests, firsts }))
}

/// Number of the first piece of each tensor, and how many there are of all.
fn firsts(own: &[u8], tensors: &[TensorInfo]) -> (Vec<u64>, u64) {
    let mut next = (own.len() as u64).div_ceil(PIECE);
    let firsts = tensors.iter().map(|tensor| {
        let first = next;
        next += pieces(tensor.bytes());
        first
    });
    (firsts.collect(), next)
}

/// Sizes of what is in front of the values of a file that is to be written, and then its bytes.
pub(crate) struct Plan<'a> {
    /// Metadata of the original.
    pub(crate) notes: &'a HashMap<String, String>,
    pub(crate) bytes: u64,
    pub(crate) base: Option<&'a str>,
    /// Bytes of the original behind its values.
    pub(crate) trailing: u64,
    pub(crate) archive: Option<Archive>,
    pub(crate) index: &'a [u8],
    /// Number of containers, and of pieces that have digests.
    pub(crate) counts: (u64, u64),
}

impl Plan<'_> {
    fn front_bytes(&self) -> u64 {
        self.index.len() as u64 + 8 * (self.counts.0 + self.counts.1)
    }

    /// Offset of the values in the file.
    pub(crate) fn values_at(&self) -> u64 {
        LENGTH_BYTES + self.room() + self.front_bytes()
    }

    /// Bytes of the header, of which numbers that are not known yet may take as many as they can.
    fn room(&self) -> u64 {
        self.header("", &"0".repeat(32), u64::MAX).len().next_multiple_of(8) as u64
    }

    /// All bytes in front of the values, which end at `end`.
    pub(crate) fn written(&self, lens: &[u64], digests: &[u64], end: u64) -> Vec<u8> {
        assert_eq!((lens.len() as u64, digests.len() as u64), self.counts, "as many as there is room for");
        let mut front = self.index.to_vec();
        lens.iter().chain(digests).for_each(|word| front.extend(word.to_le_bytes()));
        let room = self.room();
        let digest = Digest::of(digests.iter().copied()).text();
        let header = self.header(&digest_of(&front), &digest, end - LENGTH_BYTES - room);
        let spaces = " ".repeat(room as usize - header.len());
        [&room.to_le_bytes(), header.as_bytes(), spaces.as_bytes(), &front].concat()
    }

    /// The JSON of the header.
    fn header(&self, front_digest: &str, digest: &str, len: u64) -> String {
        let note = Note {
            version: FORMAT_VERSION,
            bytes: self.bytes,
            digest: digest.to_owned(),
            base: self.base.map(str::to_owned),
            trailing: self.trailing,
            archive: self.archive,
            index_bytes: self.index.len() as u64,
            front_bytes: self.front_bytes(),
            front_digest: format!("{front_digest:0>16}"),
        };
        let mut metadata: BTreeMap<&str, &str> = BTreeMap::new();
        metadata.extend(self.notes.iter().map(|(key, text)| (key.as_str(), text.as_str())));
        metadata.remove(KEY);
        if json(&metadata).len() > MOST_SHOWN {
            metadata.clear();
        }
        let note = json(&note);
        metadata.insert(KEY, &note);
        let metadata = json(&metadata);
        format!(r#"{COMPRESSED}"shape":[{len}],"data_offsets":[0,{len}]}},"__metadata__":{metadata}}}"#)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it has text and numbers")
}
