//! Errors of files: each names the file, the place and the remedy.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use zipwire_codec::{ContainerError, DecodeError, EncodeError, SpecError};

use crate::file::bases::is_several;
use crate::file::container::in_tensor;
use crate::file::foreign::Foreign;
use crate::file::header::HeaderError;

/// Why a file is not compressed, restored or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum FileError {
    #[error("cannot {} `{}`: {source}", .action, path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is there already\nhelp: `--force` replaces it", path.display())]
    Exists { path: PathBuf },
    #[error("`{}` is there already\nhelp: `--force` puts files into it, replaces those of the same names, and touches nothing else", path.display())]
    FolderExists { path: PathBuf },
    /// Something else than a file where a file would be, or than a folder where a folder would be.
    #[error("`{}` is {found}, and no {wanted} replaces it\nhelp: name another output", path.display())]
    Kind { path: PathBuf, found: &'static str, wanted: &'static str },
    #[error("`{}` would replace what it is made from, an input or a base, or be in it\nhelp: name another output", path.display())]
    Same { path: PathBuf },
    #[error("`{}` and `{}` would both be `{}`\nhelp: move or rename one of them, or give each an output of its own", first.display(), second.display(), output.display())]
    OneOutput { first: PathBuf, second: PathBuf, output: PathBuf },
    #[error("`{}` is in the store `{}`, where only `zipwire store` writes\nhelp: name an output that is in no store", path.display(), store.display())]
    InStore { path: PathBuf, store: PathBuf },
    #[error("`-` is no name of an output here\nhelp: `./-` names a file that is called so")]
    Dash,
    #[error("`{}` is not read as safetensors: {source}\nhelp: {}", path.display(), help_for_header(source))]
    Header { path: PathBuf, source: HeaderError },
    /// A file of another format, which is not read, or not before it is compressed.
    #[error("`{}` is {}\nhelp: {}", path.display(), format.name(), format.help(path))]
    Foreign { path: PathBuf, format: Foreign },
    /// It begins or ends as a file of another format, and goes on otherwise.
    #[error("`{}` is not read as {what}: {reason}\nhelp: it was cut or damaged: fetch it again", path.display())]
    Archive { path: PathBuf, what: &'static str, reason: String },
    #[error("`{}` is an archive, and differences from a base are coded of safetensors only\nhelp: leave the base out, or store the checkpoint as safetensors", path.display())]
    ArchiveBase { path: PathBuf },
    #[error("`{}` is compressed already", path.display())]
    Compressed { path: PathBuf },
    #[error("`{}` is not compressed by zipwire", path.display())]
    NotCompressed { path: PathBuf },
    #[error("`{}` has version {found} of the format, and this program reads version {known}\nhelp: {}", path.display(), help_for_version(*found, *known))]
    Version { path: PathBuf, found: u64, known: u64 },
    #[error("`{}` is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    /// A chunk of a tensor is not what was written.
    #[error("`{}` is damaged: {}{source}", path.display(), in_tensor(tensor))]
    Tensor { path: PathBuf, tensor: String, source: Box<ContainerError> },
    /// The container of a tensor is not one, or that of other values.
    #[error("`{}` is damaged: {}{what}", path.display(), in_tensor(tensor))]
    Container { path: PathBuf, tensor: String, what: String },
    /// A piece of a tensor is not what was compressed.
    #[error("`{}` is damaged: {}bytes {} to {} have another digest than what was compressed", path.display(), in_tensor(tensor), range.start, range.end)]
    Digest { path: PathBuf, tensor: String, range: Range<u64> },
    /// Somebody else writes to an input.
    #[error("`{}` has changed while it was read\nhelp: once nothing writes to it, try again", path.display())]
    Changed { path: PathBuf },
    #[error("names and places of the members of `{}` take {bytes} bytes, and {limit} are the most\nhelp: an archive of fewer members is compressed", path.display())]
    TooManyMembers { path: PathBuf, bytes: u64, limit: u64 },
    #[error("`{}` has no tensor `{tensor}`{}", path.display(), listed(nearest))]
    NoTensor { path: PathBuf, tensor: String, nearest: Vec<String> },
    #[error("tensor `{tensor}` of `{}` has {rows} rows, so there are no rows {} to {}", path.display(), .asked.0, .asked.1)]
    Rows {
        path: PathBuf,
        tensor: String,
        /// First row and the one behind the last.
        asked: (u64, u64),
        rows: u64,
    },
    /// Values of fewer bits than a byte, of which a row ends within one.
    #[error("the {rows} rows of tensor `{tensor}` of `{}` take {bytes} bytes, so one of them is no whole bytes\nhelp: without a range, all values are read", path.display())]
    PartOfByte { path: PathBuf, tensor: String, bytes: u64, rows: u64 },
    #[error("`{}` has differences from {}\nhelp: {}", path.display(), bases(digest), help_for_bases(digest))]
    NoBase { path: PathBuf, digest: String },
    /// No file of several that it may have differences from is the one that it needs.
    #[error("`{}` has differences from a file of the digest {needed}, and no file of the base has that digest\nhelp: name the folder or file that it was made with by `--base`", path.display())]
    NoSuchBase { path: PathBuf, needed: String },
    /// Differences of a file from itself, which are worth nothing without it.
    #[error("`{}` is its own base, so that the result would give nothing back without it\nhelp: name by `--base` what it was made of, as the checkpoint before", path.display())]
    OwnBase { path: PathBuf },
    /// Two files of a base that have a tensor of the name that is looked for.
    #[error("`{}` and `{}` are of one base, and both have a tensor `{tensor}`\nhelp: take one of them out of the folder, or name a single file by `--base FILE`", first.display(), second.display())]
    TwoTensors { tensor: String, first: PathBuf, second: PathBuf },
    #[error("`{}` has differences from a file of the digest {needed}, and `{}` has the digest {found}", path.display(), base.display())]
    WrongBase { path: PathBuf, base: PathBuf, needed: String, found: String },
    /// A codec that does not code differences, or has nothing to take them from.
    #[error("codec `{spec}`: {source}")]
    Delta { spec: String, source: SpecError },
    #[error("cannot encode `{}`: {source}", path.display())]
    Encode { path: PathBuf, source: EncodeError },
    #[error("`{}` is damaged: {}chunk {chunk}: {source}", path.display(), in_tensor(tensor))]
    Decode {
        path: PathBuf,
        tensor: String,
        /// Which chunk of it.
        chunk: usize,
        source: DecodeError,
    },
    /// Somebody asked to stop. Nothing is left behind.
    #[error("stopped")]
    Cancelled,
}

