//! Compression of whole files: safetensors, and of zip archives the members that were stored as they are.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use zipwire_codec::{DType, Spec};

use crate::file::archive::{Member, members};
use crate::file::bases::Bases;
use crate::file::digest::{Digest, PIECE, pieces};
use crate::file::encode::{Input, write_parts};
use crate::file::foreign::{self, Foreign};
use crate::file::header::{self, Header, HeaderError, LENGTH_BYTES, LIMIT, TensorInfo};
use crate::file::layout::{self, Archive, own_bytes, write_index};
use crate::file::output::{Output, Sources};
use crate::file::plan::{BETWEEN, Codecs, Coding, LEAST_BYTES, Part, plan, shortest};
use crate::file::{FileError, Stamp, Watch, at, v1};

/// How files are compressed.
#[derive(Clone, Debug)]
pub struct Compression {
    /// The codec of all tensors whose type it knows.
    pub spec: Spec,
    /// Whether a file that is there already is replaced.
    pub force: bool,
    /// Whether bytes behind the last tensor of a safetensors file are kept; without, such a file is refused.
    pub keep_trailing: bool,
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
    /// Tensors that are coded as differences from a base.
    pub against: usize,
    /// Names of tensors that have no base because two of its files have them, which are as near as one another.
    pub ambiguous: Vec<String>,
    /// Digest of the file that was compressed.
    pub digest: String,
}

/// Compresses a safetensors file into one that other readers of safetensors refuse, and of which it comes back, bit for bit
/// ([`restore`](crate::file::restore)).
///
/// Each tensor is a container of frames ([`zipwire_codec::ContainerIndex`]) of 131072 values, so that any part of it can be read alone; small neighbours of one
/// type share a chunk, and what saves less than 2 % is kept as it is.
/// `bases` are files with earlier values of the same tensors, which the codec then takes differences from; those that have such are needed to read the result.
/// Memory is about 3 MiB for each thread, whatever the file has, and the header.
///
/// Zip archives, as PyTorch writes its `.pt`, `.bin` and `.distcp` files, and GGUF files are taken, too: each member or tensor that was stored as it is, has 4 KiB or more and is
/// worth it is such a tensor, of the type that codes a sample of it shortest. It has no base.
///
/// # Errors
/// If the input is no safetensors file and no archive, or one of the bases, is compressed already, or changes while it is read, the codec has no such values, the output is none ([`refuse_file`](crate::file::refuse_file)) or an input, the system
/// refuses something, or `watch` says to stop. Then there is no new file.
pub fn compress(
    input: &Path,
    output: &Path,
    compression: &Compression,
    bases: Option<&Bases>,
    watch: &Watch<'_>,
) -> Result<Compressed, FileError> {
    Sources::of(input, bases)?.refuse_file(output)?;
    let staged = Output::like(output, compression.force, input)?;
    let made = compress_into(input, &staged, compression, bases, watch)?;
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
    bases: Option<&Bases>,
    watch: &Watch<'_>,
) -> Result<Compressed, FileError> {
    refuse_own_base(input, bases)?;
    let file = crate::file::open_input(input).map_err(FileError::io("read", input))?;
    let stamp = Stamp::of(&file, input)?;
    let read = if compression.keep_trailing { Header::read_with_trailing } else { Header::read };
    let header = match read(&file) {
        Ok(header) => header,
        Err(HeaderError::Compressed) => return Err(FileError::Compressed { path: input.to_owned() }),
        Err(source) => {
            return match Foreign::of(&file) {
                Some(format) if format.has_parts() => {
                    compress_archive((&file, input), format, output, compression, bases, watch)
                }
                Some(foreign) => Err(foreign.refused(input)),
                None => Err(FileError::Header { path: input.to_owned(), source }),
            };
        }
    };
    if v1::Note::of(&header, input)?.is_some() {
        return Err(FileError::Compressed { path: input.to_owned() });
    }
    if let Some(foreign) = foreign::of_notes(header.notes()) {
        return Err(foreign.refused(input));
    }
    let codecs = Codecs::new(&compression.spec, bases)?;
    let values_at = header.bytes().len() as u64;
    let parts = plan((&file, input), header.tensors(), values_at, &codecs, watch)?;
    let ambiguous = bases.map_or_else(Vec::new, |bases| {
        let names = header.tensors().iter().map(|tensor| &tensor.name);
        names.filter(|name| bases.is_ambiguous(name)).cloned().collect()
    });
    let bases = codecs.bases_of(&parts, header.tensors());
    let outline = Outline { header, archive: None, bases, parts, codecs };
    let made = outline.write((&file, input, stamp), output, watch)?;
    Ok(Compressed { ambiguous, ..made })
}

