//! Bytes of files: unpacked if they are gzip, looked at before they are read, and given in lines or numbers of bytes.

use std::io::{self, BufRead, BufReader, Chain, Cursor, ErrorKind, Read};

use flate2::read::MultiGzDecoder;

use crate::error::ProfileError;

/// First bytes of a gzip member.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Bytes that some editors put in front of text.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Bytes that are looked at to tell one kind of file from another.
const LOOKED_AT: u64 = 4096;

/// Time since 1970 that no call is after, in nanoseconds: in the year 2096.
pub(crate) const LATEST_NS: i64 = 4_000_000_000_000_000_000;

/// Time that no call takes, in nanoseconds: libraries give up earlier.
pub(crate) const LONGEST_NS: i64 = 2 * 3600 * 1_000_000_000;

/// Longest line that is held.
const LONGEST_LINE: u64 = 16 << 20;

/// Bytes of a file, and the first of them.
pub(crate) struct Source<'r> {
    pub(crate) kind: SourceKind,
    pub(crate) reader: Chain<Cursor<Vec<u8>>, Box<dyn Read + 'r>>,
}

impl<'r> Source<'r> {
    /// Looks at the first bytes of a file, behind gzip of any number of members.
    pub(crate) fn open(file: &str, mut reader: impl Read + 'r) -> Result<Self, ProfileError> {
        let failed = |source: io::Error| match source.kind() {
            // What gzip says of a file that ends too early.
            ErrorKind::UnexpectedEof => ProfileError::CutOff { file: file.to_owned(), records: 0 },
            _ => ProfileError::Read { file: file.to_owned(), source },
        };
        let mut first = Vec::new();
        reader.by_ref().take(2).read_to_end(&mut first).map_err(failed)?;
        let is_gzip = first == GZIP;
        let whole = Cursor::new(first).chain(reader);
        let mut unpacked: Box<dyn Read + 'r> =
            if is_gzip { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        let mut first = Vec::new();
        unpacked.by_ref().take(LOOKED_AT).read_to_end(&mut first).map_err(failed)?;
        if first.starts_with(&BYTE_ORDER_MARK) {
            first.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Self { kind: SourceKind::of(&first), reader: Cursor::new(first).chain(unpacked) })
    }

    /// Refuses a file that is known to be something else than `wanted`.
    pub(crate) fn refuse_foreign(
        &self,
        file: &str,
        wanted: &'static str,
        remedy: &'static str,
        own: &[SourceKind],
    ) -> Result<(), ProfileError> {
        if own.contains(&self.kind) {
            return Ok(());
        }
        let remedy = self.kind.command().map_or_else(
            || remedy.to_owned(),
            |command| format!("`zipwire import {command}` reads it; otherwise {remedy}"),
        );
        Err(ProfileError::NotThis { file: file.to_owned(), wanted, found: self.kind.found(), remedy })
    }
}

/// Kind of a file, after its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    Empty,
    Kineto,
    FlightPickle,
    FlightJson,
    Inspector,
    Shim,
    Profile,
    Database,
    Archive,
    Prometheus,
    /// Chakra's nodes, as its `jsonizer` prints them.
    ChakraJson,
    /// JSON that does not begin as any of these.
    Json,
    /// Text that is no JSON.
    Text,
    Binary,
}

impl SourceKind {
    fn of(first: &[u8]) -> Self {
        let text = String::from_utf8_lossy(first);
        let head = text.trim_start();
        let has = |key: &str| head.contains(&format!("\"{key}\""));
        match first {
            [] => Self::Empty,
            [0x80, 2..=5, ..] => Self::FlightPickle,
            [b'P', b'K', ..] => Self::Archive,
            _ if first.starts_with(b"SQLite format") => Self::Database,
            _ if head.starts_with(['{', '[']) => match () {
                () if has("zipwire_profile") => Self::Profile,
                () if has("zipwire_nccl") => Self::Shim,
                () if has("inspector_output_format_version") => Self::Inspector,
                () if ["traceEvents", "schemaVersion", "deviceProperties"].into_iter().any(has) => {
                    Self::Kineto
                }
                () if ["pg_config", "pg_status", "comm_lib_version", "nccl_version"].into_iter().any(has) => {
                    Self::FlightJson
                }
                () if ["durationMicros", "doubleVal", "stringVal", "int64Val", "ctrlDeps", "dataDeps"]
                    .into_iter()
                    .any(has) =>
                {
                    Self::ChakraJson
                }
                () => Self::Json,
            },
            _ if head.starts_with("# HELP") || head.starts_with("# TYPE") || head.starts_with("nccl_") => {
                Self::Prometheus
            }
            _ if first.iter().any(|byte| *byte < b'\t') => Self::Binary,
            _ => Self::Text,
        }
    }

