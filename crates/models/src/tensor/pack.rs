//! Compression of one tensor into memory of the caller.

use std::mem;
use std::ops::Range;

use zipwire_codec::{
    Base, Codec, ContainerBuilder, ContainerError, DEFAULT_CHUNK_VALUES, DType, FrameShape, Layout, Spec,
};

use super::{Description, TensorError};
use crate::file::plan::{against, alternatives, for_bytes, smallest, supports, width};
use crate::file::{Frames, Watch};

/// How a tensor is compressed: its description, its codec and its base.
#[derive(Debug)]
pub struct Packing<'a> {
    description: &'a Description,
    /// Bytes of the values.
    len: usize,
    dtype: DType,
    /// Codecs of which a sample of the values chooses; one, unless `auto` is asked for.
    specs: Vec<Spec>,
    base: Option<&'a [u8]>,
}

impl<'a> Packing<'a> {
    /// Compression of a tensor by `spec`; by `auto`, as in files, the codec that codes a sample of it shortest. One whose type the codec does not know is coded as bytes, as `planes` has them. `base` are values of the
    /// same type and shape, of which the receiver has all: then differences from them are coded, by `auto` with `delta+rans`.
    ///
    /// # Errors
    /// [`TensorError::Shape`], [`TensorError::Spec`], [`TensorError::BaseLength`].
    pub fn new(
        description: &'a Description,
        spec: &Spec,
        base: Option<&'a [u8]>,
    ) -> Result<Self, TensorError> {
        let len = description.len()?;
        if let Some(found) = base.map(<[u8]>::len).filter(|found| *found != len) {
            return Err(TensorError::BaseLength { expected: len, found });
        }
        let fail = |source| TensorError::Spec { source };
        let row = description.shape.last().map_or(1, |row| usize::try_from(*row).unwrap_or(1).max(1));
        let known = DType::from_name(&description.dtype)
            .filter(|dtype| alternatives(spec).iter().any(|plain| supports(plain, *dtype)));
        let (plain, row) = match known {
            Some(_) => (alternatives(spec), row),
            None => (vec![for_bytes(width(&description.dtype))], 1),
        };
        let specs = match base {
            // Differences are coded by the first one, as in files.
            Some(_) if !plain[0].takes_base() => vec![against(&plain[0]).map_err(fail)?.for_rows(row)],
            Some(_) => vec![plain[0].clone().for_rows(row)],
            None => {
                let fits = |plain: &Spec| known.is_none_or(|dtype| supports(plain, dtype));
                let plain: Vec<Spec> = plain.into_iter().filter(fits).collect();
                plain
                    .iter()
                    .try_for_each(|plain| plain.clone().for_rows(1).complete().map(drop))
                    .map_err(fail)?;
                plain.into_iter().map(|plain| plain.for_rows(row)).collect()
            }
        };
        Ok(Self { description, len, dtype: known.unwrap_or(DType::F8E4M3), specs, base })
    }

    /// The most bytes that it takes compressed.
    pub fn bound(&self) -> usize {
        let chunk_len = self.chunk_len();
        let frame = |len: usize| {
            let shape =
                FrameShape { layout: Layout::Compact, dtype: self.dtype, count: len / self.dtype.width() };
            let bounds = self.specs.iter().map(|spec| self.codec(spec, 0..len).bound(shape));
            bounds.max().unwrap_or(0)
        };
        let (full, rest) = (self.len / chunk_len, self.len % chunk_len);
        let most = |chunks: usize, len| if chunks > 0 { chunks * frame(len) } else { 0 };
        let frames = most(full, chunk_len) + most(usize::from(rest > 0), rest);
        let chunks = full + usize::from(rest > 0);
        self.description.front_len() + 16 + frames + ContainerBuilder::index_len(chunks as u64) as usize
    }

    fn chunk_len(&self) -> usize {
        DEFAULT_CHUNK_VALUES as usize * self.dtype.width()
    }

    /// The codec of values at these bytes.
    fn codec(&self, spec: &Spec, range: Range<usize>) -> Box<dyn Codec> {
        match self.base {
            Some(base) => spec.clone().against(Base::new(self.dtype, base[range].to_vec())).codec(),
            None => spec.codec(),
        }
    }

    /// The codec that codes the chunk in the middle shortest.
    fn choose(&self, chunks: &[&[u8]]) -> &Spec {
        let sample = chunks.get(chunks.len() / 2).filter(|_| self.specs.len() > 1);
        let chosen = sample.and_then(|sample| smallest(&self.specs, self.dtype, sample));
        chosen.unwrap_or(&self.specs[0])
    }

    /// Compresses `values` into the front of `out`, which has [`Self::bound`] bytes or more; returns how many it takes. The bytes are the same on any number of threads.
    ///
    /// # Errors
    /// [`TensorError::Length`] and [`TensorError::Output`] for other numbers of bytes; [`TensorError::Stopped`].
    pub fn pack_into(&self, values: &[u8], out: &mut [u8], watch: &Watch<'_>) -> Result<usize, TensorError> {
        let (found, needed) = (out.len(), self.bound());
        if values.len() != self.len {
            let Description { dtype, shape, .. } = self.description.clone();
            return Err(TensorError::Length { dtype, shape, expected: self.len as u64, found: values.len() });
        }
        if found < needed {
            return Err(TensorError::Output { needed, found });
        }
        let front = self.description.to_bytes(self.base.is_some());
        let builder = ContainerBuilder::new(self.dtype, DEFAULT_CHUNK_VALUES)?;
        let (place, rest) = out.split_at_mut(front.len() + 16);
        place[..front.len()].copy_from_slice(&front);
        place[front.len()..].copy_from_slice(&builder.header());
        let chunks = values.chunks(self.chunk_len()).collect::<Vec<_>>();
        let turn = Turn { builder, rest };
        let spec = self.choose(&chunks);
        let plain = self.base.is_none().then(|| spec.codec());
        let prepare = |number: u64, work: &mut Frames| {
            let chunk = chunks[number as usize];
            work.clear();
            let pushed = match &plain {
                Some(codec) => work.push(&**codec, self.dtype, chunk),
                None => {
                    let start = number as usize * self.chunk_len();
                    work.push(&*self.codec(spec, start..start + chunk.len()), self.dtype, chunk)
                }
            };
            pushed.map_err(|source| TensorError::Container(source.into()))
        };
        let turn = watch.in_turn(
            chunks.len() as u64,
            turn,
            prepare,
            |_, work, turn: &mut Turn<'_>| Ok(turn.take(work.bytes())?),
            |work, place: &mut [u8]| {
                place.copy_from_slice(work.bytes());
                Ok::<_, TensorError>(())
            },
        )?;
        let Turn { builder, rest } = turn;
        let index = builder.finish(&[])?;
        let end = found - rest.len();
        rest[..index.len()].copy_from_slice(&index);
        Ok(end + index.len())
    }
}

/// State that chunks update in their order: the index, and what of the output is free.
struct Turn<'a> {
    builder: ContainerBuilder,
    rest: &'a mut [u8],
}

impl<'a> Turn<'a> {
    fn take(&mut self, frame: &[u8]) -> Result<&'a mut [u8], ContainerError> {
        self.builder.push(frame)?;
        let (place, rest) = mem::take(&mut self.rest).split_at_mut(frame.len());
        self.rest = rest;
        Ok(place)
    }
}
