//! `window7`: seven consecutive exponents as 3-bit codes, the eighth code an escape, after ZipCCL (section 4).
//!
//! Each tile of 8192 values has a window of its own. Sign and mantissa are kept as bytes, codes are interleaved so that
//! a GPU warp reads and writes whole words, exponents outside the window go to a list of escapes. A tile that would not
//! shrink is stored.
//!
//! It is not an entropy coder: near-Gaussian values take 11.2 bits each, where entropy allows 10.5.

mod compact;
mod geometry;
mod mode;
mod search;
mod split;

use crate::frame::{self, Body};
use crate::header::HEADER_LEN;
use crate::kernel::{Kernel, TILE};
use crate::registry::{Choice, Value, Values};
use crate::scale::{self, Estimator, Moments};
use crate::sections::{Reader, Writer};
use crate::{Codec, DType, DecodeError, EncodeError, Layout, checksum};
use search::Search;

/// The codec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window7 {
    /// What the window of a tile is chosen by.
    scale: Estimator,
}

impl Window7 {
    /// Windows by exact histogram.
    pub(crate) const DEFAULT: Self = Self { scale: Estimator::Exact };
}

/// `scale`: see [`Estimator`].
pub(crate) const OPTIONS: &[Choice] = &[Choice { key: "scale", values: Values::Names(&Estimator::NAMES) }];

/// See [`crate::registry::Entry::build`].
pub(crate) fn build(chosen: &[Value]) -> Box<dyn Codec> {
    let scale =
        Estimator::from_name(chosen[0].name()).expect("the values of the option are the estimators' names");
    Box::new(Window7 { scale })
}

impl Codec for Window7 {
    fn id(&self) -> &'static str {
        "window7"
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype == DType::Bf16
    }

    fn static_len(&self, layout: Layout, _: DType, count: usize) -> usize {
        geometry::static_len(layout, count)
    }

    fn bound(&self, layout: Layout, _: DType, count: usize) -> usize {
        geometry::bound(layout, count)
    }

    fn encode(
        &self,
        layout: Layout,
        dtype: DType,
        values: &[u8],
        static_out: &mut [u8],
        dynamic_out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let count = frame::check_buffers(self, layout, dtype, values, static_out, dynamic_out)?;
        let front_len = geometry::front_len(layout, count);
        let Writer { front, bodies, dynamic, front_dynamic_len } =
            Writer::new(layout, front_len, static_out, dynamic_out);
        let (bodies_len, sum) = match layout {
            Layout::Split => split::encode(self, values, front, bodies, dynamic),
            Layout::Compact => compact::encode(self, values, front, dynamic),
        };
        let dynamic_len = front_dynamic_len + bodies_len;
        let sum = sum.wrapping_add(checksum::of_front(&front[HEADER_LEN..], HEADER_LEN));
        frame::seal(self, (layout, dtype, count), dynamic_len, sum, front);
        Ok(dynamic_len)
    }
}

impl Window7 {
    /// The start of the window for a tile, and how many of its values are outside. `zeros` of the values, all +0, do not
    /// count.
    fn window(&self, values: &[u8], zeros: usize, search: &mut Search<'_>) -> (u8, usize) {
        let start = match self.scale {
            Estimator::Exact => return search.best(zeros),
            Estimator::Std => scale::window_start(Moments::of_bf16(values).std()),
            Estimator::MeanAbs => {
                scale::window_start(scale::sigma_from_mean_abs(Moments::of_bf16(values).mean_abs()))
            }
        };
        let covered = scale::covered(search.histogram(), start) as usize;
        // The window from 0 covers the zeros, which do not count.
        let covered = if start == 0 { covered - zeros } else { covered };
        (start, values.len() / 2 - zeros - covered)
    }
}

/// See [`crate::registry::Entry::decode`].
pub(crate) fn decode(body: &Body<'_>, out: &mut [u8]) -> Result<u32, DecodeError> {
    let reader = Reader::new(body, geometry::front_len(body.layout, out.len() / 2))?;
    let front = reader.front;
    let sum = match body.layout {
        Layout::Split => split::decode(reader, out)?,
        Layout::Compact => compact::decode(reader, out)?,
    };
    Ok(sum.wrapping_add(checksum::of_front(&front[HEADER_LEN..], HEADER_LEN)))
}

/// The checksum's part of the tile with this number.
fn tile_sum(kernel: &Kernel, tile: usize, values: &[u8]) -> u32 {
    checksum::of_values_at(kernel, values, tile * checksum::BLOCK_BYTES)
}

const _: () = assert!(2 * TILE == checksum::BLOCK_BYTES);
