//! Parts of files that are no safetensors: members of zip archives, as `torch.save` and NumPy write them, also of several archives one behind
//! another, as torch.distributed.checkpoint does; tensors of GGUF files.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::path::Path;

use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive};
use zipwire_codec::{Codec, DType, Layout, Spec};

use crate::file::foreign::Foreign;
use crate::file::{FileError, LEAST_SAVING, at};

/// Successive bytes of a file that have a name.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) range: Range<u64>,
    /// Type of its values, if the file says it.
    pub(crate) dtype: Option<DType>,
}

/// Parts whose bytes are in the file as they are, in the order of their places.
///
/// # Errors
/// If the file cannot be read, or is cut or damaged.
pub(crate) fn members(file: &File, path: &Path, format: Foreign) -> Result<Vec<Member>, FileError> {
    let read = FileError::io("read", path);
    let len = file.metadata().map_err(&read)?.len();
    let found = match format {
        Foreign::Gguf => gguf(file, len),
        _ => zipped(file, len),
    };
    let mut members = found.map_err(|error| match error.raw_os_error() {
        Some(_) => read(error),
        None => FileError::Archive { path: path.to_owned(), what: format.name(), reason: error.to_string() },
    })?;
    members.sort_by_key(|member| member.range.start);
    Ok(members)
}

/// Bytes of a sample that tells types apart.
const SAMPLE: u64 = 128 << 10;

/// The type whose values the bytes of a member are most likely, by what is shortest of a sample in the middle; none if none saves anything.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn type_of_values(file: &File, range: &Range<u64>) -> io::Result<Option<DType>> {
    /// Values of all types begin at multiples of it.
    const WIDEST: u64 = 8;
    let len = SAMPLE.min(range.end - range.start) / WIDEST * WIDEST;
    let at = range.start + (range.end - range.start - len) / 2 / WIDEST * WIDEST;
    let mut sample = vec![0; len as usize];
    at::read_exact(file, &mut sample, at)?;
    let codec = "rans".parse::<Spec>().expect("it is a codec").codec();
    let coded =
        |dtype: DType| Some((codec.encode_to_vec(Layout::Compact, dtype, &sample).ok()?.len(), dtype));
    let shortest = DType::ALL.into_iter().filter_map(coded).min_by_key(|(coded, _)| *coded);
    Ok(shortest
        .filter(|(coded, _)| (*coded as f64) < (1.0 - LEAST_SAVING) * len as f64)
        .map(|(_, dtype)| dtype))
}

fn damaged(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// Members that were stored as they are of all archives. Where there are several, names begin with the number of the archive.
fn zipped(file: &File, len: u64) -> io::Result<Vec<Member>> {
    let archives = archives(file, len)?;
    let mut members = Vec::new();
    for (number, place) in archives.iter().enumerate() {
        let window = at::Window::new(file, place.start, place.end - place.start);
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let unfit = |error: zip::result::ZipError| match error {
            zip::result::ZipError::Io(error) if error.raw_os_error().is_some() => error,
            error => damaged(error.to_string()),
        };
        let mut archive = ZipArchive::with_config(config, BufReader::new(window)).map_err(unfit)?;
        for index in 0..archive.len() {
            let member = archive.by_index_raw(index).map_err(unfit)?;
            let (Some(start), len) = (member.data_start(), member.compressed_size()) else { continue };
            let is_plain = member.compression() == CompressionMethod::Stored && !member.encrypted();
            let end = start.checked_add(len).and_then(|end| end.checked_add(place.start));
            let Some(end) = end.filter(|end| *end <= place.end && is_plain) else { continue };
            let name = match archives.len() {
                1 => member.name().to_owned(),
                _ => format!("{number}/{}", member.name()),
            };
            members.push(Member { name, range: place.start + start..end, dtype: None });
        }
    }
    Ok(members)
}

/// Whether a file ends as a zip archive does, whatever is in front of it.
pub(crate) fn ends_with_archive(file: &File, len: u64) -> bool {
    matches!(last_archive(file, len), Ok(Some(_)))
}

/// Places of all archives, which end where the file ends and follow one another without gaps. What is in front of them is none.
fn archives(file: &File, len: u64) -> io::Result<Vec<Range<u64>>> {
    let mut archives = Vec::new();
    let mut end = len;
    while end > 0 {
        match last_archive(file, end)? {
            Some(start) => archives.push(start..end),
            None if archives.is_empty() => return Err(damaged("it does not end with a directory")),
            None => break,
        }
        end = archives.last().map_or(0, |last| last.start);
    }
    archives.reverse();
    Ok(archives)
}

/// Where the archive begins that ends at `end`; `None` if there is none.
fn last_archive(file: &File, end: u64) -> io::Result<Option<u64>> {
    /// Bytes of an end record without its comment, which has 65 535 bytes at the most.
    const RECORD: usize = 22;
    const LOCATOR_64: usize = 20;
    const RECORD_64: usize = 56;
    let back = (RECORD + usize::from(u16::MAX) + LOCATOR_64 + RECORD_64) as u64;
    let from = end.saturating_sub(back);
    let mut tail = vec![0; (end - from) as usize];
    at::read_exact(file, &mut tail, from)?;
    let number = |at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&tail[at..at + bytes]);
        u64::from_le_bytes(number)
    };
    let is_record = |&at: &usize| {
        tail[at..].starts_with(b"PK\x05\x06") && at + RECORD + number(at + 20, 2) as usize == tail.len()
    };
    let Some(record) = (0..(tail.len() + 1).saturating_sub(RECORD)).rev().find(is_record) else {
        return Ok(None);
    };
    // Another record, of wider numbers, may be in front of it.
    let wide = record.checked_sub(LOCATOR_64 + RECORD_64).filter(|&at| {
        tail[at..].starts_with(b"PK\x06\x06") && tail[record - LOCATOR_64..].starts_with(b"PK\x06\x07")
    });
    let (directory_end, size, offset) = match wide {
        Some(at) => (at, number(at + 40, 8), number(at + 48, 8)),
        None => (record, number(record + 12, 4), number(record + 16, 4)),
    };
    let start = (from + directory_end as u64).checked_sub(size).and_then(|at| at.checked_sub(offset));
    Ok(start.filter(|start| *start < end))
}

