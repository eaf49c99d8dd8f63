//! Plan of a file's compression: the parts it is cut into, and how each is coded.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use zipwire_codec::{Base, DEFAULT_CHUNK_VALUES, DType, Layout, Spec, encode_to_vec};

use crate::file::header::TensorInfo;
use crate::file::layout::Run;
use crate::file::model::Model;
use crate::file::part::span;
use crate::file::{FileError, Watch, at};

/// Values are kept as they are if a sample of them saves less than this share of its bytes: they are read without decoding then.
pub const LEAST_SAVING: f64 = 0.02;
/// Tensors of types that no codec knows, and members of archives, are coded from so many bytes on.
pub const LEAST_BYTES: u64 = 1 << 12;
/// Prefix of the names of parts of an archive that are no members.
pub(crate) const BETWEEN: &str = "zipwire.between.";
/// Prefix of codecs that code differences from a base.
const DELTA: &str = "delta+";
/// The codec for values of types that no other codec knows: byte groups, by Huffman codes or by zstd.
pub const FOR_BYTES: &str = "grouped";
/// Tensors of at most so many bytes share a chunk with their neighbours of the same type, as far as these fit into it.
const SMALL: u64 = 1 << 16;
/// Bytes that a container and its frame take at the least, whatever is in it.
const LEAST_CODED: u64 = 96;

/// Successive tensors that are kept as they are, or in one container.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) tensors: Range<usize>,
    pub(crate) coding: Option<Coding>,
}

impl Part {
    /// All parts, as the index of a compressed file has them.
    pub(crate) fn runs(parts: &[Self]) -> Vec<Run> {
        parts.iter().map(|part| (part.tensors.clone(), part.coding.is_some())).collect()
    }
}

/// Codec and type for the chunks of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coding {
    pub(crate) kind: Kind,
    pub(crate) dtype: DType,
    /// Values of a row.
    row: usize,
}

/// Codec of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The one that was asked for.
    Plain,
    /// The one for differences from the base, which has the same tensors.
    Against,
    /// [`FOR_BYTES`].
    Bytes,
}

impl Coding {
    /// Coding of values of this type, by the codec that was asked for.
    pub(crate) fn plain(dtype: DType) -> Self {
        Self { kind: Kind::Plain, dtype, row: 1 }
    }

    /// Coding of values of which no codec knows the type.
    pub(crate) fn for_bytes() -> Self {
        Self { kind: Kind::Bytes, dtype: DType::F8E4M3, row: 1 }
    }

    /// The type of the values: that of bytes, if it is that only for want of another.
    pub(crate) fn dtype_name(&self) -> &'static str {
        if self.kind == Kind::Bytes { "U8" } else { self.dtype.name() }
    }

    /// Bytes of the values of a chunk.
    pub(crate) fn chunk_len(&self) -> u64 {
        u64::from(DEFAULT_CHUNK_VALUES) * self.dtype.width() as u64
    }
}

/// The codecs of a file.
#[derive(Debug)]
pub(crate) struct Codecs<'a> {
    plain: Spec,
    bytes: Spec,
    /// For tensors that the base has, too.
    against: Option<(Spec, &'a Model)>,
}

impl<'a> Codecs<'a> {
    /// # Errors
    /// [`FileError::Delta`] if no differences are coded by this codec, or it needs a base and there is none.
    pub(crate) fn new(spec: &Spec, base: Option<&'a Model>) -> Result<Self, FileError> {
        let text = spec.to_string();
        let unfit = |source| FileError::Delta { spec: text.clone(), source };
        let plain: Spec = text.strip_prefix(DELTA).unwrap_or(&text).parse().map_err(unfit)?;
        let bytes = FOR_BYTES.parse().expect("this codec has no options that are needed");
        let Some(base) = base else {
            spec.clone().for_rows(1).complete().map_err(unfit)?;
            return Ok(Self { plain, bytes, against: None });
        };
        let delta = format!("{DELTA}{plain}").parse().map_err(unfit)?;
        Ok(Self { plain, bytes, against: Some((delta, base)) })
    }

    /// The file that differences are taken from.
    pub(crate) fn base(&self) -> Option<&'a Model> {
        self.against.as_ref().map(|(_, base)| *base)
    }

    /// Whether the codec that was asked for takes values of this type.
    pub(crate) fn supports(&self, dtype: DType) -> bool {
        self.plain.codec().supports(dtype)
    }

    /// The codec for bytes of a part that has these tensors.
    pub(crate) fn spec(
        &self,
        coding: &Coding,
        tensors: &[TensorInfo],
        range: Range<u64>,
    ) -> Result<Spec, FileError> {
        let spec = match (coding.kind, &self.against) {
            (Kind::Bytes, _) => return Ok(self.bytes.clone()),
            (Kind::Against, Some((spec, base))) => {
                let values = base.before(tensors, range)?;
                let spec = spec.clone();
                values.map_or(spec.clone(), |values| spec.against(Base::new(coding.dtype, values)))
            }
            _ => self.plain.clone(),
        };
        Ok(spec.for_rows(coding.row))
    }

    /// How a tensor is coded, if that is worth it.
    fn coding(&self, tensor: &TensorInfo) -> Coding {
        let row = tensor.shape.last().copied().unwrap_or(1);
        match DType::from_name(&tensor.dtype).filter(|dtype| self.supports(*dtype)) {
            Some(dtype) => {
                let before = self.against.as_ref().and_then(|(_, base)| base.tensor(&tensor.name).ok());
                let is_same =
                    |before: &&TensorInfo| (&before.dtype, &before.shape) == (&tensor.dtype, &tensor.shape);
                let kind = if before.filter(is_same).is_some() { Kind::Against } else { Kind::Plain };
                Coding { kind, dtype, row }
            }
            None => Coding::for_bytes(),
        }
    }
}

