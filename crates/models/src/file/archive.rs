//! Zip archives, as PyTorch writes its `.pt` and `.bin` files and NumPy its `.npz`: members that were stored as they are get coded, one by one.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader};
use std::ops::Range;
use std::path::Path;

use zip::{CompressionMethod, ZipArchive};
use zipwire_codec::DType;

use crate::file::FileError;
use crate::file::plan::{BETWEEN, Codecs, Coding, How, LEAST_BYTES, Part, for_bytes, share_of_sample};
use crate::file::watch::Watch;

/// Types that values of a member may have. A sample says which: the one that codes it shortest.
const TYPES: [DType; 5] = DType::ALL;

/// Cuts an archive of `bytes` bytes into parts: members that are worth coding, and the bytes between them.
///
/// # Errors
/// If the file cannot be read, is no archive after all, or `watch` says to stop.
pub(crate) fn parts(
    (file, path): (&File, &Path),
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
    for (name, range) in members((file, path), bytes)? {
        if (watch.cancelled)() {
            return Err(FileError::Cancelled);
        }
        // Two that overlap are no archive that a program wrote: the second one is then only bytes.
        if range.start < end || range.end - range.start < LEAST_BYTES {
            continue;
        }
        let Some(coding) = choose((file, path), &range, codecs)? else { continue };
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

/// Names of members whose bytes are in the file as they are, and where, in the order of their places.
fn members((file, path): (&File, &Path), bytes: u64) -> Result<Vec<(String, Range<u64>)>, FileError> {
    let read = FileError::io("read", path);
    let unfit = |error: zip::result::ZipError| match error {
        zip::result::ZipError::Io(source) if source.kind() != io::ErrorKind::UnexpectedEof => read(source),
        error => FileError::Archive { path: path.to_owned(), reason: error.to_string() },
    };
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(unfit)?;
    let mut members = Vec::new();
    for number in 0..archive.len() {
        let member = archive.by_index_raw(number).map_err(unfit)?;
        let (Some(start), len) = (member.data_start(), member.compressed_size()) else { continue };
        let is_plain = member.compression() == CompressionMethod::Stored && !member.encrypted();
        let Some(end) = start.checked_add(len).filter(|end| *end <= bytes && is_plain) else { continue };
        members.push((member.name().to_owned(), start..end));
    }
    members.sort_by_key(|(_, range)| range.start);
    Ok(members)
}

/// How a member is coded: by the type that makes its sample shortest, as bytes if that is shorter; `None` if none is worth it.
fn choose(
    (file, path): (&File, &Path),
    range: &Range<u64>,
    codecs: &Codecs<'_>,
) -> Result<Option<Coding>, FileError> {
    let mut best: Option<(f64, Coding)> = None;
    let plain = TYPES.into_iter().filter(|dtype| codecs.plain.codec().supports(*dtype));
    let codings = plain.map(|dtype| Coding { spec: codecs.plain.clone(), dtype, base: None });
    for coding in codings.chain([for_bytes()]) {
        let share = share_of_sample((file, path), range, &coding, None)?;
        if share.is_some_and(|share| best.as_ref().is_none_or(|(least, _)| share < *least)) {
            best = share.map(|share| (share, coding));
        }
    }
    Ok(best.map(|(_, coding)| coding))
}
