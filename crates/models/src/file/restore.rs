//! Restoration and verification of whole files.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::file::model::Model;
use crate::file::note::{Digest, PIECE};
use crate::file::output::{Output, Sources};
use crate::file::{FileError, Watch, at};

/// Writes the file that was compressed into `model`, byte for byte, and compares it with its digest.
///
/// # Errors
/// If the file is not compressed, is damaged, the output is none ([`refuse_file`](crate::file::refuse_file)), the system refuses something, or
/// `watch` says to stop. Then there is no new file.
pub fn restore(model: &Model, output: &Path, force: bool, watch: &Watch<'_>) -> Result<(), FileError> {
    Sources::of(model.path(), model.base())?.refuse_file(output)?;
    let staged = Output::like(output, force, model.path())?;
    restore_into(model, &staged, watch)?;
    staged.finish()
}

/// [`restore`] into a file that its caller puts in its place.
///
/// # Errors
/// If the file is not compressed, is damaged, the system refuses something, or `watch` says to stop.
pub fn restore_into(model: &Model, output: &Output, watch: &Watch<'_>) -> Result<(), FileError> {
    output.file().set_len(model.bytes()).map_err(FileError::io("write", output.path()))?;
    decode_all(model, Some(output), watch)
}

/// Decodes all of a compressed file, and compares it with its digest.
///
/// # Errors
/// If the file is not compressed, is damaged, or cannot be read.
pub fn verify(model: &Model, watch: &Watch<'_>) -> Result<(), FileError> {
    decode_all(model, None, watch)
}

fn decode_all(model: &Model, output: Option<&Output>, watch: &Watch<'_>) -> Result<(), FileError> {
    if !model.is_compressed() {
        return Err(FileError::NotCompressed { path: model.path().to_owned() });
    }
    let header = model.header().bytes();
    let mut digest = Digest::default();
    for piece in header.chunks(PIECE as usize) {
        digest.add(Digest::of_piece(piece));
    }
    if let Some(output) = output {
        at::write_all(output.file(), header, 0).map_err(FileError::io("write", output.path()))?;
    }
    (watch.done)(header.len() as u64);
    // Each piece by the number of its tensor, and where it begins there.
    let pieces: Vec<(usize, u64)> = (0..)
        .zip(model.tensors())
        .flat_map(|(number, tensor)| {
            (0..tensor.bytes().div_ceil(PIECE).max(1)).map(move |piece| (number, piece * PIECE))
        })
        .collect();
    let hashes: Vec<AtomicU64> = pieces.iter().map(|_| AtomicU64::new(0)).collect();
    watch.for_each(pieces.len(), |number, values| {
        let (tensor, start) = pieces[number];
        let tensor = &model.tensors()[tensor];
        values.resize(PIECE.min(tensor.bytes() - start) as usize, 0);
        model.read_alone(&tensor.name, start, values)?;
        hashes[number].store(Digest::of_piece(values), Ordering::Relaxed);
        if let Some(output) = output {
            let place = header.len() as u64 + tensor.range.start + start;
            at::write_all(output.file(), values, place).map_err(FileError::io("write", output.path()))?;
        }
        (watch.done)(values.len() as u64);
        Ok(())
    })?;
    for hash in hashes {
        digest.add(hash.into_inner());
    }
    let (found, needed) = (digest.text(), model.digest()?);
    if found != needed {
        let what =
            format!("what comes out of it has the digest {found}, and what was compressed had {needed}");
        return Err(FileError::damaged(model.path(), what));
    }
    Ok(())
}
