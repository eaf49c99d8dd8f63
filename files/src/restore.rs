//! Compressed files into what they were.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::chunks::{Chunks, read_index};
use crate::model::Model;
use crate::note::{Digest, PIECE};
use crate::output::Output;
use crate::{FileError, Watch, at, open_input};

/// Writes the file that was compressed into `model`, byte for byte, and compares it with its digest.
///
/// # Errors
/// If the file is not compressed, is damaged, there is an output already, the system refuses something, or `watch` says to stop.
/// Then there is no new file.
pub fn restore(model: &Model, output: &Path, force: bool, watch: &Watch<'_>) -> Result<(), FileError> {
    let staged = Output::begin(output, force)?;
    staged.file().set_len(model.bytes()).map_err(FileError::io("write", output))?;
    decode_all(model, Some((staged.file(), output)), watch)?;
    staged.finish()
}

/// Decodes all of a compressed file, and compares it with its digest.
///
/// # Errors
/// If the file is not compressed, is damaged, or cannot be read.
pub fn verify(model: &Model, watch: &Watch<'_>) -> Result<(), FileError> {
    decode_all(model, None, watch)
}

fn decode_all(model: &Model, output: Option<(&File, &Path)>, watch: &Watch<'_>) -> Result<(), FileError> {
    if !model.is_compressed() {
        return Err(FileError::NotCompressed { path: model.path().to_owned() });
    }
    let header = model.header().bytes();
    let mut digest = Digest::default();
    for piece in header.chunks(PIECE as usize) {
        digest.add(Digest::of_piece(piece));
    }
    if let Some((file, path)) = output {
        at::write_all(file, header, 0).map_err(FileError::io("write", path))?;
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
    for_each(pieces.len(), watch, |number, values| {
        let (tensor, start) = pieces[number];
        let tensor = &model.tensors()[tensor];
        values.resize(PIECE.min(tensor.bytes() - start) as usize, 0);
        model.read_alone(&tensor.name, start, values)?;
        hashes[number].store(Digest::of_piece(values), Ordering::Relaxed);
        if let Some((file, path)) = output {
            let place = header.len() as u64 + tensor.range.start + start;
            at::write_all(file, values, place).map_err(FileError::io("write", path))?;
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

/// Whether a file is a container by itself: values of one type, as [`compress_values`](crate::compress_values) writes them.
///
/// # Errors
/// If the file cannot be read.
pub fn is_container(path: &Path) -> io::Result<bool> {
    let mut magic = [0; 4];
    let file = open_input(path)?;
    Ok(file.metadata()?.len() >= 4 && at::read_exact(&file, &mut magic, 0).map(|()| magic == *b"ZPWS")?)
}

/// Writes the values that are in a container by itself, byte for byte; without `output` they are only decoded. Gives their bytes.
///
/// # Errors
/// As [`restore`].
pub fn restore_values(
    input: &Path,
    output: Option<&Path>,
    force: bool,
    watch: &Watch<'_>,
) -> Result<u64, FileError> {
    let file = open_input(input).map_err(FileError::io("read", input))?;
    let len = file.metadata().map_err(FileError::io("read", input))?.len();
    let index = read_index(&file, input, "", (0, len))?;
    let staged =
        output.map(|output| Output::begin(output, force).map(|staged| (staged, output))).transpose()?;
    let chunks = Chunks { file: &file, path: input, base: None, tensor: "", index: &index, at: 0 };
    let chunk_len = chunks.chunk_len() as u64;
    let piece_chunks = (PIECE / chunk_len).max(1) as usize;
    for_each(index.chunk_count().div_ceil(piece_chunks), watch, |number, values| {
        let first = number * piece_chunks;
        let last = (first + piece_chunks).min(index.chunk_count()) - 1;
        let range = index.data(first).start..index.data(last).end;
        values.resize((range.end - range.start) as usize, 0);
        chunks.decode(first, values)?;
        if let Some((staged, output)) = &staged {
            at::write_all(staged.file(), values, range.start).map_err(FileError::io("write", output))?;
        }
        (watch.done)(values.len() as u64);
        Ok(())
    })?;
    if let Some((staged, output)) = staged {
        let tail_at = index.len() - index.tail().len() as u64;
        at::write_all(staged.file(), index.tail(), tail_at).map_err(FileError::io("write", output))?;
        staged.finish()?;
    }
    Ok(index.len())
}

/// Does work of these numbers, each once, on as many threads as `watch` says, each with a buffer of its own.
///
/// # Errors
/// The first one; the other threads then end with what they have begun.
fn for_each(
    count: usize,
    watch: &Watch<'_>,
    work: impl Fn(usize, &mut Vec<u8>) -> Result<(), FileError> + Sync,
) -> Result<(), FileError> {
    let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
    let fail = |error| {
        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        next.store(count, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for _ in 0..watch.threads.get().min(count) {
            scope.spawn(|| {
                let mut buffer = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let stop = if (watch.cancelled)() {
                        Err(FileError::Cancelled)
                    } else {
                        work(number, &mut buffer)
                    };
                    if let Err(error) = stop {
                        fail(error);
                        break;
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