/// Refuses differences of a file from itself, by whichever name or link: without it, they give nothing back.
fn refuse_own_base(input: &Path, bases: Option<&Bases>) -> Result<(), FileError> {
    let mut sources = Sources::default();
    sources.add_bases(bases)?;
    if sources.has(input) { Err(FileError::OwnBase { path: input.to_owned() }) } else { Ok(()) }
}

/// Compresses an archive: members that compress well become coded tensors, and the bytes between them are kept.
fn compress_archive(
    (file, input): (&File, &Path),
    format: Foreign,
    output: &Output,
    compression: &Compression,
    bases: Option<&Bases>,
    watch: &Watch<'_>,
) -> Result<Compressed, FileError> {
    if bases.is_some() {
        return Err(FileError::ArchiveBase { path: input.to_owned() });
    }
    let stamp = Stamp::of(file, input)?;
    let codecs = Codecs::new(&compression.spec, None)?;
    let members = members(file, input, format)?;
    let (tensors, parts) = archive_parts((file, input), members, stamp.bytes(), &codecs, watch)?;
    let bytes = header::written(&tensors);
    if bytes.len() as u64 > LENGTH_BYTES + LIMIT {
        let (path, bytes) = (input.to_owned(), bytes.len() as u64);
        return Err(FileError::TooManyMembers { path, bytes, limit: LIMIT });
    }
    let unread = |error: HeaderError| FileError::Archive {
        path: input.to_owned(),
        what: format.name(),
        reason: error.to_string(),
    };
    let header = Header::parse(bytes).map_err(unread)?;
    let outline = Outline { header, archive: Some(Archive::Zip), bases: Bases::default(), parts, codecs };
    outline.write((file, input, stamp), output, watch)
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
    let stamp = Stamp::of(&file, input)?;
    let codecs = Codecs::new(&compression.spec, None)?;
    let bytes = stamp.bytes();
    let all = TensorInfo { name: String::new(), dtype: String::new(), shape: Vec::new(), range: 0..bytes };
    let tensors = [all];
    let ways = codecs.ways_of_values(Some(dtype));
    let shortest = shortest((&file, input), &tensors, 0, &ways, &codecs)?;
    let coding = shortest.map_or(Coding::plain(dtype), |(_, coding)| coding);
    let parts = [Part { tensors: 0..1, coding: Some(coding) }];
    let input_of =
        Input { file: &file, path: input, tensors: &tensors, parts: &parts, values_at: 0, codecs: &codecs };
    let kept = write_parts(input_of, (output.file(), output.path()), 0, watch)?;
    stamp.check(&file, input)?;
    let digest = Digest::of(kept.digests).text();
    let (bytes_coded, ambiguous) = (kept.end, Vec::new());
    Ok(Compressed { bytes_raw: bytes, bytes_coded, tensors: (1, 0), against: 0, ambiguous, digest })
}

/// Plan of a compressed file: the header of the original, or one that is made for an archive, and the parts.
struct Outline<'a> {
    header: Header,
    archive: Option<Archive>,
    /// Files that parts are differences from.
    bases: Bases,
    parts: Vec<Part>,
    codecs: Codecs<'a>,
}

impl Outline<'_> {
    fn write(
        &self,
        (file, path, stamp): (&File, &Path, Stamp),
        output: &Output,
        watch: &Watch<'_>,
    ) -> Result<Compressed, FileError> {
        let Self { header, archive, parts, codecs, .. } = self;
        let (own, tensors) = (own_bytes(header, *archive), header.tensors());
        let write = FileError::io("write", output.path());
        let index = write_index(header.bytes(), &Part::runs(parts)).map_err(&write)?;
        let mut digests: Vec<u64> = own.chunks(PIECE as usize).map(Digest::of_piece).collect();
        let containers = parts.iter().filter(|part| part.coding.is_some()).count() as u64;
        let count: u64 = tensors.iter().map(|tensor| pieces(tensor.bytes())).sum();
        let bytes_raw = own.len() as u64 + header.data_len();
        let base = self.bases.digests()?;
        let plan = layout::Plan {
            notes: header.notes(),
            bytes: bytes_raw,
            base: base.as_deref(),
            trailing: header.trailing(),
            archive: *archive,
            index: &index,
            counts: (containers, digests.len() as u64 + count),
        };
        (watch.done)(own.len() as u64);
        let input = Input { file, path, tensors, parts, values_at: own.len() as u64, codecs };
        let kept = write_parts(input, (output.file(), output.path()), plan.values_at(), watch)?;
        digests.extend(kept.digests);
        at::write_all(output.file(), &plan.written(&kept.containers, &digests, kept.end), 0)
            .map_err(&write)?;
        stamp.check(file, path)?;
        self.bases.unchanged()?;
        let count = |of: fn(&Part) -> bool| {
            parts.iter().filter(|part| of(part)).map(|part| part.tensors.len()).sum::<usize>()
        };
        let coded = count(|part| part.coding.is_some());
        Ok(Compressed {
            bytes_raw,
            bytes_coded: kept.end,
            tensors: (coded, tensors.len() - coded),
            against: count(Part::is_against),
            ambiguous: Vec::new(),
            digest: Digest::of(digests).text(),
        })
    }
}

