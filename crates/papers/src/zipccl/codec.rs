//! Fig. 1a and Fig. 6: how small frames are.

use zipwire_codec::scale::gaussian::bits;
use zipwire_codec::{DType, FrameShape, Layout, Spec};

use super::super::figure::{Figure, Measurement, Ours};
use super::super::samples::{DISPATCH_AND_COMBINE, ratio};
use super::super::{Bench, ReproduceError};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("fig1a-ratio", recorded),
        Measurement::of("saving", |_| Ok((100.0 * (1.0 - bits(1.0) / 16.0)).into())),
        Measurement::of("fixed-bits", |_| Ok(fixed_bits())),
    ],
    curves: &[],
};

/// Values of a frame whose static section is measured.
const VALUES: usize = 1 << 24;

/// What our codec makes of recorded activations, of a model far smaller than the paper's.
fn recorded(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let ratio = ratio(bench, DISPATCH_AND_COMBINE, "window7", DType::Bf16, |_| true)?;
    Ok(Ours::with(ratio, "recorded dispatch and combine of a small model; scenarios take the paper's"))
}

/// Of our frames in the paper's layout, what does not depend on the values; the index of escapes is part of it.
fn fixed_bits() -> Ours {
    let codec = "window7".parse::<Spec>().expect("the codec is there").codec();
    let ours =
        8.0 * codec.static_len(FrameShape::new(Layout::Split, DType::Bf16, VALUES)) as f64 / VALUES as f64;
    Ours::with(bits(1.0), format!("a frame has {ours:.3}, with header, windows and the index of escapes"))
}