/// Tensors of a GGUF file whose types codecs know; blocks of quantised values are not among them.
/// Layout: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.
fn gguf(file: &File, len: u64) -> io::Result<Vec<Member>> {
    let mut header = Gguf { file: BufReader::new(at::Window::new(file, 0, len)), position: 0, len };
    header.skip(4)?;
    let version = header.number::<4>()?;
    if !(2..=3).contains(&version) {
        return Err(damaged(format!("version {version} of the format is not known")));
    }
    let (tensor_count, key_count) = (header.number::<8>()?, header.number::<8>()?);
    let mut align = 32;
    for _ in 0..key_count {
        let key = header.text()?;
        let kind = header.number::<4>()?;
        if key == "general.alignment" && kind == 4 {
            align = header.number::<4>()?.max(1);
        } else {
            header.skip_value(kind)?;
        }
    }
    let mut tensors = Vec::new();
    for _ in 0..tensor_count {
        let name = header.text()?;
        let dimensions = header.number::<4>()?;
        let mut values = 1_u64;
        for _ in 0..dimensions {
            values =
                values.checked_mul(header.number::<8>()?).ok_or_else(|| damaged("a tensor is too large"))?;
        }
        let (kind, offset) = (header.number::<4>()?, header.number::<8>()?);
        let dtype = match kind {
            0 => DType::F32,
            1 => DType::F16,
            30 => DType::Bf16,
            _ => continue,
        };
        tensors.push((name, dtype, offset, values));
    }
    let base = header.position.next_multiple_of(align);
    let place = |(name, dtype, offset, values): (String, DType, u64, u64)| {
        let start = base.checked_add(offset)?;
        let end = start.checked_add(values.checked_mul(dtype.width() as u64)?)?;
        (end <= len).then_some(Member { name, range: start..end, dtype: Some(dtype) })
    };
    let placed: Option<Vec<Member>> = tensors.into_iter().map(place).collect();
    placed.ok_or_else(|| damaged("a tensor reaches beyond its end"))
}

struct Gguf<'a> {
    file: BufReader<at::Window<'a>>,
    position: u64,
    len: u64,
}

impl Gguf<'_> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map_err(|_| damaged("its header does not end"))?;
        self.position += N as u64;
        Ok(bytes)
    }

    fn number<const N: usize>(&mut self) -> io::Result<u64> {
        let bytes: [u8; N] = self.take()?;
        let mut number = [0; 8];
        number[..N].copy_from_slice(&bytes);
        Ok(u64::from_le_bytes(number))
    }

    /// Bytes that are left must be at least so many.
    fn within(&self, bytes: u64) -> io::Result<u64> {
        let left = self.len - self.position;
        (bytes <= left).then_some(bytes).ok_or_else(|| damaged("its header does not end"))
    }

    fn text(&mut self) -> io::Result<String> {
        let len = self.number::<8>()?;
        let mut text = at::buffer(self.within(len)?)?;
        text.resize(len as usize, 0);
        self.file.read_exact(&mut text).map_err(|_| damaged("its header does not end"))?;
        self.position += len;
        String::from_utf8(text).map_err(|_| damaged("a name in it is no text"))
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let bytes = self.within(bytes)?;
        self.file.seek_relative(bytes.try_into().map_err(|_| damaged("it is too long"))?)?;
        self.position += bytes;
        Ok(())
    }

    /// Passes over a value of metadata.
    fn skip_value(&mut self, kind: u64) -> io::Result<()> {
        const TEXT: u64 = 8;
        const ARRAY: u64 = 9;
        match kind {
            TEXT => {
                let len = self.number::<8>()?;
                self.skip(len)
            }
            ARRAY => {
                let (kind, count) = (self.number::<4>()?, self.number::<8>()?);
                match kind {
                    ARRAY => Err(damaged("an array of arrays is in its header")),
                    TEXT => (0..self.within(count)?).try_for_each(|_| self.skip_value(TEXT)),
                    _ => self.skip(width(kind)?.checked_mul(count).ok_or_else(|| damaged("it is too long"))?),
                }
            }
            _ => self.skip(width(kind)?),
        }
    }
}

/// Bytes of a number of metadata.
fn width(kind: u64) -> io::Result<u64> {
    match kind {
        0 | 1 | 7 => Ok(1),
        2 | 3 => Ok(2),
        4..=6 => Ok(4),
        10..=12 => Ok(8),
        _ => Err(damaged(format!("type {kind} of metadata is not known"))),
    }
}
