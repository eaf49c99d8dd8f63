//! Plan of a file's compression: the parts it is cut into, and how each is coded.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use zipwire_codec::{Base, DEFAULT_CHUNK_VALUES, DType, FrameShape, Layout, Spec, encode_to_vec};

use crate::file::header::TensorInfo;
use crate::file::model::Model;
use crate::file::note::PIECE;
use crate::file::{FileError, at};

/// Values are kept as they are if a sample of them saves less than this share of its bytes: what reads safetensors then finds a tensor as it is.
pub const LEAST_SAVING: f64 = 0.02;
/// Tensors of types that no codec knows, and members of archives, are coded from so many bytes on.
pub const LEAST_BYTES: u64 = 1 << 12;
/// Prefix of the names of parts of an archive that are no members.
pub(crate) const BETWEEN: &str = "zipwire.between.";
/// Prefix of codecs that code differences from a base.
const DELTA: &str = "delta+";
/// The codec for values of types that no other codec knows: byte groups, by Huffman codes or by zstd.
pub const FOR_BYTES: &str = "grouped";

/// Successive bytes of a file.
#[derive(Debug)]
pub(crate) struct Part {
    /// The tensor of the compressed file that will have them.
    pub(crate) tensor: String,
    /// Where they are in the file that is compressed.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) how: How,
}

#[derive(Debug)]
pub(crate) enum How {
    /// Unchanged, under its own type and shape.
    Stored {
        dtype: String,
        shape: Vec<usize>,
    },
    /// Unchanged, as `U8`.
    Bytes,
    Coded(Coding),
}

/// Codec, type and base for the chunks of a part.
#[derive(Debug)]
pub(crate) struct Coding {
    pub(crate) spec: Spec,
    pub(crate) dtype: DType,
    /// The tensor of the base whose chunks the spec takes differences from.
    pub(crate) base: Option<String>,
}

impl Coding {
    /// The type of the values: that of bytes, if it is that only for want of another.
    pub(crate) fn dtype_name(&self) -> &'static str {
        if self.spec.to_string() == FOR_BYTES { "U8" } else { self.dtype.name() }
    }

    /// Bytes of the values of a chunk.
    pub(crate) fn chunk_len(&self) -> u64 {
        u64::from(DEFAULT_CHUNK_VALUES) * self.dtype.width() as u64
    }

    /// The codec for the chunk at `start` of the part, of so many bytes.
    pub(crate) fn spec_at(&self, base: Option<&Model>, start: u64, len: u64) -> Result<Spec, FileError> {
        let Some((name, base)) = self.base.as_deref().zip(base) else { return Ok(self.spec.clone()) };
        let values = base.read_bytes(name, start..start + len)?;
        Ok(self.spec.clone().against(Base::new(self.dtype, values)))
    }

    /// The most bytes of the frame of a chunk with so many bytes.
    pub(crate) fn bound(&self, len: u64) -> u64 {
        let shape = FrameShape::new(Layout::Compact, self.dtype, len as usize / self.dtype.width());
        self.spec.codec().bound(shape) as u64
    }
}

impl Part {
    /// How many pieces it has: at least one, so that each part is begun and ended.
    pub(crate) fn pieces(&self) -> u64 {
        self.bytes.div_ceil(PIECE).max(1)
    }

