//! Pieces of a file, coded by several threads and written in their order.
//!
//! A thread reads a piece, codes it, waits until all pieces before it know how long they are, which says where it goes, and then writes
//! it while others go on. So there are as many pieces in memory as there are threads.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use zipwire_codec::{ContainerBuilder, DEFAULT_CHUNK_VALUES, FrameShape, Layout};

use crate::model::Model;
use crate::note::{Digest, PIECE};
use crate::parts::{Coding, How, Part};
use crate::watch::on_threads;
use crate::{FileError, Watch, at};

/// What was written.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Of each part.
    pub(crate) parts: Vec<KeptPart>,
    /// Of all bytes that were read.
    pub(crate) digest: String,
    /// Where the last one ends.
    pub(crate) end: u64,
}

/// What was written of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptPart {
    /// Bytes of its container, if it is one.
    pub(crate) container: Option<u64>,
    /// Bytes, with those that fill them up to a multiple of eight.
    pub(crate) len: u64,
}

/// Where the next piece goes.
struct Turn {
    number: u64,
    at: u64,
    part_at: u64,
    digest: Digest,
    builder: Option<ContainerBuilder>,
    parts: Vec<KeptPart>,
    failure: Option<FileError>,
}

/// Where a piece goes, and what is in front of it and behind it.
struct Taken {
    at: u64,
    front: Vec<u8>,
    back: Vec<u8>,
}

/// A piece in memory.
struct Piece {
    raw: Vec<u8>,
    /// Frames of its chunks, one behind the other, and where each ends.
    frames: Vec<u8>,
    ends: Vec<usize>,
    /// Bytes at the end of the part that are no whole value.
    tail: usize,
}

/// Writes all parts of `input` to `output`, from `start` on, each filled up with zeros to a multiple of eight bytes.
///
/// # Errors
/// The first one that any thread has.
pub(crate) fn write_parts(
    (input, input_path): (&File, &Path),
    parts: &[Part],
    base: Option<&Model>,
    (output, output_path): (&File, &Path),
    start: u64,
    watch: &Watch<'_>,
) -> Result<Kept, FileError> {
    let mut firsts = vec![0];
    firsts.extend(parts.iter().scan(0, |sum, part| {
        *sum += part.pieces();
        Some(*sum)
    }));
    let count = firsts[parts.len()];
    let next = AtomicU64::new(0);
    let turn = Turn {
        number: 0,
        at: start,
        part_at: start,
        digest: Digest::default(),
        builder: None,
        parts: Vec::new(),
        failure: None,
    };
    let (turn, changed) = (Mutex::new(turn), Condvar::new());
    let work = || -> Result<(), FileError> {
        let mut piece = Piece { raw: Vec::new(), frames: Vec::new(), ends: Vec::new(), tail: 0 };
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            if (watch.cancelled)() {
                return Err(FileError::Cancelled);
            }
            let index = firsts.partition_point(|first| *first <= number) - 1;
            let part = &parts[index];
            let within = (number - firsts[index]) * PIECE;
            let len = PIECE.min(part.bytes - within);
            piece.raw.resize(len as usize, 0);
            at::read_exact(input, &mut piece.raw, part.at + within)
                .map_err(FileError::io("read", input_path))?;
            let hash = Digest::of_piece(&piece.raw);
            if let How::Coded(coding) = &part.how {
                piece.encode(coding, base, within, input_path)?;
            }
            let Some(mut turn) = wait(&turn, &changed, number) else { return Ok(()) };
            let is_last = within + len == part.bytes;
            let taken = turn.take(part, &piece, within == 0, is_last, hash)?;
            drop(turn);
            changed.notify_all();
            let mut at = taken.at;
            for bytes in [&taken.front[..], piece.body(&part.how), &taken.back] {
                at::write_all(output, bytes, at).map_err(FileError::io("write", output_path))?;
                at += bytes.len() as u64;
            }
            (watch.done)(len);
        }
    };
    on_threads(watch.threads.get().min(usize::try_from(count).unwrap_or(usize::MAX)), || {
        if let Err(error) = work() {
            lock(&turn).failure.get_or_insert(error);
            changed.notify_all();
        }
    });
    let turn = turn.into_inner().unwrap_or_else(PoisonError::into_inner);
    match turn.failure {
        Some(error) => Err(error),
        None => Ok(Kept { parts: turn.parts, digest: turn.digest.text(), end: turn.at }),
    }
}

