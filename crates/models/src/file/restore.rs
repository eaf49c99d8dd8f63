//! Restoration and verification of whole files, and of damaged ones what can be had of them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::file::digest::{Digest, PIECE};
use crate::file::foreign;
use crate::file::model::Model;
use crate::file::output::{Output, Sources};
use crate::file::part::Piece;
use crate::file::{FileError, Watch, at};

/// A tensor that is not what was compressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Its name; `None` for values without a header, and where no digest says which tensor it is, as in files of version 1.
    pub tensor: Option<String>,
    /// The bytes of its values that are damaged or not there, in order. None where it is not known which.
    pub ranges: Vec<Range<u64>>,
    /// The first error that was found in it.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tensor) = &self.tensor {
            write!(f, "tensor `{tensor}`: ")?;
        }
        f.write_str(&self.reason)?;
        let bytes: u64 = self.ranges.iter().map(|range| range.end - range.start).sum();
        if bytes > 0 { write!(f, " ({bytes} of its bytes)") } else { Ok(()) }
    }
}

/// Writes the file that was compressed into `model`, byte for byte, and compares it with its digests.
///
/// # Errors
/// If the file is not compressed, is damaged, the output is none ([`refuse_file`](crate::file::refuse_file)), the system refuses something, or `watch` says to stop.
/// Then there is no new file.
pub fn restore(model: &Model, output: &Path, force: bool, watch: &Watch<'_>) -> Result<(), FileError> {
    let staged = begin(model, output, force)?;
    restore_into(model, &staged, watch)?;
    staged.finish()
}

/// [`restore`] into a file that its caller puts in its place.
///
/// # Errors
/// If the file is not compressed, is damaged, the system refuses something, or `watch` says to stop.
pub fn restore_into(model: &Model, output: &Output, watch: &Watch<'_>) -> Result<(), FileError> {
    write(model, output, watch, None)
}

/// An output that is not what the model is made of.
fn begin(model: &Model, output: &Path, force: bool) -> Result<Output, FileError> {
    Sources::of(model.path(), model.bases())?.refuse_file(output)?;
    Output::like(output, force, model.path())
}

/// Decodes all of a compressed file, and compares it with its digests.
///
/// # Errors
/// If the file is not compressed, is damaged, or cannot be read.
pub fn verify(model: &Model, watch: &Watch<'_>) -> Result<(), FileError> {
    decode_all(model, None, watch, None)
}

/// Decodes all of a compressed file, and gives all tensors that are damaged, in the order of their values.
///
/// # Errors
/// If the file is not compressed, or `watch` says to stop.
pub fn damage(model: &Model, watch: &Watch<'_>) -> Result<Vec<Damage>, FileError> {
    let lost = Losses::default();
    decode_all(model, None, watch, Some(&lost))?;
    Ok(lost.of(model))
}

/// Writes what can be had of the file that was compressed into `model`, which may be damaged or cut ([`Model::open_cut`]): all tensors have their places. Damaged
/// chunks, and pieces of 1 MiB of values that were kept as they are, are zeros. Gives the tensors that have such, in the order of their values: all other bytes
/// are those that were compressed. Files of version 1 have no digests of values that were kept as they are, so these come back as they are.
///
/// # Errors
/// If the file is not compressed, the output is none ([`refuse_file`](crate::file::refuse_file)), the system refuses something, or `watch` says to stop. Then there is no new file.
pub fn salvage(
    model: &Model,
    output: &Path,
    force: bool,
    watch: &Watch<'_>,
) -> Result<Vec<Damage>, FileError> {
    let staged = begin(model, output, force)?;
    let damage = salvage_into(model, &staged, watch)?;
    staged.finish()?;
    Ok(damage)
}

/// [`salvage`] into a file that its caller puts in its place.
///
/// # Errors
/// Errors of [`salvage`] but those of places.
pub fn salvage_into(model: &Model, output: &Output, watch: &Watch<'_>) -> Result<Vec<Damage>, FileError> {
    let lost = Losses::default();
    write(model, output, watch, Some(&lost))?;
    Ok(lost.of(model))
}

/// Bytes of tensors that cannot be had.
#[derive(Default)]
pub(crate) struct Losses(Mutex<BTreeMap<usize, Loss>>);

/// Bytes of one tensor, in any order, and why the first of them were lost.
struct Loss {
    ranges: Vec<Range<u64>>,
    first: u64,
    reason: String,
}

/// Number of no tensor.
const UNKNOWN: usize = usize::MAX;