/// Cuts the tensors of a file into parts. Its values begin at `values_at`.
pub(crate) fn plan(
    (file, path): (&File, &Path),
    tensors: &[TensorInfo],
    values_at: u64,
    codecs: &Codecs<'_>,
    watch: &Watch<'_>,
) -> Result<Vec<Part>, FileError> {
    let mut parts = candidates(tensors, codecs);
    let are_worth_it: Vec<AtomicBool> = parts.iter().map(|_| AtomicBool::new(false)).collect();
    let silent = Watch { done: &|_| (), ..*watch };
    silent.for_each(parts.len(), |number, _| {
        if let Part { tensors: range, coding: Some(coding) } = &parts[number] {
            let share = share_of_sample((file, path), &tensors[range.clone()], values_at, coding, codecs)?;
            are_worth_it[number].store(share.is_some(), Ordering::Relaxed);
        }
        Ok::<_, FileError>(())
    })?;
    for (part, is_worth_it) in parts.iter_mut().zip(are_worth_it) {
        part.coding = part.coding.filter(|_| is_worth_it.into_inner());
    }
    // What is kept as it is lies together.
    parts.dedup_by(|next, part| {
        let joined = part.coding.is_none() && next.coding.is_none();
        if joined {
            part.tensors.end = next.tensors.end;
        }
        joined
    });
    Ok(parts)
}

/// Parts as they would be if each were worth coding: small neighbours that are coded alike share a chunk.
fn candidates(tensors: &[TensorInfo], codecs: &Codecs<'_>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let is_small = |tensor: &TensorInfo| tensor.bytes() <= SMALL;
    for (number, tensor) in tensors.iter().enumerate() {
        let coding = codecs.coding(tensor);
        if let Some(Part { tensors: before, coding: Some(known) }) = parts.last_mut()
            && is_small(tensor)
            && is_small(&tensors[before.start])
            && tensors[before.start].dtype == tensor.dtype
            && (known.kind, known.dtype) == (coding.kind, coding.dtype)
            && tensor.range.end - tensors[before.start].range.start <= coding.chunk_len()
        {
            before.end += 1;
            // Rows of several lengths are none.
            known.row = if known.row == coding.row { known.row } else { 1 };
            continue;
        }
        parts.push(Part { tensors: number..number + 1, coding: Some(coding) });
    }
    for part in &mut parts {
        let span = span(&tensors[part.tensors.clone()]);
        let least = match part.coding {
            Some(Coding { kind: Kind::Bytes, .. }) => LEAST_BYTES,
            _ => LEAST_CODED,
        };
        part.coding = part.coding.filter(|_| span.end - span.start >= least);
    }
    parts
}

/// The share of its bytes that the chunk in the middle of a part takes when it is coded so; `None` if that saves too little.
pub(crate) fn share_of_sample(
    (file, path): (&File, &Path),
    tensors: &[TensorInfo],
    values_at: u64,
    coding: &Coding,
    codecs: &Codecs<'_>,
) -> Result<Option<f64>, FileError> {
    let (span, chunk_len) = (span(tensors), coding.chunk_len());
    let bytes = span.end - span.start;
    let start = bytes / chunk_len / 2 * chunk_len;
    let len = chunk_len.min(bytes - start);
    let values = len / coding.dtype.width() as u64 * coding.dtype.width() as u64;
    let mut sample = vec![0; values as usize];
    if sample.is_empty() {
        return Ok(None);
    }
    at::read_exact(file, &mut sample, values_at + span.start + start).map_err(FileError::io("read", path))?;
    let codec = codecs.spec(coding, tensors, start..start + values)?.codec();
    let frame = encode_to_vec(&*codec, Layout::Compact, coding.dtype, &sample)
        .map_err(|source| FileError::Encode { path: path.to_owned(), source })?;
    // A container of one chunk has 56 bytes beside its frame, and its length takes 8.
    let share = (frame.len() + 64) as f64 / sample.len() as f64;
    Ok((share <= 1.0 - LEAST_SAVING).then_some(share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_neighbours_of_a_type_share_a_chunk() {
        let mut at = 0;
        let mut tensor = |dtype: &str, bytes: u64| {
            at += bytes;
            TensorInfo {
                name: at.to_string(),
                dtype: dtype.to_owned(),
                shape: vec![bytes as usize],
                range: at - bytes..at,
            }
        };
        let mut tensors: Vec<TensorInfo> = (0..5).map(|_| tensor("BF16", SMALL)).collect();
        tensors.extend([tensor("F32", 200), tensor("F32", 96), tensor("F32", SMALL + 4), tensor("F32", 200)]);
        tensors.extend([tensor("I32", 4000), tensor("U32", 4000), tensor("U32", 96), tensor("BF16", 90)]);
        let codecs = Codecs::new(&"rans".parse().unwrap(), None).unwrap();
        let parts = candidates(&tensors, &codecs);
        let found: Vec<_> = parts.iter().map(|part| (part.tensors.clone(), part.coding.is_some())).collect();
        let expected = [
            // A chunk of BF16 has 256 KiB.
            (0..4, true),
            (4..5, true),
            (5..7, true),
            (7..8, true),
            (8..9, true),
            (9..10, false),
            (10..12, true),
            (12..13, false),
        ];
        assert_eq!(found, expected);
    }
}