fn lock(turn: &Mutex<Turn>) -> MutexGuard<'_, Turn> {
    // A thread that panics ends them all: the scope passes it on.
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a piece is the next; `None` if another one has failed.
fn wait<'a>(turn: &'a Mutex<Turn>, changed: &Condvar, number: u64) -> Option<MutexGuard<'a, Turn>> {
    let guard = changed.wait_while(lock(turn), |turn| turn.number != number && turn.failure.is_none());
    let guard = guard.unwrap_or_else(PoisonError::into_inner);
    guard.failure.is_none().then_some(guard)
}

impl Turn {
    /// Takes note of a piece, the next one.
    fn take(
        &mut self,
        part: &Part,
        piece: &Piece,
        is_first: bool,
        is_last: bool,
        hash: u64,
    ) -> Result<Taken, FileError> {
        self.digest.add(hash);
        let mut taken = Taken { at: self.at, front: Vec::new(), back: Vec::new() };
        if is_first {
            self.part_at = self.at;
        }
        if let How::Coded(coding) = &part.how {
            let unfit = |error| FileError::damaged(Path::new(&part.tensor), format!("{error}"));
            if is_first {
                let builder = ContainerBuilder::new(coding.dtype, DEFAULT_CHUNK_VALUES).map_err(unfit)?;
                taken.front.extend(builder.header());
                self.builder = Some(builder);
            }
            let builder = self.builder.as_mut().expect("the first piece of the part has made it");
            let mut start = 0;
            for end in &piece.ends {
                builder.push(&piece.frames[start..*end]).map_err(unfit)?;
                start = *end;
            }
            if is_last {
                let builder = self.builder.take().expect("it is there until the last piece");
                taken.back = builder.finish(&piece.raw[piece.raw.len() - piece.tail..]).map_err(unfit)?;
            }
        }
        self.at += (taken.front.len() + piece.body(&part.how).len() + taken.back.len()) as u64;
        self.number += 1;
        if is_last {
            let whole = self.at - self.part_at;
            let container = matches!(part.how, How::Coded(_)).then_some(whole);
            // What is stored under a type and a shape has as many bytes as these say.
            let len = match part.how {
                How::Stored { .. } => whole,
                How::Bytes | How::Coded(_) => whole.next_multiple_of(8),
            };
            taken.back.resize(taken.back.len() + (len - whole) as usize, 0);
            self.at += len - whole;
            self.parts.push(KeptPart { container, len });
        }
        Ok(taken)
    }
}

impl Piece {
    /// Makes the frames of its chunks. It begins `within` the part.
    fn encode(
        &mut self,
        coding: &Coding,
        base: Option<&Model>,
        within: u64,
        path: &Path,
    ) -> Result<(), FileError> {
        self.tail = self.raw.len() % coding.dtype.width();
        self.ends.clear();
        let values = &self.raw[..self.raw.len() - self.tail];
        let mut end = 0;
        for (chunk, start) in
            values.chunks(coding.chunk_len() as usize).zip((within..).step_by(coding.chunk_len() as usize))
        {
            let codec = coding.spec_at(base, start, chunk.len() as u64)?.codec();
            let shape = FrameShape::new(Layout::Compact, coding.dtype, chunk.len() / coding.dtype.width());
            let room = end + codec.bound(shape);
            if self.frames.len() < room {
                self.frames.resize(room, 0);
            }
            let len =
                codec.encode(Layout::Compact, coding.dtype, chunk, &mut [], &mut self.frames[end..room]);
            end += len.map_err(|source| FileError::Encode { path: path.to_owned(), source })?;
            self.ends.push(end);
        }
        Ok(())
    }

    /// What is written of it.
    fn body(&self, how: &How) -> &[u8] {
        match how {
            How::Stored { .. } | How::Bytes => &self.raw,
            How::Coded(_) => &self.frames[..self.ends.last().copied().unwrap_or(0)],
        }
    }
}