    /// Says what it is, behind `it`.
    fn found(self) -> &'static str {
        match self {
            Self::Empty => "is empty",
            Self::Kineto => "is a trace of PyTorch's profiler",
            Self::FlightPickle => "is a pickle, as the Flight Recorder of PyTorch writes",
            Self::FlightJson => "is a dump of the Flight Recorder of PyTorch",
            Self::Inspector => "is a log of NCCL's Inspector",
            Self::Shim => "is a journal of `libzipwire_nccl.so`",
            Self::Profile => "is a profile that zipwire wrote",
            Self::Database => "is a database, as Nsight Systems exports",
            Self::Archive => "is a zip archive",
            Self::Prometheus => "is a text of metrics for Prometheus",
            Self::ChakraJson => "is an execution trace of Chakra that was printed as JSON",
            Self::Json => "is JSON of some other kind",
            Self::Text => "is text, and does not begin as JSON does",
            Self::Binary => "does not begin as JSON or a pickle does",
        }
    }

    /// The format of `zipwire import` that reads such files.
    fn command(self) -> Option<&'static str> {
        match self {
            Self::Kineto => Some("kineto"),
            Self::FlightPickle | Self::FlightJson => Some("flight"),
            Self::Inspector => Some("inspector"),
            Self::Shim => Some("shim"),
            _ => None,
        }
    }
}

/// Lines of a text, one after the other.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    number: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader: BufReader::new(reader), line: Vec::new(), number: 0 }
    }

    /// The line that was read last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the line that was read last ends as lines do: the last one of a file that is cut off does not.
    pub(crate) fn is_ended(&self) -> bool {
        self.line.ends_with(b"\n")
    }

    /// Reads the next line that is not blank; false at the end.
    pub(crate) fn advance(&mut self, file: &str) -> Result<bool, ProfileError> {
        loop {
            self.line.clear();
            let read = self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.line);
            self.number += 1;
            let line = self.number;
            match read {
                Ok(0) => return Ok(false),
                Ok(_) if self.line.len() as u64 == LONGEST_LINE => {
                    return Err(ProfileError::TooMany {
                        file: file.to_owned(),
                        line,
                        things: "one line is longer",
                    });
                }
                Ok(_) if self.line.trim_ascii().is_empty() => {}
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(ProfileError::CutLine { file: file.to_owned(), line });
                }
                Err(source) => return Err(ProfileError::Read { file: file.to_owned(), source }),
            }
        }
    }

    /// The line that was read last.
    pub(crate) fn line(&self) -> &[u8] {
        self.line.trim_ascii()
    }

    /// Error of a line that is no JSON, or not of the form that it should be: one that is cut off says so.
    pub(crate) fn broken(&self, file: &str, error: &serde_json::Error) -> ProfileError {
        let (file, line) = (file.to_owned(), self.number);
        if error.is_eof() && !self.is_ended() {
            return ProfileError::CutLine { file, line };
        }
        let (_, reason) = json_fault(line, error);
        ProfileError::Json { file, line, reason: format!("byte {}: {reason}", error.column()) }
    }
}

/// Reasons for which bytes cannot be read on.
#[derive(Debug)]
pub(crate) enum BytesError {
    Ended,
    Read(io::Error),
}

impl From<io::Error> for BytesError {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::UnexpectedEof { Self::Ended } else { Self::Read(error) }
    }
}

/// Bytes one after the other, with their place.
pub(crate) struct Bytes<R> {
    reader: BufReader<R>,
    at: u64,
}

