//! `window7`: seven consecutive exponents as 3-bit codes, the eighth code an escape, after ZipCCL (section 4).
//!
//! Each tile of 8192 values has a window of its own, or each of its groups of 512 has. Sign and mantissa are kept as
//! bytes, codes are interleaved so that a GPU warp reads and writes whole words, exponents outside the window go to a list
//! of escapes. An FP32 value is coded as the BF16 value that it begins with; its lower half is kept as it is. A tile that
//! would not shrink is stored.
//!
//! It is not an entropy coder: near-Gaussian BF16 values take 11.2 bits each, where entropy allows 10.5.

mod coder;
mod layouts;
mod tile;

use crate::kernel::{Kernel, TILE};
use crate::scale::Estimator;
use zipwire_codec::frame::{self, HEADER_LEN};
use zipwire_codec::options::{Choice, Value, Values};
use zipwire_codec::sections::{Body, Pieces, Reader, Writer};
use zipwire_codec::{Checked, EncodeChecked};
use zipwire_codec::{Codec, DType, DecodeError, EncodeError, FrameShape, Layout, checksum};

/// Id in specs.
const ID: &str = "window7";
/// Tag in frame headers.
pub(crate) const TAG: u8 = 1;

/// Seven consecutive exponents as codes of 3 bits, the eighth code an escape (ZipCCL, section 4): BF16 and F32.
///
/// The spec is `window7`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window7 {
    /// Statistic that the window of a tile is chosen by.
    scale: Estimator,
}

impl Window7 {
    /// Windows by exact histogram.
    pub const fn new() -> Self {
        Self { scale: Estimator::Exact }
    }

    /// Sets the statistic that the window of a tile is chosen by, as the option `scale` of specs does.
    #[must_use]
    pub const fn scale(mut self, scale: Estimator) -> Self {
        self.scale = scale;
        self
    }
}

/// `scale`: see [`Estimator`].
pub(crate) const OPTIONS: &[Choice] = &[Choice { key: "scale", values: Values::Names(&Estimator::NAMES) }];

/// See [`zipwire_codec::registry::Entry::pieces`]: a coded tile begins with its rests.
pub(crate) const PIECES: Pieces = Pieces {
    piece: TILE,
    front_len: |count| tile::front_len(Layout::Split, count),
    static_body: |count| tile::static_body(DType::Bf16, count),
    rest_at: |_| 0,
    tails: layouts::tails,
};

/// See [`zipwire_codec::registry::Of::build`].
pub(crate) fn build(chosen: &[Value]) -> Box<dyn Codec> {
    let scale =
        Estimator::from_name(chosen[0].name()).expect("the values of the option are the estimators' names");
    Box::new(Window7::new().scale(scale))
}

impl EncodeChecked for Window7 {
    fn encode_checked(&self, frame: Checked<'_>) -> Result<usize, EncodeError> {
        let Checked { shape, values, static_out, dynamic_out } = frame;
        let FrameShape { layout, dtype, .. } = shape;
        let front_len = tile::front_len(layout, shape.count);
        let kernel = crate::kernel::active();
        let mut writer = Writer::new(layout, front_len, static_out, dynamic_out);
        let (bodies_len, sum) = match layout {
            Layout::Split => layouts::encode_split(kernel, self.scale, dtype, values, &mut writer),
            Layout::Compact => layouts::encode_compact(kernel, self.scale, dtype, values, &mut writer),
        };
        let Writer { front, front_dynamic_len, .. } = writer;
        let dynamic_len = front_dynamic_len + bodies_len;
        frame::seal(TAG, shape, 0, dynamic_len, sum, front);
        Ok(dynamic_len)
    }
}

impl Codec for Window7 {
    fn id(&self) -> &'static str {
        ID
    }

    fn supports(&self, dtype: DType) -> bool {
        tile::supports(dtype)
    }

    fn static_len(&self, FrameShape { layout, dtype, count }: FrameShape) -> usize {
        tile::static_len(layout, dtype, count)
    }

    fn bound(&self, FrameShape { layout, dtype, count }: FrameShape) -> usize {
        tile::bound(layout, dtype, count)
    }
}

/// See [`zipwire_codec::registry::Of::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let (kernel, dtype) = (crate::kernel::active(), body.dtype);
    let reader = Reader::new(body, tile::front_len(body.layout, out.len() / dtype.width()))?;
    let front = reader.front;
    let sum = match body.layout {
        Layout::Split => layouts::decode_split(kernel, dtype, reader, out)?,
        Layout::Compact => layouts::decode_compact(kernel, dtype, reader, out)?,
    };
    Ok(sum.wrapping_add(checksum::of_front(&front[HEADER_LEN..], HEADER_LEN)))
}

/// The checksum's part of the tile with this number.
fn tile_sum(kernel: &Kernel, dtype: DType, tile: usize, values: &[u8]) -> u32 {
    checksum::of_values_at(kernel, values, tile * TILE * dtype.width())
}
