//! Files of ZipNN (`.znn`), as its version 0.5.4 writes them, which are read and not written. `docs/format.md` has their layout.
//!
//! A file is a record, or as many as streaming has made. A record has a header of 32 bytes and chunks of values; each chunk is cut into groups
//! of bytes, one for each byte of a value, and a group is Huffman codes or is stored.

mod bits;
mod fse;
mod huffman;

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::file::output::Output;
use crate::file::{FileError, Watch, at, open_input};

/// What a file begins with.
const MAGIC: [u8; 2] = *b"ZN";
/// Bytes in front of each record.
const HEADER: usize = 32;
/// Bytes that a group with Huffman codes has at the most: what huff0 codes at once.
const MAX_CODED: usize = 128 << 10;

/// A `.znn` file.
#[derive(Debug)]
pub struct Znn {
    path: PathBuf,
    file: File,
    records: Vec<Record>,
}

/// A record: chunks of values of one type.
#[derive(Debug)]
struct Record {
    /// Where its values go.
    to: u64,
    /// Bytes of its values.
    len: u64,
    chunk_len: u64,
    /// Bytes of a value, one group each.
    groups: usize,
    /// Whether the sign of values lies below their exponent.
    is_turned: bool,
    /// Of each group the chunks.
    pieces: Vec<Piece>,
}

/// A group of a chunk.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: u64,
    len: u64,
    is_coded: bool,
}

/// Whether a file begins as one of ZipNN does.
pub(crate) fn begins_as_znn(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    at::read_exact(file, &mut magic, 0).is_ok() && magic == MAGIC
}

impl Znn {
    /// Opens a file and reads where everything is; `None` if it begins as no such file does.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or was written by options of ZipNN that are not read here ([`FileError::Znn`]).
    pub fn open(path: &Path) -> Result<Option<Self>, FileError> {
        let read = FileError::io("read", path);
        let file = open_input(path).map_err(&read)?;
        let len = file.metadata().map_err(&read)?.len();
        if len < HEADER as u64 || !begins_as_znn(&file) {
            return Ok(None);
        }
        let mut header = [0; HEADER];
        at::read_exact(&file, &mut header, 0).map_err(&read)?;
        let (mut records, mut begin, mut to) = (Vec::new(), 0, 0_u64);
        loop {
            let damaged =
                |what: &str| FileError::damaged(path, format!("the record at byte {begin}: {what}"));
            let whole = number(&header[24..]);
            let end = u64::checked_add(begin, whole).filter(|end| *end <= len && whole >= HEADER as u64);
            let end = end.ok_or_else(|| damaged("it is longer than the file, or shorter than its header"))?;
            let record = Record::read((&file, path), &header, (begin, end), to)?;
            let is_streamed = header[13] > 127;
            to = to.checked_add(record.len).ok_or_else(|| damaged("more bytes than a file can have"))?;
            records.push(record);
            if end == len {
                return Ok(Some(Self { path: path.to_owned(), file, records }));
            }
            begin = end;
            if !is_streamed || len - begin < HEADER as u64 {
                return Err(FileError::damaged(
                    path,
                    format!("there is more behind its end at byte {begin}"),
                ));
            }
            at::read_exact(&file, &mut header, begin).map_err(&read)?;
            if header[..2] != MAGIC {
                return Err(FileError::damaged(path, format!("at byte {begin} no record begins")));
            }
        }
    }

    /// Bytes of what was compressed.
    pub fn bytes(&self) -> u64 {
        self.records.iter().map(|record| record.len).sum()
    }

    /// Writes what was compressed, byte for byte. There is no checksum in these files: damage that gives other values of the same length is not
    /// noticed.
    ///
    /// # Errors
    /// If the file is damaged, there is an output already, the system refuses something, or `watch` says to stop. Then there is no new file.
    pub fn restore(&self, output: &Path, force: bool, watch: &Watch<'_>) -> Result<(), FileError> {
        let staged = Output::begin(output, force)?;
        self.decode_all(watch, |values, at| {
            at::write_all(staged.file(), values, at).map_err(FileError::io("write", output))
        })?;
        staged.finish()
    }