    /// The most bytes that it takes in the compressed file.
    pub(crate) fn bound(&self) -> u64 {
        match &self.how {
            How::Stored { .. } => self.bytes,
            How::Bytes => self.bytes.next_multiple_of(8),
            How::Coded(coding) => {
                let (chunks, rest) = (self.bytes / coding.chunk_len(), self.bytes % coding.chunk_len());
                let frames = chunks * (coding.bound(coding.chunk_len()) + 8) + coding.bound(rest) + 8;
                (frames + 48).next_multiple_of(8)
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Codecs<'a> {
    pub(crate) plain: Spec,
    /// For tensors that the base has, too.
    pub(crate) against: Option<(Spec, &'a Model)>,
}

impl<'a> Codecs<'a> {
    /// # Errors
    /// [`FileError::Delta`] if no differences are coded by this codec, or it needs a base and there is none.
    pub(crate) fn new(spec: &Spec, base: Option<&'a Model>) -> Result<Self, FileError> {
        let text = spec.to_string();
        let unfit = |source| FileError::Delta { spec: text.clone(), source };
        let plain = text.strip_prefix(DELTA).unwrap_or(&text).parse().map_err(unfit)?;
        let Some(base) = base else {
            let plain = spec.clone().for_rows(1).complete().map(|_| plain).map_err(unfit)?;
            return Ok(Self { plain, against: None });
        };
        let delta = format!("{DELTA}{plain}").parse().map_err(unfit)?;
        Ok(Self { plain, against: Some((delta, base)) })
    }
}

/// How a tensor is kept, by a sample of its values, which begin at `at` in the file.
pub(crate) fn choose(
    (file, path): (&File, &Path),
    tensor: &TensorInfo,
    at: u64,
    codecs: &Codecs<'_>,
) -> Result<How, FileError> {
    let stored = || How::Stored { dtype: tensor.dtype.clone(), shape: tensor.shape.clone() };
    let row = tensor.shape.last().copied().unwrap_or(1);
    let before =
        codecs.against.as_ref().and_then(|(spec, base)| Some((spec, *base, base.tensor(&tensor.name).ok()?)));
    let before =
        before.filter(|(_, _, before)| (&before.dtype, &before.shape) == (&tensor.dtype, &tensor.shape));
    let spec = before.map_or(&codecs.plain, |(spec, _, _)| spec);
    let coding = match DType::from_name(&tensor.dtype).filter(|dtype| codecs.plain.codec().supports(*dtype)) {
        Some(dtype) => Coding {
            spec: spec.clone().for_rows(row),
            dtype,
            base: before.map(|(_, _, before)| before.name.clone()),
        },
        None if tensor.bytes() >= LEAST_BYTES => for_bytes(),
        None => return Ok(stored()),
    };
    let range = at..at + tensor.bytes();
    let share = share_of_sample((file, path), &range, &coding, before.map(|(_, base, _)| base))?;
    Ok(if share.is_some() { How::Coded(coding) } else { stored() })
}

/// The coding of what has no type that a codec knows.
pub(crate) fn for_bytes() -> Coding {
    Coding {
        spec: FOR_BYTES.parse().expect("this codec has no options that are needed"),
        dtype: DType::F8E4M3,
        base: None,
    }
}

/// The share of its bytes that the chunk in the middle takes when it is coded so; `None` if that saves too little.
pub(crate) fn share_of_sample(
    (file, path): (&File, &Path),
    range: &Range<u64>,
    coding: &Coding,
    base: Option<&Model>,
) -> Result<Option<f64>, FileError> {
    let (bytes, chunk_len) = (range.end - range.start, coding.chunk_len());
    let start = bytes / chunk_len / 2 * chunk_len;
    let len = chunk_len.min(bytes - start);
    let values = len / coding.dtype.width() as u64 * coding.dtype.width() as u64;
    let mut sample = vec![0; values as usize];
    if sample.is_empty() {
        return Ok(None);
    }
    at::read_exact(file, &mut sample, range.start + start).map_err(FileError::io("read", path))?;
    let codec = coding.spec_at(base, start, values)?.codec();
    let frame = encode_to_vec(&*codec, Layout::Compact, coding.dtype, &sample)
        .map_err(|source| FileError::Encode { path: path.to_owned(), source })?;
    // A container has 48 bytes beside its frames.
    let share = (frame.len() + 48) as f64 / sample.len() as f64;
    Ok((share <= 1.0 - LEAST_SAVING).then_some(share))
}
