//! Plan of a file's compression: the parts it is cut into, and how each is coded.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use zipwire_codec::{Base, Codec, DEFAULT_CHUNK_VALUES, DType, Layout, Spec, SpecError};

use crate::file::bases::Bases;
use crate::file::header::TensorInfo;
use crate::file::layout::Run;
use crate::file::part::span;
use crate::file::{FileError, Watch, at};

/// Values are kept as they are if a sample of them saves less than this share of its bytes: they are read without decoding then.
pub(crate) const LEAST_SAVING: f64 = 0.02;
/// Tensors of types that no codec knows, and members of archives, are coded from so many bytes on.
pub(crate) const LEAST_BYTES: u64 = 1 << 12;
/// Prefix of the names of parts of an archive that are no members.
pub(crate) const BETWEEN: &str = "zipwire.between.";
/// Prefix of codecs that code differences from a base.
const DELTA: &str = "delta+";
/// The codec for values of types that no other codec knows: byte planes, by the width of a value.
const FOR_BYTES: &str = "planes:width=";
/// Codecs of which `auto` takes, for each tensor, the one that codes a sample of it shortest. Each encodes 0.3 GB/s and decodes 1 GB/s of
/// values on a core, as docs/benchmarks/codec.md has it: speed is no part of the choice.
const SMALLEST: [&str; 3] = ["rans", "planes", "dedup+planes"];
/// The spec that stands for these.
const AUTO: &str = "auto";
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

    /// Whether it has differences from a base.
    pub(crate) fn is_against(&self) -> bool {
        self.coding.is_some_and(|coding| coding.is_against)
    }
}

/// Codec and type for the chunks of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coding {
    class: Class,
    /// Position among the codecs of its class.
    codec: usize,
    /// Whether it takes differences from the base, which has the same tensors.
    pub(crate) is_against: bool,
    /// Values of a row.
    row: usize,
}

/// Values that have codecs in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Values of a type that codecs know.
    Values(DType),
    /// Values of another type, by their bytes.
    Bytes(usize),
}

impl Coding {
    /// Type of the values of frames.
    pub(crate) fn dtype(&self) -> DType {
        match self.class {
            Class::Values(dtype) => dtype,
            Class::Bytes(_) => DType::F8E4M3,
        }
    }

    /// Coding of values of this type, by the first codec that was asked for.
    pub(crate) fn plain(dtype: DType) -> Self {
        Self { class: Class::Values(dtype), codec: 0, is_against: false, row: 1 }
    }

    /// The type of the values: that of bytes, if it is that only for want of another.
    pub(crate) fn dtype_name(&self) -> &'static str {
        match self.class {
            Class::Values(dtype) => dtype.name(),
            Class::Bytes(_) => "U8",
        }
    }

    /// Bytes of the values of a chunk.
    pub(crate) fn chunk_len(&self) -> u64 {
        u64::from(DEFAULT_CHUNK_VALUES) * self.dtype().width() as u64
    }
}

/// Bytes of a value of a type, or of each of its parts; 1 of types that are not known.
pub(crate) fn width(dtype: &str) -> usize {
    match dtype {
        "I16" | "U16" | "BF16" | "F16" => 2,
        // Complex numbers are pairs.
        "I32" | "U32" | "F32" | "C64" => 4,
        "I64" | "U64" | "F64" | "C128" => 8,
        _ => 1,
    }
}

/// The codec for values of so many bytes, whatever their type.
pub(crate) fn for_bytes(width: usize) -> Spec {
    format!("{FOR_BYTES}{width}").parse().expect("all widths of types are ones of the codec")
}

/// The codecs that a spec stands for: of `auto`, those of which a sample chooses.
pub(crate) fn alternatives(plain: &Spec) -> Vec<Spec> {
    if plain.to_string() != AUTO {
        return vec![plain.clone()];
    }
    SMALLEST.map(|spec| spec.parse().expect("they need no options")).to_vec()
}

/// Whether a codec takes values of a type, in rows of any length.
pub(crate) fn supports(spec: &Spec, dtype: DType) -> bool {
    spec.clone().for_rows(1).codec().supports(dtype)
}

