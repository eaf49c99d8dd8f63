//! Files of version 1, which are read and not written: safetensors files with a tensor for each part of the original, and its lengths as JSON in
//! their metadata.

use std::fs::File;
use std::path::Path;

use serde::Deserialize;
use zipwire_codec::DType;

use crate::file::header::{Header, TensorInfo};
use crate::file::layout::{Archive, KEY};
use crate::file::part::Part;
use crate::file::{FileError, at, buffer};

/// How the file that was compressed comes back.
#[derive(Debug, Deserialize)]
pub(crate) struct Note {
    version: u64,
    pub(crate) bytes: u64,
    pub(crate) digest: String,
    #[serde(default)]
    pub(crate) base: Option<String>,
    #[serde(default)]
    pub(crate) archive: Option<Archive>,
    parts: Vec<PartNote>,
}

/// Successive bytes of the file that was compressed.
#[derive(Debug, Deserialize)]
struct PartNote {
    /// The tensor of the compressed file that has them: with zeros behind them, if there are more.
    tensor: String,
    bytes: u64,
    /// How many bytes of the tensor are a container with them; if there is none, they are there as they are.
    #[serde(default)]
    container: Option<u64>,
    /// Type of the values, for parts of an archive that are coded as values.
    #[serde(default)]
    dtype: Option<String>,
}

impl Note {
    /// Reads it from a header; `None` if there is none, or if the key is somebody else's.
    ///
    /// # Errors
    /// If it is damaged.
    pub(crate) fn of(header: &Header, path: &Path) -> Result<Option<Self>, FileError> {
        let Some(text) = header.notes().get(KEY) else { return Ok(None) };
        let note: Self = match serde_json::from_str(text) {
            Ok(note) => note,
            // This is how every one begins that was written, and what it has.
            Err(error)
                if text.starts_with(r#"{"version":1,"bytes":"#)
                    || text.contains(r#""parts":[{"tensor":"#) =>
            {
                return Err(FileError::damaged(path, format!("metadata `{KEY}`: {error}")));
            }
            Err(_) => return Ok(None),
        };
        let sum = note.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.bytes));
        if note.version != 1 || sum != Some(note.bytes) {
            let what = format!("its parts have not the {} bytes of the whole", note.bytes);
            return Err(FileError::damaged(path, what));
        }
        Ok(Some(note))
    }

    /// The original's header, and a part for each of its tensors. Of an archive its parts are the tensors.
    ///
    /// # Errors
    /// If the file is damaged, or cannot be read.
    pub(crate) fn parts(
        &self,
        (file, path): (&File, &Path),
        outer: &Header,
    ) -> Result<(Header, Vec<Part>), FileError> {
        let damaged = |what: String| FileError::damaged(path, what);
        let values_at = outer.bytes().len() as u64;
        let mut places = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let place = outer.number(&part.tensor).map(|number| &outer.tensors()[number]);
            let needed = part.container.unwrap_or(part.bytes);
            let fits = |tensor: &&TensorInfo| (needed..needed.saturating_add(8)).contains(&tensor.bytes());
            let tensor = place.filter(fits);
            let tensor = tensor
                .ok_or_else(|| damaged(format!("part `{}` has no tensor of its length", part.tensor)))?;
            places.push(values_at + tensor.range.start);
        }
        let (header, own) = if self.archive.is_some() {
            (Header::of_members(self.members().map_err(damaged)?).map_err(damaged)?, 0)
        } else {
            let first = self.parts.first().filter(|part| part.container.is_none());
            let first = first.ok_or_else(|| damaged("the first of its parts is no header".to_owned()))?;
            let read = FileError::io("read", path);
            let mut bytes = buffer(first.bytes).map_err(&read)?;
            bytes.resize(first.bytes as usize, 0);
            at::read_exact(file, &mut bytes, places[0]).map_err(&read)?;
            let header = Header::parse(bytes).and_then(|header| header.fits(self.bytes).map(|()| header));
            let unfit = |error| damaged(format!("the header of what was compressed: {error}"));
            (header.map_err(unfit)?, 1)
        };
        let (notes, places) = (&self.parts[own..], &places[own..]);
        let is_part = |(tensor, part): (&TensorInfo, &PartNote)| {
            (tensor.name.as_str(), tensor.bytes()) == (part.tensor.as_str(), part.bytes)
        };
        if header.tensors().len() != notes.len() || !header.tensors().iter().zip(notes).all(is_part) {
            return Err(damaged("its parts are not those that its header has".to_owned()));
        }
        let part = |(number, (part, at)): (usize, (&PartNote, &u64))| {
            Part::new(number..number + 1, *at, part.container)
        };
        let parts = notes.iter().zip(places).enumerate().map(part).collect();
        Ok((header, parts))
    }

    /// The parts of an archive, as if they were tensors of one dimension.
    fn members(&self) -> Result<Vec<TensorInfo>, String> {
        let mut end = 0;
        let member = |part: &PartNote| {
            let dtype = part.dtype.clone().unwrap_or_else(|| "U8".to_owned());
            let width = DType::from_name(&dtype).map_or(1, |dtype| dtype.width() as u64);
            let PartNote { tensor: name, bytes, .. } = part;
            if !bytes.is_multiple_of(width) {
                return Err(format!("part `{name}` has {bytes} bytes, which are no whole values of {dtype}"));
            }
            let (start, shape) = (end, vec![(bytes / width) as usize]);
            end += bytes;
            Ok(TensorInfo { name: name.clone(), dtype, shape, range: start..end })
        };
        self.parts.iter().map(member).collect()
    }
}
