//! Pieces of a file, coded by several threads and written in their order.
//!
//! A thread reads a piece, codes it, waits until all pieces before it know how long they are, which says where it goes, and then writes
//! it while others go on ([`Watch::in_turn`]).

use std::fs::File;
use std::path::Path;

use zipwire_codec::{Codec, ContainerBuilder, DEFAULT_CHUNK_VALUES, DType, EncodeError, FrameShape, Layout};

use crate::file::model::Model;
use crate::file::note::{Digest, PIECE};
use crate::file::plan::{Coding, How, Part};
use crate::file::{FileError, Watch, at};

/// Sizes and digest of the parts that were written.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) parts: Vec<KeptPart>,
    /// Digest of all bytes that were read.
    pub(crate) digest: String,
    /// Offset in the output where the last part ends.
    pub(crate) end: u64,
}

/// Sizes of one part in the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptPart {
    /// Bytes of its container, if it is coded.
    pub(crate) container: Option<u64>,
    /// Bytes with the zeros that fill them up to a multiple of eight.
    pub(crate) len: u64,
}

/// State of the output that pieces update in their order: where the next one goes, digest, open container.
struct Turn {
    at: u64,
    part_at: u64,
    digest: Digest,
    builder: Option<ContainerBuilder>,
    parts: Vec<KeptPart>,
}

/// Offset of a piece in the output, with the container's header and index where it is the first or last of its part.
struct Taken {
    at: u64,
    front: Vec<u8>,
    back: Vec<u8>,
}

/// A piece in memory.
#[derive(Default)]
struct Piece {
    raw: Vec<u8>,
    hash: u64,
    frames: Frames,
    /// Bytes at the end of the part that are no whole value.
    tail: usize,
}

/// Writes all parts of `input` to `output`, from `start` on, each filled up with zeros to a multiple of eight bytes.
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
    // The part of a piece, and where it begins in it.
    let place = |number: u64| {
        let index = firsts.partition_point(|first| *first <= number) - 1;
        (&parts[index], (number - firsts[index]) * PIECE)
    };
    let turn =
        Turn { at: start, part_at: start, digest: Digest::default(), builder: None, parts: Vec::new() };
    let prepare = |number, piece: &mut Piece| {
        let (part, within) = place(number);
        piece.raw.resize(PIECE.min(part.bytes - within) as usize, 0);
        at::read_exact(input, &mut piece.raw, part.at + within).map_err(FileError::io("read", input_path))?;
        piece.hash = Digest::of_piece(&piece.raw);
        match &part.how {
            How::Coded(coding) => piece.encode(coding, base, within, input_path),
            How::Stored { .. } | How::Bytes => Ok(()),
        }
    };
    let take = |number, piece: &Piece, turn: &mut Turn| {
        let (part, within) = place(number);
        let is_last = within + piece.raw.len() as u64 == part.bytes;
        Ok((turn.take(part, piece, within == 0, is_last)?, &part.how))
    };
    let write = |piece: &Piece, (taken, how): (Taken, &How)| {
        let mut at = taken.at;
        for bytes in [&taken.front[..], piece.body(how), &taken.back] {
            at::write_all(output, bytes, at).map_err(FileError::io("write", output_path))?;
            at += bytes.len() as u64;
        }
        (watch.done)(piece.raw.len() as u64);
        Ok(())
    };
    let turn = watch.in_turn(firsts[parts.len()], turn, prepare, take, write)?;
    Ok(Kept { parts: turn.parts, digest: turn.digest.text(), end: turn.at })
}

impl Turn {
    /// Adds the next piece to digest and container, and reserves its place.
    fn take(
        &mut self,
        part: &Part,
        piece: &Piece,
        is_first: bool,
        is_last: bool,
    ) -> Result<Taken, FileError> {
        self.digest.add(piece.hash);
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
            piece.frames.iter().try_for_each(|frame| builder.push(frame)).map_err(unfit)?;
            if is_last {
                let builder = self.builder.take().expect("it is there until the last piece");
                taken.back = builder.finish(&piece.raw[piece.raw.len() - piece.tail..]).map_err(unfit)?;
            }
        }
        self.at += (taken.front.len() + piece.body(&part.how).len() + taken.back.len()) as u64;
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
        self.frames.clear();
        let values = &self.raw[..self.raw.len() - self.tail];
        let chunk_len = coding.chunk_len() as usize;
        for (chunk, start) in values.chunks(chunk_len).zip((within..).step_by(chunk_len)) {
            let codec = coding.spec_at(base, start, chunk.len() as u64)?.codec();
            let pushed = self.frames.push(&*codec, coding.dtype, chunk);
            pushed.map_err(|source| FileError::Encode { path: path.to_owned(), source })?;
        }
        Ok(())
    }

    /// The bytes that are written for the piece: as they are, or its frames.
    fn body(&self, how: &How) -> &[u8] {
        match how {
            How::Stored { .. } | How::Bytes => &self.raw,
            How::Coded(_) => self.frames.bytes(),
        }
    }
}

/// Compact frames in one reusable buffer.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Frames {
    /// Takes all frames out.
    pub fn clear(&mut self) {
        self.ends.clear();
    }

    /// Appends the frame of these values.
    ///
    /// # Errors
    /// If the codec does not take them.
    pub fn push(&mut self, codec: &dyn Codec, dtype: DType, values: &[u8]) -> Result<(), EncodeError> {
        let begin = self.len();
        let shape = FrameShape::new(Layout::Compact, dtype, values.len() / dtype.width());
        let room = begin + codec.bound(shape);
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        let len = codec.encode(Layout::Compact, dtype, values, &mut [], &mut self.bytes[begin..room])?;
        self.ends.push(begin + len);
        Ok(())
    }

    /// All of them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// The frames in the order of [`Self::push`].
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = [0].into_iter().chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.bytes[begin..*end])
    }

    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use zipwire_codec::decompress;

    use super::*;

    #[test]
    fn frames_follow_one_another() {
        let codec = "rans".parse::<zipwire_codec::Spec>().unwrap().codec();
        let mut frames = Frames::default();
        for _ in 0..2 {
            frames.clear();
            assert_eq!((frames.iter().count(), frames.bytes().len()), (0, 0));
            let all = [vec![0x3f; 6000], vec![1; 2], vec![0x80; 100_000]];
            for values in &all {
                frames.push(&*codec, DType::Bf16, values).unwrap();
            }
            for (frame, values) in frames.iter().zip(&all) {
                assert!(decompress(frame).unwrap() == *values);
            }
            assert_eq!(frames.iter().map(<[u8]>::len).sum::<usize>(), frames.bytes().len());
            assert!(frames.push(&*codec, DType::Bf16, &[0]).is_err());
            assert_eq!(frames.iter().count(), 3, "what failed left nothing");
        }
    }
}
