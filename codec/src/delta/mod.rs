//! `delta+X`: differences from values that both ends have.
//!
//! Checkpoints one step apart, or the weights before and after an update, differ in their last bits. As integers in the order of what
//! they stand for, values and those of a base are close; how close follows from the exponent of the base value, as what an optimizer
//! adds does not depend on it. So the lowest bits of a difference are noise, of known number, and what is above them is a small number, which
//! is coded like the residuals of X. In the split layout, whose lengths must not depend on values, frames are those of X.

mod coding;
mod entry;
mod sample;

pub(crate) use coding::decode;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::RefUnwindSafe;
use std::sync::Arc;

use crate::codec::{Checked, Sealed};
use crate::kernel::Kernel;
use crate::options::{self, listed};
use crate::planes::{self, Planes};
use crate::rans::{self, Rans};
use crate::tiered::{self, Tiered};
use crate::{Codec, DType, EncodeError, FrameShape, Layout, SpecError, checksum, levels};

/// Tag in frame headers.
pub(crate) const TAG: u8 = 6;
/// The prefix of specs.
pub(crate) const ID: &str = "delta";

/// How differences are coded, and blocks that do not pay for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaCoding {
    /// Coded like the residuals of [`Rans`]: the smallest frames.
    Rans,
    /// Coded like the residuals of [`Tiered`]: the fastest.
    Tiered,
    /// Coded like the residuals of [`Rans`], and blocks that do not pay for it by [`Planes`]: for bytes that are no numbers of a type here.
    Planes,
}

impl DeltaCoding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rans, Self::Tiered, Self::Planes];

    /// The id of the codec that is meant.
    pub fn id(self) -> &'static str {
        match self {
            Self::Rans => "rans",
            Self::Tiered => "tiered",
            Self::Planes => "planes",
        }
    }

    /// The coding that uses the codec with this id.
    fn of(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|coding| coding.id() == id)
    }

    /// The tag of the codec that is meant.
    fn tag(self) -> u8 {
        match self {
            Self::Rans => rans::TAG,
            Self::Tiered => tiered::TAG,
            Self::Planes => planes::TAG,
        }
    }

    fn codec(self) -> Box<dyn Codec> {
        match self {
            Self::Rans => Box::new(Rans::new()),
            Self::Tiered => Box::new(Tiered::new()),
            Self::Planes => Box::new(Planes::new()),
        }
    }
}

/// A frame in front of [`DeltaCoding::Planes`] that takes more than this share of the values is compared with one without the base.
const LONG: usize = 8;

/// Codes differences from a base.
///
/// Its bounds are those of the codec that its coding names: where differences do not pay, frames are those of that codec. Whoever decodes
/// has the base ([`crate::Decoder::add_base`]); a frame names it, and the checksum is that of all values.
///
/// ```
/// use zipwire_codec::{Base, DType, DecodeError, Decoder, Delta, DeltaCoding, compress_with, decompress};
///
/// let before: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700).to_le_bytes()).collect();
/// let after: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700 + i % 3).to_le_bytes()).collect();
/// let base = Base::new(DType::Bf16, before);
/// let frame = compress_with(&Delta::new(DeltaCoding::Rans, base.clone()), &after, DType::Bf16)?;
/// assert!(frame.len() < after.len() / 9);
///
/// let mut decoder = Decoder::new();
/// decoder.add_base(base.clone())?;
/// assert_eq!(decoder.decompress(&frame)?, after);
/// assert_eq!(decompress(&frame), Err(DecodeError::UnknownBase { id: base.id() }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Delta {
    coding: DeltaCoding,
    /// None stands for any: frames are read without knowing the codec.
    codec: Option<Box<dyn Codec>>,
    base: Option<Base>,
}

impl Delta {
    /// To read frames with.
    pub(crate) const ANY: Self = Self { coding: DeltaCoding::Tiered, codec: None, base: None };

    /// Differences from this base.
    pub fn new(coding: DeltaCoding, base: Base) -> Self {
        Self { coding, codec: Some(coding.codec()), base: Some(base) }
    }

    /// Puts differences in front of a codec that [`DeltaCoding::of`] knows; without a base the result is that codec.
    fn before(codec: Box<dyn Codec>, base: Option<Base>) -> Self {
        let coding = DeltaCoding::of(codec.id()).expect("specs name no other codecs behind it");
        Self { coding, codec: Some(codec), base }
    }

    /// The length of a frame that is in the front of `out`, or of one without the base, if that takes its place. What planes take is not estimated, as
    /// the width of the values counts.
    fn shorter(
        &self,
        shape: FrameShape,
        values: &[u8],
        out: &mut [u8],
        len: usize,
    ) -> Result<usize, EncodeError> {
        if self.coding != DeltaCoding::Planes || LONG * len <= values.len() {
            return Ok(len);
        }
        let mut plain = vec![0; self.bound(shape)];
        let plain_len = self.codec().encode(shape.layout, shape.dtype, values, &mut [], &mut plain)?;
        if plain_len >= len {
            return Ok(len);
        }
        out[..plain_len].copy_from_slice(&plain[..plain_len]);
        Ok(plain_len)
    }

    fn codec(&self) -> &dyn Codec {
        static ANY: Tiered = Tiered::new();
        self.codec.as_deref().unwrap_or(&ANY)
    }
}