impl<R: Read> Bytes<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader: BufReader::with_capacity(1 << 16, reader), at: 0 }
    }

    /// Bytes that were read.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Whether all were read.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, BytesError> {
        Ok(self.reader.fill_buf()?.is_empty())
    }

    pub(crate) fn byte(&mut self) -> Result<u8, BytesError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], BytesError> {
        let mut bytes = [0; COUNT];
        self.reader.read_exact(&mut bytes)?;
        self.at += COUNT as u64;
        Ok(bytes)
    }

    /// So many bytes: memory is taken as they come, whatever the number says.
    pub(crate) fn take(&mut self, count: u64) -> Result<Vec<u8>, BytesError> {
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(count).read_to_end(&mut bytes)? as u64;
        self.at += read;
        if read < count { Err(BytesError::Ended) } else { Ok(bytes) }
    }
}

/// Place and reason of an error in JSON that begins at a line of the file.
pub(crate) fn json_fault(begin: u64, error: &serde_json::Error) -> (u64, String) {
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
    (begin + (error.line() as u64).saturating_sub(1), reason)
}

/// Rank in the name of a file: a number behind `rank`, with at most one character between them.
pub(crate) fn rank_in_name(file: &str) -> Option<u32> {
    let name = file.rsplit(['/', '\\']).next()?.to_ascii_lowercase();
    let (_, rest) = name.rsplit_once("rank")?;
    let rest = rest.strip_prefix(['-', '_', '.', '=']).unwrap_or(rest);
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Number that the name of a file ends with, before the endings that say its kind: `nccl_trace_rank_3`, `job.3.et.gz`.
pub(crate) fn rank_at_end(file: &str) -> Option<u32> {
    let mut name = file.rsplit(['/', '\\']).next()?.to_ascii_lowercase();
    while let Some(end) = [".gz", ".json", ".jsonl", ".pickle", ".pkl", ".et", ".log", ".txt"]
        .iter()
        .find(|end| name.ends_with(*end))
    {
        name.truncate(name.len() - end.len());
    }
    let digits = name.rsplit(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_ranks() {
        for (name, rank) in [
            ("dumps/nccl_trace_rank_3", Some(3)),
            ("comm_lib_trace_rank_12", Some(12)),
            ("dumps/7.pickle", Some(7)),
            ("rank-3.json.gz", Some(3)),
            ("llama.10.et", Some(10)),
            ("gpt3_175b.0.et.gz", Some(0)),
            ("rank3/trace", None),
            ("trace.json", None),
            ("", None),
        ] {
            assert_eq!(rank_at_end(name), rank, "{name}");
        }
    }

    #[test]
    fn names_of_files_say_ranks() {
        for (name, rank) in [
            ("runs/rank-3.pt.trace.json.gz", Some(3)),
            ("rank12.json", Some(12)),
            ("host_rank_07.1716412523.pt.trace.json", Some(7)),
            ("rank0/trace.json", None),
            ("trace.json", None),
        ] {
            assert_eq!(rank_in_name(name), rank, "{name}");
        }
    }

    #[test]
    fn files_are_known_by_their_first_bytes() {
        for (first, kind) in [
            (&b""[..], SourceKind::Empty),
            (b"\x80\x02}q\0", SourceKind::FlightPickle),
            (b"\n {\"schemaVersion\": 1", SourceKind::Kineto),
            (b"{\"pg_config\": {}}", SourceKind::FlightJson),
            (b"{\"kind\":\"start\",\"zipwire_nccl\":1", SourceKind::Shim),
            (
                b"{\"header\":{},\"metadata\":{\"inspector_output_format_version\":\"v4.0\"",
                SourceKind::Inspector,
            ),
            (b"{\"a\": 1}", SourceKind::Json),
            (b"# nccl-tests", SourceKind::Text),
            (b"nccl_bus_bandwidth_gbs{", SourceKind::Prometheus),
            (b"\x0a\x03\x0a\x01\x00", SourceKind::Binary),
        ] {
            assert_eq!(SourceKind::of(first), kind, "{first:?}");
        }
    }

    #[test]
    fn memory_is_not_taken_for_bytes_that_do_not_come() {
        let mut bytes = Bytes::new(&b"abc"[..]);
        assert_eq!(bytes.byte().unwrap(), b'a');
        assert!(matches!(bytes.take(u64::MAX), Err(BytesError::Ended)));
        assert_eq!(bytes.at(), 3);
    }
}
