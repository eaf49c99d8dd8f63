//! Blocks of a held model, one after the other, decoded into memory on huge pages where the system has them: that saves misses of address
//! translation.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use crate::file::TensorInfo;
use crate::held::error::HeldError;
use crate::held::model::{Block, Form, HeldModel, Inner};

/// A walk through blocks of a [`HeldModel`], each decoded into the buffer of the one before it. Of a model on the disk a thread reads the next
/// block meanwhile, so frames of two blocks are in memory.
#[derive(Debug)]
pub struct Walk<'a> {
    model: &'a HeldModel,
    blocks: Range<usize>,
    next: usize,
    values: Room,
    /// Frames that were read from the disk.
    kept: Room,
    reader: Option<Reader>,
    /// Whether the reader has a block to read, or has read it.
    is_asked: bool,
    waited: Duration,
}

/// A decoded block.
#[derive(Clone, Copy, Debug)]
pub struct BlockView<'a> {
    block: &'a Block,
    kept: &'a [u8],
    values: &'a [u8],
}

impl<'a> Walk<'a> {
    pub(crate) fn new(model: &'a HeldModel, blocks: Range<usize>) -> Result<Self, HeldError> {
        let all = &model.inner.blocks[blocks.clone()];
        let reader = match all.iter().any(|block| block.kept.is_none()) {
            true => Some(Reader::start(&model.inner)?),
            false => None,
        };
        let values = Room::new(usize::try_from(model.bytes_decoded()).unwrap_or(usize::MAX))?;
        let next = blocks.start;
        let kept = Room::default();
        let waited = Duration::ZERO;
        let mut walk = Self { model, blocks, next, values, kept, reader, is_asked: false, waited };
        walk.ask(Room::default());
        Ok(walk)
    }

    /// Begins again with the first block, in the same memory.
    pub fn restart(&mut self) {
        if let Some(reader) = self.reader.as_ref().filter(|_| self.is_asked) {
            // It is another block; if it cannot be read, whoever asks for it will see.
            let _ = reader.read();
            self.is_asked = false;
        }
        self.next = self.blocks.start;
        self.ask(Room::default());
    }

    /// The next block, decoded; `None` behind the last one. It is there until it is called again.
    ///
    /// # Errors
    /// [`HeldError::Decode`] and [`HeldError::Index`] if frames are damaged, [`HeldError::File`] if they cannot be read.
    #[expect(
        clippy::should_implement_trait,
        reason = "what it gives is in a buffer that the next call writes to"
    )]
    pub fn next(&mut self) -> Result<Option<BlockView<'_>>, HeldError> {
        if self.next >= self.blocks.end {
            return Ok(None);
        }
        if self.reader.is_some() && !self.is_asked {
            let room = std::mem::take(&mut self.kept);
            self.ask(room);
        }
        let block = &self.model.inner.blocks[self.next];
        self.next += 1;
        if let Some(reader) = &self.reader {
            let begin = Instant::now();
            let read = reader.read();
            self.waited += begin.elapsed();
            self.is_asked = false;
            let before = std::mem::replace(&mut self.kept, read?);
            self.ask(before);
        }
        let kept = match &block.kept {
            Some(kept) => kept.bytes(),
            None => &self.kept.bytes()[..block.bytes_kept],
        };
        self.model.decode(block, kept, self.values.bytes_mut())?;
        Ok(Some(BlockView { block, kept, values: self.values.bytes() }))
    }

    /// How long it has waited for the disk, since it began.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Has the next block read ahead.
    fn ask(&mut self, room: Room) {
        if let Some(reader) = self.reader.as_ref().filter(|_| self.next < self.blocks.end) {
            reader.ask(self.next, room);
            self.is_asked = true;
        }
    }
}