impl FileError {
    /// Names the file and what was tried.
    pub fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path: path.clone(), source }
    }

    /// The error without the names of the file and of the tensor.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Decode { chunk, source, .. } => format!("chunk {chunk}: {source}"),
            Self::Tensor { source, .. } => source.to_string(),
            Self::Digest { range, .. } => {
                format!("bytes {} to {} have another digest than what was compressed", range.start, range.end)
            }
            Self::Damaged { what, .. } | Self::Container { what, .. } => what.clone(),
            Self::Io { source, .. } => format!("it cannot be read: {source}"),
            error => error.to_string(),
        }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}

/// Advice for a file of format version `found`, where `known` is the one that is read.
pub fn help_for_version(found: u64, known: u64) -> &'static str {
    match found > known {
        true => "a later zipwire wrote it: update this one",
        false => "no release wrote that version: make it anew from the original",
    }
}

/// The files of these digests, as far as a line has room.
fn bases(digests: &str) -> String {
    if !is_several(digests) {
        return format!("a file of the digest {digests}");
    }
    format!("files of the digests {}", digests.split('+').collect::<Vec<_>>().join(", "))
}

fn help_for_bases(digests: &str) -> &'static str {
    match is_several(digests) {
        true => "name their folder by `--base DIR`",
        false => "name that file by `--base FILE`",
    }
}

fn help_for_header(error: &HeaderError) -> &'static str {
    match error {
        HeaderError::Io(_) => "it has to be a file that can be read",
        HeaderError::WrongLength { found, needed } if found < needed => "it was cut: fetch it again",
        HeaderError::WrongLength { .. } => {
            "something was appended to it; `--keep-trailing` of `compress` and `store add` keeps that, too"
        }
        HeaderError::Compressed => "restore it by `zipwire decompress`",
        HeaderError::Invalid { .. } => "raw values of one type are compressed with `--dtype TYPE`",
    }
}

fn listed(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return String::new();
    }
    let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    format!("\nhelp: it has {}", names.join(", "))
}