impl Losses {
    /// Notes bytes of a tensor, by its number.
    pub(crate) fn add(&self, tensor: usize, range: Range<u64>, error: &FileError) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Loss { ranges: Vec::new(), first: u64::MAX, reason: String::new() };
        let loss = all.entry(tensor).or_insert_with(new);
        if range.start < loss.first {
            (loss.first, loss.reason) = (range.start, error.reason());
        }
        if !range.is_empty() {
            loss.ranges.push(range);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn of(self, model: &Model) -> Vec<Damage> {
        self.named(|number| model.tensors().get(number).map(|tensor| tensor.name.clone()))
    }

    /// Takes all out, with the names of the tensors.
    pub(crate) fn named(self, name: impl Fn(usize) -> Option<String>) -> Vec<Damage> {
        let all = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let damage = all.into_iter().map(|(number, Loss { mut ranges, reason, .. })| {
            // Threads note them in any order.
            ranges.sort_unstable_by_key(|range| range.start);
            let mut joined: Vec<Range<u64>> = Vec::new();
            for range in ranges {
                match joined.last_mut().filter(|last| last.end >= range.start) {
                    Some(last) => last.end = last.end.max(range.end),
                    None => joined.push(range),
                }
            }
            Damage { tensor: name(number), ranges: joined, reason }
        });
        damage.collect()
    }
}

fn write(model: &Model, output: &Output, watch: &Watch<'_>, lost: Option<&Losses>) -> Result<(), FileError> {
    output.file().set_len(model.bytes()).map_err(FileError::io("write", output.path()))?;
    decode_all(model, Some(output), watch, lost)
}

/// Decodes all pieces, compares them with their digests, and writes them. Damage is noted in `lost` if it is there, else an error.
fn decode_all(
    model: &Model,
    output: Option<&Output>,
    watch: &Watch<'_>,
    lost: Option<&Losses>,
) -> Result<(), FileError> {
    if !model.is_compressed() {
        let path = model.path();
        return Err(match foreign::of_notes(model.notes()) {
            Some(foreign) => foreign.refused(path),
            None => FileError::NotCompressed { path: path.to_owned() },
        });
    }
    let own = model.own_bytes();
    if let Some(output) = output {
        at::write_all(output.file(), own, 0).map_err(FileError::io("write", output.path()))?;
    }
    (watch.done)(own.len() as u64);
    let segments = model.segments();
    // A file of version 1 has one digest, which pieces add to in their order.
    let mut hashes = Digest::of(own.chunks(PIECE as usize).map(Digest::of_piece));
    let decode = |number, values: &mut Vec<u8>| {
        let piece = segments.piece(model.tensors(), number);
        match lost {
            None => {
                model.read_piece(&piece, values)?;
                check(model, &piece, values)?;
            }
            Some(lost) => salvage_piece(model, &piece, values, lost),
        }
        if let Some(output) = output {
            let place = own.len() as u64 + piece.range.start;
            at::write_all(output.file(), values, place).map_err(FileError::io("write", output.path()))?;
        }
        (watch.done)(values.len() as u64);
        Ok::<_, FileError>(())
    };
    if model.digests().is_some() {
        let count = usize::try_from(segments.count()).unwrap_or(usize::MAX);
        return watch.for_each(count, |number, values| decode(number as u64, values));
    }
    let take = |number, values: &Vec<u8>, hashes: &mut Digest| {
        for (_, _, range) in segments.piece(model.tensors(), number).tensors(model.tensors()) {
            hashes.add(Digest::of_piece(&values[range]));
        }
        Ok(())
    };
    hashes = watch.in_turn(segments.count(), hashes, decode, take, |_, ()| Ok(()))?;
    let (found, needed) = (hashes.text(), model.digest()?);
    if found == needed || lost.is_some_and(|lost| !lost.is_empty()) {
        return Ok(());
    }
    let what = format!("what comes out of it has the digest {found}, and what was compressed had {needed}");
    let error = FileError::damaged(model.path(), what);
    let Some(lost) = lost else { return Err(error) };
    lost.add(UNKNOWN, 0..0, &error);
    Ok(())
}

/// Compares the tensors in a piece with their digests.
fn check(model: &Model, piece: &Piece<'_>, values: &[u8]) -> Result<(), FileError> {
    piece.tensors(model.tensors()).try_for_each(|(number, tensor, range)| {
        model.check(number, piece.range.start.saturating_sub(tensor.range.start), &values[range])
    })
}

/// Reads what can be read of a piece, makes the rest zeros, and notes it.
fn salvage_piece(model: &Model, piece: &Piece<'_>, values: &mut Vec<u8>, lost: &Losses) {
    let read = model.read_piece(piece, values).and_then(|()| check(model, piece, values));
    let Err(first) = read else { return };
    let gone = model.salvage_piece(piece, values);
    for (number, tensor, range) in piece.tensors(model.tensors()) {
        // The bytes of the tensor that are in the piece, from its own beginning on.
        let start = piece.range.start.saturating_sub(tensor.range.start);
        let of = |bytes: Range<usize>| {
            start + (bytes.start - range.start) as u64..start + (bytes.end - range.start) as u64
        };
        let within =
            gone.iter().map(|(gone, error)| (gone.start.max(range.start)..gone.end.min(range.end), error));
        let mut within = within.filter(|(bytes, _)| !bytes.is_empty()).peekable();
        if within.peek().is_some() {
            within.for_each(|(bytes, error)| lost.add(number, of(bytes), error));
        } else if let Err(error) = model.check(number, start, &values[range.clone()]) {
            // Without a frame that is damaged, the whole piece of it is.
            lost.add(number, of(range.clone()), &error);
            values[range].fill(0);
        } else if gone.is_empty() && !matches!(first, FileError::Digest { .. }) {
            // Its values are whole, and what is around them is not: the index of a container.
            lost.add(number, start..start, &first);
        }
    }
}