impl<'a> BlockView<'a> {
    /// Name of the block.
    pub fn name(&self) -> &'a str {
        self.block.name()
    }

    /// Its tensors with their values, little-endian.
    pub fn tensors(&self) -> impl Iterator<Item = (&'a TensorInfo, &'a [u8])> + use<'a> {
        let Self { block, kept, values } = *self;
        block.tensors.iter().map(move |tensor| {
            let len = tensor.info.bytes() as usize;
            let bytes = match tensor.form {
                Form::Raw => &kept[tensor.at..tensor.at + len],
                Form::Frames { to, .. } => &values[to..to + len],
            };
            (&tensor.info, bytes)
        })
    }

    /// The values of a tensor, if the block has one of that name.
    pub fn tensor(&self, name: &str) -> Option<&'a [u8]> {
        self.tensors().find(|(info, _)| info.name == name).map(|(_, bytes)| bytes)
    }
}

/// A thread that reads blocks, one at a time.
#[derive(Debug)]
struct Reader {
    /// Taken when it is to end.
    asked: Option<Sender<(usize, Room)>>,
    read: Receiver<Result<Room, HeldError>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn start(inner: &Arc<Inner>) -> Result<Self, HeldError> {
        let (asked, requests) = channel::<(usize, Room)>();
        let (results, read) = channel();
        let inner = Arc::clone(inner);
        let work = move || {
            for (number, mut room) in requests {
                let block = &inner.blocks[number];
                let result = room.at_least(block.bytes_kept).and_then(|out| inner.read(block, out));
                if results.send(result.map(|()| room)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("zipwire-held".to_owned()).spawn(work);
        let thread = thread.map_err(|error| HeldError::Threads { threads: 1, reason: error.to_string() })?;
        Ok(Self { asked: Some(asked), read, thread: Some(thread) })
    }

    fn ask(&self, block: usize, room: Room) {
        let asked = self.asked.as_ref().expect("it is there until the end");
        // If the thread has panicked, the next read says so.
        let _ = asked.send((block, room));
    }

    fn read(&self) -> Result<Room, HeldError> {
        self.read.recv().expect("the thread answers each request")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.asked = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing that would have to be told.
            let _ = thread.join();
        }
    }
}

/// Bytes of a huge page of most systems, and where memory that has one or more begins.
const HUGE: usize = 2 << 20;

/// Bytes that begin where a page does, at a multiple of 2 MiB if there are that many. They are zeros at first, and no page is there before it
/// is touched.
/// Large memory that is used again: huge pages save misses of address translation.
#[derive(Debug, Default)]
pub(crate) struct Room {
    map: Option<MmapMut>,
    begin: usize,
    len: usize,
}

impl Room {
    pub(crate) fn new(len: usize) -> Result<Self, HeldError> {
        if len == 0 {
            return Ok(Self::default());
        }
        let boundary = if len < HUGE { 0 } else { HUGE };
        let refused = |source: io::Error| HeldError::Memory { bytes: len, source };
        let whole = len.checked_add(boundary).ok_or_else(|| refused(io::ErrorKind::OutOfMemory.into()))?;
        let map = MmapMut::map_anon(whole).map_err(refused)?;
        // What a kernel that knows no huge pages says does not matter.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let begin = if boundary == 0 { 0 } else { map.as_ptr().addr().wrapping_neg() % boundary };
        Ok(Self { map: Some(map), begin, len })
    }

    /// The first `len` bytes, of new memory if there are not so many: then what was there is lost.
    pub(crate) fn at_least(&mut self, len: usize) -> Result<&mut [u8], HeldError> {
        if len > self.len {
            // The old one goes first.
            *self = Self::default();
            *self = Self::new(len)?;
        }
        Ok(&mut self.bytes_mut()[..len])
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.map.as_ref().map_or(&[], |map| &map[self.begin..self.begin + self.len])
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.map.as_mut().map_or(&mut [], |map| &mut map[self.begin..self.begin + self.len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_grows() {
        let mut room = Room::default();
        assert!(room.at_least(0).unwrap().is_empty() && room.bytes().is_empty());
        for len in [1, 5000, HUGE, 2 * HUGE + 1, 7] {
            let bytes = room.at_least(len).unwrap();
            assert_eq!((bytes.len(), bytes.as_ptr().addr() % 4096), (len, 0));
            bytes.fill(1);
        }
        assert_eq!((room.len, room.bytes().as_ptr().addr() % HUGE), (2 * HUGE + 1, 0));
        assert!(matches!(Room::new(usize::MAX - 5), Err(HeldError::Memory { .. })));
    }
}
