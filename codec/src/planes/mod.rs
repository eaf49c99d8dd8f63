//! `planes`: values of any width as byte planes, each coded by what is shortest.
//!
//! Files have tensors of types that no codec knows: integers, doubles, complex numbers, truth values. A frame has bytes of any type, and says itself how many
//! of them are a value. A *plane* is the bytes of the same significance of all values of a *block*. Of floating-point values the sign is taken out of the
//! exponent, so that this is a plane, as in `grouped`; a plane of bytes that vary little takes less than a bit for each (`plane.rs`), and one of equal
//! bytes takes nothing.

mod block;
mod coding;
mod order;
mod plane;

pub(crate) use coding::decode;

use crate::codec::{Checked, EncodeChecked};
use crate::frame::HEADER_LEN;
use crate::options::{Choice, Value, Values};
use crate::sections;
use crate::{Codec, DType, EncodeError, FrameShape, Layout};
use order::{WIDEST, WIDTHS};
use plane::ENTRY;

/// Tag in frame headers.
pub(crate) const TAG: u8 = 10;

/// Bytes of values of each block but the last, which has what is left: whole parts of the checksum, and whole values of every width.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes of front matter: the header, the width of values, whether they are floating-point values, and zeros.
const FRONT_LEN: usize = HEADER_LEN + 8;

/// Byte planes, each by a Huffman code, as a mask of its most frequent byte and the others, as steps, as one byte, or as it is: all types, and bytes of others.
///
/// The spec is `planes`, or `planes:width=8` for values of eight bytes.
///
/// ```
/// use zipwire_codec::{Codec, DType, Layout, Planes, decompress};
///
/// // Identifiers of eight bytes each, in a tensor of a type that has no name here.
/// let ids: Vec<u8> = (0..20_000u64).flat_map(|i| (i * i % 30_000).to_le_bytes()).collect();
/// let frame = Planes::new().width(8).encode_to_vec(Layout::Compact, DType::F8E4M3, &ids)?;
/// assert!(frame.len() < ids.len() / 4);
/// assert_eq!(decompress(&frame)?, ids);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Planes {
    /// None stands for that of the type of the values.
    width: Option<usize>,
}

impl Planes {
    /// Values are as wide as their type says.
    pub const fn new() -> Self {
        Self { width: None }
    }

    /// Values have this number of bytes, whatever their type says. Whether they are BF16 or FP32 values, a sample of them tells.
    ///
    /// # Panics
    /// If it is not 1, 2, 4, 8 or 16.
    #[must_use]
    pub fn width(self, bytes: usize) -> Self {
        assert!(WIDTHS.contains(&bytes), "values of `{bytes}` bytes are not possible");
        Self { width: Some(bytes) }
    }
}

/// Options in specs.
pub(crate) const OPTIONS: &[Choice] =
    &[Choice { key: "width", values: Values::Names(&["type", "1", "2", "4", "8", "16"]) }];

/// See [`crate::registry::Of::build`].
pub(crate) fn build(options: &[Value]) -> Box<dyn Codec> {
    // Any other name is that of the type.
    Box::new(Planes { width: options[0].name().parse().ok() })
}

impl EncodeChecked for Planes {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        let Checked { shape, values, static_out, dynamic_out } = frame;
        Ok(coding::encode(self.width, shape, values, static_out, dynamic_out))
    }
}

impl Codec for Planes {
    fn id(&self) -> &'static str {
        "planes"
    }

    fn supports(&self, _: DType) -> bool {
        true
    }

    fn static_len(&self, shape: FrameShape) -> usize {
        if shape.layout == Layout::Split { FRONT_LEN } else { 0 }
    }

    fn bound(&self, shape: FrameShape) -> usize {
        let bytes = shape.values_len();
        sections::bound(bytes, 1, (bytes.div_ceil(BLOCK_BYTES) * WIDEST * ENTRY).saturating_add(FRONT_LEN))
    }

    /// An entry for each whole block, whose bytes are all the same.
    fn min_len(&self, shape: FrameShape) -> usize {
        FRONT_LEN + shape.values_len() / BLOCK_BYTES * ENTRY
    }
}