impl Sealed for Delta {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        let Checked { shape, values, static_out, dynamic_out } = frame;
        let FrameShape { layout, dtype, .. } = shape;
        if let Some(base) = &self.base {
            if !base.fits(dtype, values.len()) {
                let (base_dtype, base_count) = (base.dtype(), base.count());
                return Err(EncodeError::Base { dtype, count: shape.count, base_dtype, base_count });
            }
            let out = &mut dynamic_out[..self.bound(shape) - static_out.len()];
            let mut encode = || coding::encode(self.coding, self.codec(), base, shape, values, out);
            let len = if layout == Layout::Compact { encode() } else { None };
            if let Some(len) = len {
                return self.shorter(shape, values, &mut dynamic_out[..], len);
            }
        }
        self.codec().encode(layout, dtype, values, static_out, dynamic_out)
    }
}

impl Codec for Delta {
    fn id(&self) -> &'static str {
        ID
    }

    fn supports(&self, dtype: DType) -> bool {
        self.codec().supports(dtype)
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        self.codec().static_len(shape)
    }

    fn bound(&self, shape: FrameShape) -> usize {
        self.codec().bound(shape)
    }

    fn min_len(&self, shape: FrameShape) -> usize {
        let all = self.codec().min_len(shape);
        match shape.layout {
            Layout::Split => all,
            Layout::Compact => all.min(entry::front_len(shape.count)),
        }
    }
}

/// The `delta` prefix of a spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Prefix {
    /// The base; none if it is still to be given.
    pub(crate) base: Option<Base>,
}

impl Prefix {
    /// Its id.
    pub(crate) const ID: &str = ID;

    /// Reads what is before the `+`, if it begins with the id.
    pub(crate) fn parse(text: &str) -> Result<Self, SpecError> {
        options::choose(ID, &[], options::split(text).1)?;
        Ok(Self { base: None })
    }

    /// Whether the codec with this id can be behind it.
    pub(crate) fn check(codec: &'static str) -> Result<(), SpecError> {
        let valid = || listed(DeltaCoding::ALL.into_iter().map(DeltaCoding::id));
        match DeltaCoding::of(codec) {
            Some(_) => Ok(()),
            None => Err(SpecError::DeltaCodec { codec, valid: valid() }),
        }
    }

    /// The codec with this in front of it.
    pub(crate) fn before(self, codec: Box<dyn Codec>) -> Box<dyn Codec> {
        Box::new(Delta::before(codec, self.base))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ID}+")
    }
}

/// The second half of an id is that of words with these numbers more.
const SECOND: u64 = 1 << 40;

/// Values that both ends of a transfer have, and that others differ from little: the checkpoint before, the weights that a worker has.
///
/// Its id follows from type, number and bits of the values, so both ends mean the same by it. Bytes are shared and not copied: an
/// `Arc<Vec<u8>>` or a mapped file can be a base.
#[derive(Clone)]
pub struct Base {
    dtype: DType,
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync + RefUnwindSafe>,
    id: u64,
}

impl Base {
    /// The base of these values (little-endian). Reads them all, once: a base is made once for all frames that differ from it.
    ///
    /// Bytes behind the last whole value belong to no value; then no frame differs from this base.
    pub fn new(dtype: DType, bytes: impl AsRef<[u8]> + Send + Sync + RefUnwindSafe + 'static) -> Self {
        let id = id_of(levels::active(), dtype, bytes.as_ref());
        Self { dtype, bytes: Arc::new(bytes), id }
    }

    /// Id by which frames name the base: a hash of 64 bits.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Type of the values.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Number of whole values.
    pub fn count(&self) -> usize {
        self.as_bytes().len() / self.dtype.width()
    }

    /// The values.
    pub fn as_bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    /// Whether these are values of this type, and as many bytes of them.
    pub(crate) fn fits(&self, dtype: DType, bytes: usize) -> bool {
        self.dtype == dtype && self.as_bytes().len() == bytes
    }

    /// Whether both are the same values.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Base({:#018x}, {} values of {})", self.id, self.count(), self.dtype)
    }
}

/// Bases with the same id count as equal: that is what frames compare.
impl PartialEq for Base {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Base {}

impl Hash for Base {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

/// See [`Base::id`]: two checksums, with keys of their own, each of 32 bits. Blocks are still in the fastest cache for the second one.
fn id_of(kernel: &Kernel, dtype: DType, bytes: &[u8]) -> u64 {
    let head = [bytes.len() as u64, u64::from(dtype.tag())].map(u64::to_le_bytes);
    let head = checksum::of_front(head.as_flattened(), 0);
    let (mut low, mut high) = (head, head.rotate_left(16));
    let indexes = (0..).step_by(checksum::PART_BYTES / checksum::WORD);
    for (block, index) in bytes.chunks(checksum::PART_BYTES).zip(indexes) {
        low = low.wrapping_add((kernel.checksum)(block, index));
        high = high.wrapping_add((kernel.checksum)(block, index + SECOND));
    }
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_types_lengths_and_bits_apart_and_do_not_depend_on_the_level() {
        let bytes: Vec<u8> = (0..40_000u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        let mut ids: Vec<u64> = (0..100).map(|len| Base::new(DType::Bf16, vec![0; 2 * len]).id()).collect();
        ids.extend(DType::ALL.map(|dtype| Base::new(dtype, bytes.clone()).id()));
        for at in (0..bytes.len()).step_by(97) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            ids.push(Base::new(DType::Bf16, changed).id());
        }
        let count = ids.len();
        for half in [0, 32] {
            let mut halves: Vec<u32> = ids.iter().map(|id| (id >> half) as u32).collect();
            halves.sort_unstable();
            halves.dedup();
            assert_eq!(halves.len(), count);
        }
        for kernel in levels::all() {
            assert_eq!(id_of(kernel, DType::Bf16, &bytes), ids[100]);
        }
    }
}
