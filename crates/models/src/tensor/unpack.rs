//! Restoring of one tensor, whole or a part of it.

use std::io::Cursor;
use std::ops::Range;
use std::sync::Mutex;

use zipwire_codec::{Base, ContainerError, ContainerIndex, DType, DecodeError, Decoder};

use super::{Description, TensorError};
use crate::file::Watch;
use crate::file::watch::lock;

/// A compressed tensor, whose header and index are read and sound.
#[derive(Debug)]
pub struct Packed<'a> {
    description: Description,
    is_against: bool,
    container: &'a [u8],
    index: ContainerIndex,
    /// Bytes of the values.
    len: usize,
}

impl<'a> Packed<'a> {
    /// Reads header and index of a tensor, which is all that `bytes` has.
    ///
    /// # Errors
    /// [`TensorError::Foreign`], [`TensorError::Version`], [`TensorError::Damaged`], [`TensorError::Container`].
    pub fn open(bytes: &'a [u8]) -> Result<Self, TensorError> {
        zipwire_paper_codecs::register();
        let (description, is_against, at) = Description::read(bytes)?;
        let damaged = |what: String| TensorError::Damaged { what };
        let len = description.len().map_err(|error| damaged(error.to_string()))?;
        let container = &bytes[at..];
        let index = ContainerIndex::read(&mut Cursor::new(container)).map_err(|error| {
            ContainerError::of(&error)
                .map_or_else(|| damaged(error.to_string()), |error| error.clone().into())
        })?;
        let types = [DType::from_name(&description.dtype), Some(DType::F8E4M3)];
        if index.len() != len as u64 || !index.tail().is_empty() || !types.contains(&Some(index.dtype())) {
            let (dtype, values) = (index.dtype(), index.len());
            return Err(damaged(format!("{description} is in a container of {values} bytes of {dtype}")));
        }
        Ok(Self { description, is_against, container, index, len })
    }

    /// Type and shape.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Bytes of the values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is differences from a base.
    pub fn is_against(&self) -> bool {
        self.is_against
    }

    /// Where frames are.
    pub fn index(&self) -> &ContainerIndex {
        &self.index
    }

    /// The frame of a chunk.
    pub fn frame(&self, chunk: usize) -> &'a [u8] {
        let Range { start, end } = self.index.frame(chunk);
        &self.container[start as usize..end as usize]
    }

    /// Restores all values into `out`, which has [`Self::len`] bytes. `base` are the values that differences were taken from.
    ///
    /// # Errors
    /// [`TensorError::Output`], [`TensorError::NoBase`], [`TensorError::OtherBase`], [`TensorError::BaseLength`]; if a chunk is damaged, or `watch` says to
    /// stop. `out` then holds unspecified values.
    pub fn unpack_into(
        &self,
        out: &mut [u8],
        base: Option<&[u8]>,
        watch: &Watch<'_>,
    ) -> Result<(), TensorError> {
        let (needed, found) = (self.len, out.len());
        if needed != found {
            return Err(TensorError::Output { needed, found });
        }
        let base = match (self.is_against, base) {
            (true, None) => return Err(TensorError::NoBase),
            (true, Some(base)) if base.len() != needed => {
                return Err(TensorError::BaseLength { expected: needed, found: base.len() });
            }
            (is_against, base) => base.filter(|_| is_against),
        };
        self.each(out, watch, |chunk, place| {
            let range = self.index.data(chunk);
            let base = base.map(|base| base[range.start as usize..range.end as usize].to_vec());
            self.decode(chunk, place, base)
        })
    }

    /// Restores values over their base: `values` are the base before, and what differs from it after. Where this fails, they are partly one and partly the other.
    ///
    /// # Errors
    /// Errors of [`Self::unpack_into`].
    pub fn unpack_over(&self, values: &mut [u8], watch: &Watch<'_>) -> Result<(), TensorError> {
        let (expected, found) = (self.len, values.len());
        if expected != found {
            return Err(TensorError::BaseLength { expected, found });
        }
        self.each(values, watch, |chunk, place| {
            let base = self.is_against.then(|| place.to_vec());
            self.decode(chunk, place, base)
        })
    }

    /// Does the work of each chunk, with its place in the values.
    fn each(
        &self,
        out: &mut [u8],
        watch: &Watch<'_>,
        work: impl Fn(usize, &mut [u8]) -> Result<(), TensorError> + Sync,
    ) -> Result<(), TensorError> {
        let chunk_len = self.index.chunk_values() as usize * self.index.dtype().width();
        // A place is taken once, by the thread that has its number.
        let places: Vec<_> = out.chunks_mut(chunk_len.max(1)).map(|place| Mutex::new(Some(place))).collect();
        if places.len() != self.index.chunk_count() {
            return Err(TensorError::Damaged { what: "its index has another number of chunks".to_owned() });
        }
        watch.for_each(places.len(), |chunk, _| {
            let place = lock(&places[chunk]).take().expect("each number is given once");
            work(chunk, place)
        })
    }

    fn decode(&self, chunk: usize, out: &mut [u8], base: Option<Vec<u8>>) -> Result<(), TensorError> {
        let frame = self.frame(chunk);
        self.index.check(chunk, frame)?;
        let (mut decoder, has_base) = (Decoder::new(), base.is_some());
        if let Some(base) = base {
            decoder.add_base(Base::new(self.index.dtype(), base)).expect("there is no other one");
        }
        match decoder.decompress_into(frame, out) {
            Ok(_) => Ok(()),
            Err(DecodeError::UnknownBase { .. }) if has_base => Err(TensorError::OtherBase),
            Err(source) => Err(ContainerError::Chunk { chunk: chunk as u64, source }.into()),
        }
    }
}
