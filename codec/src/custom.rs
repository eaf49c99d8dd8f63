//! Codecs of other crates: what they implement, and how specs and readers come to know them.

use std::fmt::Debug;

use crate::codec::{Checked, EncodeChecked};
use crate::error::PAPERS;
use crate::frame::{self, HEADER_LEN};
use crate::options::Value;
use crate::registry::{self, Entry, Of};
use crate::sections::{Body, Reader, Writer};
use crate::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, RegisterError, checksum, levels};

/// The first tag of codecs of other crates.
const FIRST_TAG: u8 = 128;

/// A codec of another crate, which [`register`] makes known to specs and readers. It turns values into bytes and back; the header of a frame, the checksum of
/// its values and the checks of its lengths are this crate's.
///
/// Sizes follow from the shape of a frame alone, and are those behind the header.
pub trait CustomCodec: Debug + Send + Sync {
    /// The id in specs: lower-case letters, digits and hyphens.
    fn id(&self) -> &'static str;

    /// Tag in headers of its frames, from 128 on. Whoever reads a frame has registered the same codec with the same tag.
    fn tag(&self) -> u8;

    /// Whether values of this type can be encoded.
    fn supports(&self, dtype: DType) -> bool;

    /// Bytes of the static section in the split layout, which both ends of a transfer know beforehand; the compact layout has none. Sizes are asked for headers of strangers, too: they
    /// saturate.
    fn static_len(&self, _: FrameShape) -> usize {
        0
    }

    /// The most bytes that the static and the dynamic section take together. [`FrameShape::values_len`] is enough where values that do not shrink are kept
    /// as they are.
    fn bound(&self, shape: FrameShape) -> usize;

    /// The fewest bytes that they can take together. Readers refuse a shorter frame before they take memory for its values, so it grows with these.
    fn min_len(&self, shape: FrameShape) -> usize;

    /// Encodes whole values, little-endian, and returns the bytes of the dynamic section, which is the front of `dynamic_out`.
    ///
    /// `static_out` has [`Self::static_len`] bytes, all zero, or none in the compact layout; `dynamic_out` has what the bound leaves.
    fn encode(
        &self,
        shape: FrameShape,
        values: &[u8],
        static_out: &mut [u8],
        dynamic_out: &mut [u8],
    ) -> usize;

    /// Decodes both sections into `out`, which has the bytes of the values.
    ///
    /// # Errors
    /// The defect of sections that no encoder has written, in a few words.
    fn decode(
        &self,
        shape: FrameShape,
        static_section: &[u8],
        dynamic_section: &[u8],
        out: &mut [u8],
    ) -> Result<(), String>;
}