/// Part of the bytes of values that their bytes by themselves must take, so that a member is coded by these.
const MUCH_LESS: f64 = 0.75;

/// Cuts an archive of `bytes` bytes into parts: members that are worth coding, and the bytes between them. Each is a tensor.
/// Only members that were stored as they are get coded, one by one.
fn archive_parts(
    (file, path): (&File, &Path),
    members: Vec<Member>,
    bytes: u64,
    codecs: &Codecs<'_>,
    watch: &Watch<'_>,
) -> Result<(Vec<TensorInfo>, Vec<Part>), FileError> {
    let (mut tensors, mut parts) = (Vec::new(), Vec::new());
    // What was looked at, and where the last coded member ends.
    let (mut seen, mut end, mut names) = (0, 0, HashSet::new());
    let mut copies: HashMap<String, u64> = HashMap::new();
    let mut add = |name: Option<String>, range: Range<u64>, coding: Option<Coding>| {
        let number = tensors.len();
        let name = name.unwrap_or_else(|| format!("{BETWEEN}{number}"));
        let len = (range.end - range.start) as usize;
        if len == 0 {
            return;
        }
        let (dtype, width) = coding.map_or(("U8", 1), |coding| (coding.dtype_name(), coding.dtype().width()));
        tensors.push(TensorInfo { name, dtype: dtype.to_owned(), shape: vec![len / width], range });
        parts.push(Part { tensors: number..number + 1, coding });
    };
    for Member { mut name, range, dtype } in members {
        watch.go_on()?;
        // Two that overlap are no archive that a program wrote: the second one is then only bytes.
        if range.start < seen || range.end - range.start < LEAST_BYTES {
            continue;
        }
        seen = range.end;
        let Some(coding) = choose_for_member((file, path), &range, dtype, codecs)? else { continue };
        add(None, end..range.start, None);
        if name.starts_with(BETWEEN) || name == "__metadata__" {
            name.insert(0, '_');
        }
        while !names.insert(name.clone()) {
            let copy = copies.entry(name.clone()).or_default();
            *copy += 1;
            name = format!("{name}.{copy}");
        }
        // What is no whole value at its end is kept behind it.
        end = range.start
            + (range.end - range.start) / coding.dtype().width() as u64 * coding.dtype().width() as u64;
        add(Some(name), range.start..end, Some(coding));
    }
    add(None, end..bytes, None);
    Ok((tensors, parts))
}

/// How a member is coded: by the type and codec that make its sample shortest, or as bytes if that saves yet more; `None` if nothing is worth it.
fn choose_for_member(
    (file, path): (&File, &Path),
    range: &Range<u64>,
    dtype: Option<DType>,
    codecs: &Codecs<'_>,
) -> Result<Option<Coding>, FileError> {
    let member =
        [TensorInfo { name: String::new(), dtype: String::new(), shape: Vec::new(), range: range.clone() }];
    let best = |ways: &[Coding]| shortest((file, path), &member, 0, ways, codecs);
    let typed = best(&codecs.ways_of_values(dtype))?;
    if dtype.is_some() && typed.is_some() {
        return Ok(typed.map(|(_, coding)| coding));
    }
    // Readers of the result want the type: it is given up where bytes take much less, as those of integers do.
    let most = typed.map_or(1.0, |(share, _)| MUCH_LESS * share);
    let bytes = best(&Codecs::ways_of_bytes())?.filter(|(share, _)| *share < most);
    Ok(bytes.or(typed).map(|(_, coding)| coding))
}