    /// Decodes all of it. That is all that can be compared, without a checksum.
    ///
    /// # Errors
    /// If the file is damaged or cannot be read.
    pub fn verify(&self, watch: &Watch<'_>) -> Result<(), FileError> {
        self.decode_all(watch, |_, _| Ok(()))
    }

    /// Gives the values of all chunks, and where each begins.
    fn decode_all(
        &self,
        watch: &Watch<'_>,
        take: impl Fn(&[u8], u64) -> Result<(), FileError> + Sync,
    ) -> Result<(), FileError> {
        let mut firsts = vec![0];
        firsts.extend(self.records.iter().scan(0, |sum, record| {
            *sum += record.chunks();
            Some(*sum)
        }));
        watch.for_each(firsts[self.records.len()], |number, values| {
            let index = firsts.partition_point(|first| *first <= number) - 1;
            let (record, chunk) = (&self.records[index], number - firsts[index]);
            self.decode(record, chunk, values)?;
            take(values, record.to + chunk as u64 * record.chunk_len)?;
            (watch.done)(values.len() as u64);
            Ok(())
        })
    }

    /// Decodes a chunk.
    fn decode(&self, record: &Record, chunk: usize, values: &mut Vec<u8>) -> Result<(), FileError> {
        let groups = record.groups;
        values.clear();
        values.resize(record.len_of(chunk) as usize, 0);
        let (mut kept, mut group) = (Vec::new(), Vec::new());
        for number in 0..groups {
            let piece = record.pieces[number * record.chunks() + chunk];
            kept.resize(piece.len as usize, 0);
            at::read_exact(&self.file, &mut kept, piece.at).map_err(FileError::io("read", &self.path))?;
            group.clear();
            group.resize((values.len() + groups - 1 - number) / groups, 0);
            let is_sound = match piece.is_coded {
                true => huffman::decode(&kept, &mut group),
                false => kept.len() == group.len(),
            };
            if !is_sound {
                let what = format!(
                    "chunk {chunk} of the record of byte {}: group {number} is not what ZipNN writes",
                    record.to
                );
                return Err(FileError::damaged(&self.path, what));
            }
            let from = if piece.is_coded { &group } else { &kept };
            for (value, byte) in values.iter_mut().skip(number).step_by(groups).zip(from) {
                *value = *byte;
            }
        }
        if record.is_turned {
            turn_back(values, groups);
        }
        Ok(())
    }
}

