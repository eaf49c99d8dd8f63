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

use crate::codec::{Checked, EncodeChecked};
use crate::options::{self, listed};
use crate::planes::{self, Planes};
use crate::rans::{self, Rans};
use crate::tiered::{self, Tiered};
use crate::{Base, Codec, DType, EncodeError, FrameShape, Layout, SpecError};

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
/// use zipwire_codec::{Base, Codec, DType, DecodeError, Decoder, Delta, DeltaCoding, Layout, decompress};
///
/// let before: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700).to_le_bytes()).collect();
/// let after: Vec<u8> = (0..20_000u16).flat_map(|i| (0x3c00 + i % 700 + i % 3).to_le_bytes()).collect();
/// let base = Base::new(DType::Bf16, before);
/// let frame = Delta::new(DeltaCoding::Rans, base.clone()).encode_to_vec(Layout::Compact, DType::Bf16, &after)?;
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

impl EncodeChecked for Delta {
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
