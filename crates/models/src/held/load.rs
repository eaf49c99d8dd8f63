//! Loading of blocks: tensors are encoded, or their frames read.

use crate::file::{FileError, Model, buffer};
use rayon::prelude::*;
use zipwire_codec::{DType, Layout, Spec, encode_to_vec};

use crate::held::error::HeldError;
use crate::held::model::{ALIGN, Block, Form, Held, HeldOptions, Inner, Place, Which};
use crate::held::room::Room;

/// Makes a block of tensors.
pub(crate) fn load(
    models: &[Model],
    name: String,
    tensors: Vec<Which>,
    options: &HeldOptions,
) -> Result<Block, HeldError> {
    let (mut held, mut encoded) = (Vec::new(), Vec::new());
    let mut at = 0;
    for (number, tensor) in tensors {
        let (model, info) = (&models[number], models[number].tensors()[tensor].clone());
        let mut frames = None;
        let form = match &options.codec {
            Some(spec) if options.place == Place::Memory => {
                let (form, bytes) = encode(model, &info.name, spec, options.chunk_values.get())?;
                frames = Some(bytes);
                form
            }
            _ => model.container(&info.name)?.map_or(Form::Raw, |index| {
                let begin = if index.chunk_count() == 0 { 0 } else { index.frame(0).start };
                let ends = (0..index.chunk_count()).map(|chunk| (index.frame(chunk).end - begin) as usize);
                let chunk_len = index.chunk_values() as usize * index.dtype().width();
                Form::Frames { chunk_len, ends: ends.collect(), to: 0 }
            }),
        };
        encoded.push(frames);
        let tensor = Held { model: number, info, at, form };
        at = (at + tensor.bytes_kept()).next_multiple_of(ALIGN);
        held.push(tensor);
    }
    if options.place == Place::Disk {
        return Ok(Block::new(name, held, at, None));
    }
    let mut room = Room::new(at)?;
    for (tensor, bytes) in held.iter().zip(encoded) {
        let kept = &mut room.bytes_mut()[tensor.at..tensor.at + tensor.bytes_kept()];
        match bytes {
            Some(bytes) => kept.copy_from_slice(&bytes),
            None => read(&models[tensor.model], tensor, kept)?,
        }
    }
    Ok(Block::new(name, held, at, Some(room)))
}

impl Inner {
    /// Reads the stored bytes of a block from its files.
    pub(crate) fn read(&self, block: &Block, out: &mut [u8]) -> Result<(), HeldError> {
        block.tensors.iter().try_for_each(|tensor| {
            let kept = &mut out[tensor.at..tensor.at + tensor.bytes_kept()];
            read(&self.models[tensor.model], tensor, kept)
        })
    }
}

/// Reads the stored bytes of a tensor from its file, and compares frames with the index.
fn read(model: &Model, tensor: &Held, out: &mut [u8]) -> Result<(), HeldError> {
    let name = &tensor.info.name;
    let Form::Frames { ends, .. } = &tensor.form else { return Ok(model.read_kept(name, 0, out)?) };
    let Some(index) = model.container(name)?.filter(|index| index.chunk_count() > 0) else { return Ok(()) };
    model.read_kept(name, index.frame(0).start, out)?;
    let mut start = 0;
    for (chunk, end) in ends.iter().enumerate() {
        let checked = index.check(chunk, &out[start..*end]);
        checked.map_err(|source| HeldError::Index { tensor: name.clone(), source: Box::new(source) })?;
        start = *end;
    }
    Ok(())
}

/// Encodes a tensor in chunks, on all threads; it stays as it is if that takes no more.
fn encode(model: &Model, name: &str, spec: &Spec, chunk_values: usize) -> Result<(Form, Vec<u8>), HeldError> {
    let info = model.tensor(name)?;
    let mut values = buffer(info.bytes()).map_err(FileError::io("read", model.path()))?;
    values.resize(info.bytes() as usize, 0);
    model.read_into(name, 0, &mut values)?;
    let codec = spec.clone().for_rows(info.shape.last().copied().unwrap_or(1)).codec();
    let dtype = DType::from_name(&info.dtype).filter(|dtype| codec.supports(*dtype));
    let Some(dtype) = dtype else { return Ok((Form::Raw, values)) };
    let chunk_len = chunk_values.saturating_mul(dtype.width());
    let frames: Result<Vec<Vec<u8>>, _> = values
        .par_chunks(chunk_len)
        .map(|chunk| encode_to_vec(&*codec, Layout::Compact, dtype, chunk))
        .collect();
    let frames = frames.map_err(|source| HeldError::Encode { tensor: name.to_owned(), source })?;
    let ends: Vec<usize> = frames
        .iter()
        .scan(0, |end, frame| {
            *end += frame.len();
            Some(*end)
        })
        .collect();
    if ends.last().is_none_or(|end| *end >= values.len()) {
        return Ok((Form::Raw, values));
    }
    Ok((Form::Frames { chunk_len, ends, to: 0 }, frames.concat()))
}
