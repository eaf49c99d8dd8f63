//! Pieces of a file, coded by several threads and written in their order.
//!
//! A thread reads a piece, codes it, waits until all pieces before it know how long they are, which says where it goes, and then writes
//! it while others go on ([`Watch::in_turn`]).

use std::fs::File;
use std::path::Path;

use zipwire_codec::{
    Codec, ContainerBuilder, ContainerError, DEFAULT_CHUNK_VALUES, DType, EncodeError, FrameShape, Layout,
};

use crate::file::digest::Digest;
use crate::file::header::TensorInfo;
use crate::file::part::{self, Segments};
use crate::file::plan::{Codecs, Coding, Part};
use crate::file::{FileError, Watch, at};

/// Sizes and digests of the parts that were written.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Bytes of each container.
    pub(crate) containers: Vec<u64>,
    /// Hashes of all pieces that were read, tensor by tensor.
    pub(crate) digests: Vec<u64>,
    /// Offset in the output where the last part ends.
    pub(crate) end: u64,
}

/// State of the output that pieces update in their order: where the next one goes, digests, open container.
struct Turn {
    at: u64,
    part_at: u64,
    digests: Vec<u64>,
    builder: Option<ContainerBuilder>,
    containers: Vec<u64>,
}

/// Offset of a piece in the output, with the container's header and index where it is the first or last of its part.
struct Taken {
    at: u64,
    front: Vec<u8>,
    back: Vec<u8>,
}

/// A piece in memory.
#[derive(Default)]
struct Work {
    raw: Vec<u8>,
    /// Hash of each of its tensors.
    hashes: Vec<u64>,
    frames: Frames,
    /// Bytes at the end of the part that are no whole value.
    tail: usize,
}

/// A file that is compressed: its tensors, the parts they are cut into, and where their values begin.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    pub(crate) tensors: &'a [TensorInfo],
    pub(crate) parts: &'a [Part],
    pub(crate) values_at: u64,
    pub(crate) codecs: &'a Codecs<'a>,
}

/// Writes all parts of `input` to `output`, from `start` on.
pub(crate) fn write_parts(
    input: Input<'_>,
    (output, output_path): (&File, &Path),
    start: u64,
    watch: &Watch<'_>,
) -> Result<Kept, FileError> {
    let segments = Segments::of(input.tensors, input.parts.iter().map(|part| part.tensors.clone()));
    let turn = Turn { at: start, part_at: start, digests: Vec::new(), builder: None, containers: Vec::new() };
    let coding = |piece: &part::Piece<'_>| input.parts[piece.segment.part].coding;
    let prepare = |number, work: &mut Work| work.prepare(input, &segments.piece(input.tensors, number));
    let unfit = |error: ContainerError| FileError::damaged(input.path, error.to_string());
    let take = |number, work: &Work, turn: &mut Turn| {
        let piece = segments.piece(input.tensors, number);
        Ok((turn.take(&piece, coding(&piece), work).map_err(unfit)?, coding(&piece)))
    };
    let write = |work: &Work, (taken, coding): (Taken, Option<Coding>)| {
        let mut at = taken.at;
        for bytes in [&taken.front[..], work.body(coding), &taken.back] {
            at::write_all(output, bytes, at).map_err(FileError::io("write", output_path))?;
            at += bytes.len() as u64;
        }
        (watch.done)(work.raw.len() as u64);
        Ok::<_, FileError>(())
    };
    let turn = watch.in_turn(segments.count(), turn, prepare, take, write)?;
    Ok(Kept { containers: turn.containers, digests: turn.digests, end: turn.at })
}

impl Turn {
    /// Adds the next piece to digests and container, and reserves its place.
    fn take(
        &mut self,
        piece: &part::Piece<'_>,
        coding: Option<Coding>,
        work: &Work,
    ) -> Result<Taken, ContainerError> {
        self.digests.extend(&work.hashes);
        let mut taken = Taken { at: self.at, front: Vec::new(), back: Vec::new() };
        if let Some(coding) = coding {
            if piece.is_first_of_part {
                self.part_at = self.at;
                let builder = ContainerBuilder::new(coding.dtype(), DEFAULT_CHUNK_VALUES)?;
                taken.front.extend(builder.header());
                self.builder = Some(builder);
            }
            let builder = self.builder.as_mut().expect("the first piece of the part has made it");
            work.frames.iter().try_for_each(|frame| builder.push(frame))?;
            if piece.is_last_of_part {
                let builder = self.builder.take().expect("it is there until the last piece");
                taken.back = builder.finish(&work.raw[work.raw.len() - work.tail..])?;
            }
        }
        self.at += (taken.front.len() + work.body(coding).len() + taken.back.len()) as u64;
        if piece.is_last_of_part && coding.is_some() {
            self.containers.push(self.at - self.part_at);
        }
        Ok(taken)
    }
}

impl Work {
    /// Reads a piece, and makes its hashes and its frames.
    fn prepare(&mut self, input: Input<'_>, piece: &part::Piece<'_>) -> Result<(), FileError> {
        self.raw.resize((piece.range.end - piece.range.start) as usize, 0);
        at::read_exact(input.file, &mut self.raw, input.values_at + piece.range.start)
            .map_err(FileError::io("read", input.path))?;
        let hashes = piece.tensors(input.tensors).map(|(_, _, range)| Digest::of_piece(&self.raw[range]));
        self.hashes.clear();
        self.hashes.extend(hashes);
        let Part { tensors, coding: Some(coding) } = &input.parts[piece.segment.part] else { return Ok(()) };
        self.tail = self.raw.len() % coding.dtype().width();
        self.frames.clear();
        let values = &self.raw[..self.raw.len() - self.tail];
        let (tensors, chunk_len) = (&input.tensors[tensors.clone()], coding.chunk_len() as usize);
        let start = piece.range.start - tensors[0].range.start;
        for (chunk, start) in values.chunks(chunk_len).zip((start..).step_by(chunk_len)) {
            let codec = input.codecs.spec(coding, tensors, start..start + chunk.len() as u64)?.codec();
            let pushed = self.frames.push(&*codec, coding.dtype(), chunk);
            pushed.map_err(|source| FileError::Encode { path: input.path.to_owned(), source })?;
        }
        Ok(())
    }

    /// The bytes that are written for the piece: as they are, or its frames.
    fn body(&self, coding: Option<Coding>) -> &[u8] {
        if coding.is_some() { self.frames.bytes() } else { &self.raw }
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