/// Makes a codec known to this process: from now on [`crate::Spec`] reads its id, and [`crate::Decoder`] its frames. It stays until the process ends.
///
/// ```
/// use zipwire_codec::{Codec, CustomCodec, DType, FrameShape, Layout, Spec, decompress, register};
///
/// /// Bytes in reverse, which saves nothing.
/// #[derive(Debug)]
/// struct Reversed;
///
/// impl CustomCodec for Reversed {
///     fn id(&self) -> &'static str {
///         "reversed"
///     }
///     fn tag(&self) -> u8 {
///         128
///     }
///     fn supports(&self, _: DType) -> bool {
///         true
///     }
///     fn bound(&self, shape: FrameShape) -> usize {
///         shape.values_len()
///     }
///     fn min_len(&self, shape: FrameShape) -> usize {
///         shape.values_len()
///     }
///     fn encode(&self, _: FrameShape, values: &[u8], _: &mut [u8], dynamic_out: &mut [u8]) -> usize {
///         dynamic_out.iter_mut().zip(values.iter().rev()).for_each(|(out, byte)| *out = *byte);
///         values.len()
///     }
///     fn decode(&self, _: FrameShape, _: &[u8], dynamic: &[u8], out: &mut [u8]) -> Result<(), String> {
///         if dynamic.len() != out.len() {
///             return Err(format!("{} bytes instead of {}", dynamic.len(), out.len()));
///         }
///         out.iter_mut().zip(dynamic.iter().rev()).for_each(|(out, byte)| *out = *byte);
///         Ok(())
///     }
/// }
///
/// register(Reversed)?;
/// let spec: Spec = "reversed".parse()?;
/// let values = [1, 2, 3, 4];
/// let frame = spec.codec().encode_to_vec(Layout::Compact, DType::Bf16, &values)?;
/// assert_eq!(decompress(&frame)?, values);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If its id or its tag is that of another codec, or none that a codec of another crate can have.
pub fn register(codec: impl CustomCodec + 'static) -> Result<(), RegisterError> {
    let (id, tag) = (codec.id(), codec.tag());
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if id.is_empty() || !id.bytes().all(is_word) {
        return Err(RegisterError::Id { id });
    }
    if PAPERS.iter().any(|(paper, _)| *paper == id) {
        return Err(RegisterError::IdKept { id });
    }
    if !(FIRST_TAG..u8::MAX).contains(&tag) {
        return Err(RegisterError::Tag { id, tag });
    }
    let codec: &'static dyn CustomCodec = Box::leak(Box::new(codec));
    let custom: &'static Custom = Box::leak(Box::new(Custom(codec)));
    registry::add(Box::leak(Box::new(Entry {
        tag,
        codec: custom,
        options: &[],
        of: custom,
        tables: None,
        pieces: None,
    })))
}

/// A codec of another crate, with headers and checksums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Custom(pub(crate) &'static dyn CustomCodec);

impl Custom {
    /// The most bytes behind the header, which are no fewer than those of the static section.
    fn most(&self, shape: FrameShape) -> usize {
        match shape.layout {
            Layout::Split => self.0.bound(shape).max(self.0.static_len(shape)),
            Layout::Compact => self.0.bound(shape),
        }
    }
}

impl EncodeChecked for Custom {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        let Checked { shape, values, static_out, dynamic_out } = frame;
        let Writer { front, bodies, dynamic, front_dynamic_len } =
            Writer::new(shape.layout, HEADER_LEN, static_out, dynamic_out);
        bodies.fill(0);
        let room = self.most(shape) - bodies.len();
        let len = self.0.encode(shape, values, bodies, &mut dynamic[..room]);
        assert!(len <= room, "codec `{}` has {len} bytes in a dynamic section of {room}", self.0.id());
        let (len, sum) = (front_dynamic_len + len, checksum::of_values(levels::active(), values));
        frame::seal(self.0.tag(), shape, 0, len, sum, front);
        Ok(len)
    }
}

impl Codec for Custom {
    fn id(&self) -> &'static str {
        self.0.id()
    }

    fn supports(&self, dtype: DType) -> bool {
        self.0.supports(dtype)
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        match shape.layout {
            Layout::Split => self.0.static_len(shape).saturating_add(HEADER_LEN),
            Layout::Compact => 0,
        }
    }

    fn bound(&self, shape: FrameShape) -> usize {
        self.most(shape).saturating_add(HEADER_LEN)
    }

    fn min_len(&self, shape: FrameShape) -> usize {
        self.0.min_len(shape).saturating_add(HEADER_LEN)
    }
}

impl Of for Custom {
    fn build(&self, _: &[Value]) -> Box<dyn Codec> {
        Box::new(*self)
    }

    fn decode(&self, body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
        let shape =
            FrameShape { layout: body.layout, dtype: body.dtype, count: out.len() / body.dtype.width() };
        let Reader { bodies, dynamic, .. } = Reader::new(body, HEADER_LEN)?;
        let damaged = |defect| DecodeError::Custom { codec: self.id(), defect };
        self.0.decode(shape, bodies, dynamic, out).map_err(damaged)?;
        Ok(checksum::of_values(levels::active(), out))
    }
}