impl Record {
    /// Reads where the groups of a record are, which begins and ends there.
    fn read(
        (file, path): (&File, &Path),
        header: &[u8; HEADER],
        (begin, end): (u64, u64),
        to: u64,
    ) -> Result<Self, FileError> {
        let damaged = |what: String| FileError::damaged(path, format!("the record at byte {begin}: {what}"));
        let unknown = |what: String| FileError::Znn { path: path.to_owned(), what };
        if header[9] != 0 {
            return Err(unknown("differences from another file".to_owned()));
        }
        if header[10] > 0 {
            return Err(unknown("values that were rounded".to_owned()));
        }
        if header[8] != 1 {
            return Err(unknown("an array of NumPy or PyTorch in place of a file".to_owned()));
        }
        // The types of ZipNN, by number: FP32 twice, FP16 twice, BF16 and both of FP8.
        let (groups, order) = match header[15] {
            1 | 2 => (4, 220),
            4..=6 => (2, 10),
            29 | 30 => (1, 10),
            other => return Err(unknown(format!("values of its type {other}"))),
        };
        if header[5] != order || header[6] > 1 {
            return Err(unknown(format!("the order {} of bytes and {} of bits", header[5], header[6])));
        }
        if header[7] > 1 {
            return Err(unknown(format!("the method {}", method(header[7]))));
        }
        let chunk_len = 1_u64.checked_shl(header[14].into()).filter(|len| *len >= groups as u64);
        let chunk_len = chunk_len.ok_or_else(|| damaged(format!("chunks of 2^{} bytes", header[14])))?;
        // A group alone is coded in blocks that huff0 takes.
        let chunk_len = if groups == 1 { chunk_len.min(MAX_CODED as u64) } else { chunk_len };
        let len = number(&header[16..]);
        let chunks = len.div_ceil(chunk_len);
        let tables = begin + HEADER as u64;
        // A byte says how a group is kept, and eight say where it ends.
        let values_at = chunks.checked_mul(9 * groups as u64).and_then(|bytes| bytes.checked_add(tables));
        let values_at = values_at.filter(|at| *at <= end);
        let values_at = values_at.ok_or_else(|| damaged(format!("it has no room for {chunks} chunks")))?;
        let mut table = vec![0; (values_at - tables) as usize];
        at::read_exact(file, &mut table, tables).map_err(FileError::io("read", path))?;
        let (kinds, ends) = table.split_at(chunks as usize * groups);
        let mut pieces = Vec::with_capacity(kinds.len());
        let (mut group_at, mut before) = (values_at, 0);
        for (place, (kind, bytes)) in kinds.iter().zip(ends.chunks_exact(8)).enumerate() {
            if place > 0 && place % chunks as usize == 0 {
                (group_at, before) = (group_at + before, 0);
            }
            let piece_end = number(bytes);
            let is_within = piece_end >= before && piece_end <= end - group_at;
            if *kind > 1 || !is_within {
                return Err(damaged(format!(
                    "group {} of chunk {} has no place",
                    place / chunks as usize,
                    place % chunks as usize
                )));
            }
            pieces.push(Piece { at: group_at + before, len: piece_end - before, is_coded: *kind == 1 });
            before = piece_end;
        }
        if group_at + before != end {
            return Err(damaged("its groups end elsewhere than it does".to_owned()));
        }
        let record = Self { to, len, chunk_len, groups, is_turned: header[6] == 1 && groups > 1, pieces };
        // So no memory is taken that the file does not earn.
        for chunk in 0..record.chunks() {
            for group in 0..groups {
                let len = (record.len_of(chunk) + (groups - 1 - group) as u64) / groups as u64;
                let piece = record.pieces[group * record.chunks() + chunk];
                let is_fit = if piece.is_coded {
                    piece.len <= len && len <= MAX_CODED as u64
                } else {
                    piece.len == len
                };
                if !is_fit {
                    return Err(damaged(format!(
                        "group {group} of chunk {chunk} has {} bytes for {len}",
                        piece.len
                    )));
                }
            }
        }
        Ok(record)
    }

    fn chunks(&self) -> usize {
        self.len.div_ceil(self.chunk_len) as usize
    }

    /// Bytes of a chunk.
    fn len_of(&self, chunk: usize) -> u64 {
        self.chunk_len.min(self.len - chunk as u64 * self.chunk_len)
    }
}

/// Eight bytes as a number.
fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

fn method(number: u8) -> String {
    match number {
        2 => "zstd".to_owned(),
        3 => "LZ4".to_owned(),
        4 => "Snappy".to_owned(),
        other => other.to_string(),
    }
}

/// Puts signs in front of exponents again: in words of four bytes, so what is behind the last whole one was never turned.
fn turn_back(values: &mut [u8], groups: usize) {
    let (sign, exponent, mantissa) = match groups {
        2 => (0x8000_8000, 0x7f80_7f80, 0x007f_007f),
        _ => (0x8000_0000, 0x7f80_0000, 0x007f_ffff),
    };
    for word in values.as_chunks_mut::<4>().0 {
        let turned = u32::from_le_bytes(*word);
        *word = ((turned << 8 & sign) | (turned >> 1 & exponent) | (turned & mantissa)).to_le_bytes();
    }
}