/// The codec for values that are known by a sample of them: of those that `spec` stands for, the one that codes the sample shortest.
pub fn codec_for(spec: &Spec, dtype: DType, sample: &[u8]) -> Spec {
    let whole = &sample[..sample.len() / dtype.width() * dtype.width()];
    let rows = |spec: Spec| spec.for_rows(1);
    let specs: Vec<Spec> =
        alternatives(spec).into_iter().filter(|spec| supports(spec, dtype)).map(rows).collect();
    smallest(&specs, dtype, whole).unwrap_or(spec).clone()
}

/// The codec that codes these values shortest.
pub(crate) fn smallest<'a>(specs: &'a [Spec], dtype: DType, values: &[u8]) -> Option<&'a Spec> {
    let coded = |spec: &&Spec| {
        spec.codec().encode_to_vec(Layout::Compact, dtype, values).map_or(usize::MAX, |frame| frame.len())
    };
    specs.iter().min_by_key(coded)
}

/// The codec for differences, which codes by `plain` what the base does not help.
pub(crate) fn against(plain: &Spec) -> Result<Spec, SpecError> {
    format!("{DELTA}{plain}").parse()
}

/// The codecs of a file.
#[derive(Debug)]
pub(crate) struct Codecs<'a> {
    plain: Vec<Spec>,
    /// For differences, by the first of these, from tensors that the base has, too.
    against: Option<(Spec, &'a Bases)>,
}

impl<'a> Codecs<'a> {
    /// # Errors
    /// [`FileError::Delta`] if no differences are coded by this codec, or it needs a base and there is none.
    pub(crate) fn new(spec: &Spec, bases: Option<&'a Bases>) -> Result<Self, FileError> {
        let text = spec.to_string();
        let unfit = |source| FileError::Delta { spec: text.clone(), source };
        let plain = alternatives(&text.strip_prefix(DELTA).unwrap_or(&text).parse().map_err(unfit)?);
        let Some(bases) = bases else {
            spec.clone().for_rows(1).complete().map_err(unfit)?;
            return Ok(Self { plain, against: None });
        };
        let delta = against(&plain[0]).map_err(unfit)?;
        Ok(Self { plain, against: Some((delta, bases)) })
    }

    /// The files that the differences of these parts are taken from.
    pub(crate) fn bases_of(&self, parts: &[Part], tensors: &[TensorInfo]) -> Bases {
        let Some((_, bases)) = &self.against else { return Bases::default() };
        let against = parts.iter().filter(|part| part.is_against());
        bases.with(against.flat_map(|part| &tensors[part.tensors.clone()]).map(|tensor| &*tensor.name))
    }

    /// The codec for bytes of a part that has these tensors.
    pub(crate) fn spec(
        &self,
        coding: &Coding,
        tensors: &[TensorInfo],
        range: Range<u64>,
    ) -> Result<Spec, FileError> {
        let plain = match coding.class {
            Class::Values(_) => self.plain[coding.codec].clone(),
            Class::Bytes(width) => for_bytes(width),
        };
        let Some((delta, bases)) = self.against.as_ref().filter(|_| coding.is_against) else {
            return Ok(plain.for_rows(coding.row));
        };
        let spec = match coding.class {
            Class::Values(_) => delta.clone(),
            Class::Bytes(_) => against(&plain).expect("differences of bytes are coded"),
        };
        let spec = match bases.before(tensors, range)? {
            Some(values) => spec.against(Base::new(coding.dtype(), values)),
            None => spec,
        };
        Ok(spec.for_rows(coding.row))
    }

    /// The first way in which a tensor may be coded.
    fn coding(&self, tensor: &TensorInfo) -> Coding {
        let row = tensor.shape.last().copied().unwrap_or(1);
        let before = self.against.as_ref().and_then(|(_, bases)| bases.find(&tensor.name));
        let before = before.map(|(model, number)| &model.tensors()[number]);
        let is_same = |before: &&TensorInfo| (&before.dtype, &before.shape) == (&tensor.dtype, &tensor.shape);
        let dtype = DType::from_name(&tensor.dtype).filter(|dtype| self.supports(*dtype));
        let class = dtype.map_or(Class::Bytes(width(&tensor.dtype)), Class::Values);
        let row = if matches!(class, Class::Values(_)) { row } else { 1 };
        Coding { class, codec: 0, is_against: before.filter(is_same).is_some(), row }
    }

    /// Whether a codec that was asked for takes values of this type.
    fn supports(&self, dtype: DType) -> bool {
        self.plain.iter().any(|plain| supports(plain, dtype))
    }

    /// All ways in which values may be coded that have this one: where a sample chooses the codec, also without differences.
    fn ways(&self, coding: Coding) -> Vec<Coding> {
        let by = |codec: usize| Coding { codec, is_against: false, ..coding };
        let plain: Vec<Coding> = match coding.class {
            Class::Bytes(_) => vec![by(0)],
            Class::Values(dtype) => {
                let fits = |number: &usize| supports(&self.plain[*number], dtype);
                (0..self.plain.len()).filter(fits).map(by).collect()
            }
        };
        match coding.is_against {
            true if self.plain.len() == 1 => vec![coding],
            true => [vec![coding], plain].concat(),
            false => plain,
        }
    }

    /// All ways in which values of one type may be coded, whichever it is unless it is `dtype`.
    pub(crate) fn ways_of_values(&self, dtype: Option<DType>) -> Vec<Coding> {
        let types = DType::ALL.into_iter().filter(|other| dtype.is_none_or(|dtype| dtype == *other));
        types
            .filter(|dtype| self.supports(*dtype))
            .flat_map(|dtype| self.ways(Coding::plain(dtype)))
            .collect()
    }

    /// All ways in which bytes may be coded of which it is not known how many are a value.
    pub(crate) fn ways_of_bytes() -> [Coding; 3] {
        [1, 4, 8].map(|width| Coding { class: Class::Bytes(width), ..Coding::plain(DType::F8E4M3) })
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
    let chosen: Vec<OnceLock<Option<Coding>>> = parts.iter().map(|_| OnceLock::new()).collect();
    let silent = Watch { done: &|_| (), ..*watch };
    silent.for_each(parts.len(), |number, _| {
        if let Part { tensors: range, coding: Some(coding) } = &parts[number] {
            let (tensors, ways) = (&tensors[range.clone()], codecs.ways(*coding));
            let shortest = shortest((file, path), tensors, values_at, &ways, codecs)?;
            chosen[number].get_or_init(|| shortest.map(|(_, coding)| coding));
        }
        Ok::<_, FileError>(())
    })?;
    for (part, chosen) in parts.iter_mut().zip(chosen) {
        part.coding = chosen.into_inner().flatten();
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
            && (known.class, known.is_against) == (coding.class, coding.is_against)
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
            Some(Coding { class: Class::Bytes(_), .. }) => LEAST_BYTES,
            _ => LEAST_CODED,
        };
        part.coding = part.coding.filter(|_| span.end - span.start >= least);
    }
    parts
}

/// The way that codes the chunk in the middle of a part shortest, and the share of its bytes that it takes then; `None` if none saves enough.
pub(crate) fn shortest(
    (file, path): (&File, &Path),
    tensors: &[TensorInfo],
    values_at: u64,
    ways: &[Coding],
    codecs: &Codecs<'_>,
) -> Result<Option<(f64, Coding)>, FileError> {
    let span = span(tensors);
    let mut best: Option<(f64, Coding)> = None;
    let mut sample = Vec::new();
    for coding in ways {
        let (bytes, chunk_len) = (span.end - span.start, coding.chunk_len());
        let start = bytes / chunk_len / 2 * chunk_len;
        let len = chunk_len.min(bytes - start);
        let values = len / coding.dtype().width() as u64 * coding.dtype().width() as u64;
        sample.resize(values as usize, 0);
        if sample.is_empty() {
            continue;
        }
        let at = values_at + span.start + start;
        at::read_exact(file, &mut sample, at).map_err(FileError::io("read", path))?;
        let codec = codecs.spec(coding, tensors, start..start + values)?.codec();
        let frame = codec
            .encode_to_vec(Layout::Compact, coding.dtype(), &sample)
            .map_err(|source| FileError::Encode { path: path.to_owned(), source })?;
        // A container of one chunk has 56 bytes beside its frame, and its length takes 8.
        let share = (frame.len() + 64) as f64 / sample.len() as f64;
        if best.is_none_or(|(least, _)| share < least) {
            best = Some((share, *coding));
        }
    }
    Ok(best.filter(|(share, _)| *share <= 1.0 - LEAST_SAVING))
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
