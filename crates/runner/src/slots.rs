//! How large the slots of `speculative` are, where a scenario does not say: what the codec is predicted to need.

use zipwire_codec::{Base, DType, FrameShape, Layout, Spec};
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::{Choice, SegmentId, sum};

/// What slots have room for beyond the prediction, so that frames that are a little longer than the mean still fit.
const MARGIN: f64 = 1.005;

/// Bytes of a frame that a slot of this segment holds, over those of its values.
pub(crate) fn speculative_capacity(
    experiment: &Experiment,
    variant: &Variant,
    segment: usize,
) -> Option<f64> {
    let work = &experiment.job.segments[segment].work;
    let layout = Choice { layout: variant.layout, ..Choice::of(variant.protocol, None) }.layout()?;
    let (codec, dtype) = (experiment.codec_of(variant)?, work.dtype()?);
    let predicted = match (variant.speculative_capacity, codec.ratio, &experiment.payload) {
        (Some(capacity), ..) => return Some(capacity),
        (None, Some(ratio), _) => 1.0 / ratio,
        (None, None, Some(payload)) => {
            let id = SegmentId(u32::try_from(segment).expect("segments are counted in 32 bits"));
            let rows = payload.source(id).as_bytes();
            let base = payload.base(id).filter(|_| !work.is_reduction() && codec.spec.takes_base());
            let spec = match base {
                Some(base) => codec.spec.clone().against(Base::new(dtype, base.as_bytes().to_vec())),
                None => codec.spec.clone(),
            };
            if work.is_reduction() && dtype == DType::F32 {
                coded_fraction(&spec, layout, dtype, &widened(rows))
            } else {
                coded_fraction(&spec, layout, dtype, rows)
            }
        }
        (None, None, None) => return None,
    };
    Some(predicted * MARGIN)
}

/// Bytes of the frame of all rows that a payload is drawn from, over those of the rows; 1 if the codec refuses them.
fn coded_fraction(spec: &Spec, layout: Layout, dtype: DType, rows: &[u8]) -> f64 {
    let codec = spec.codec();
    if !codec.supports(dtype) {
        return 1.0;
    }
    let rows = &rows[..rows.len() / dtype.width() * dtype.width()];
    let count = rows.len() / dtype.width();
    let static_len = codec.static_len(FrameShape::new(layout, dtype, count));
    let mut fixed = vec![0; static_len];
    let mut dynamic = vec![0; codec.bound(FrameShape::new(layout, dtype, count)) - static_len];
    let len = codec.encode(layout, dtype, rows, &mut fixed, &mut dynamic);
    len.map_or(1.0, |len| (static_len + len) as f64 / rows.len().max(1) as f64)
}

/// Rows of BF16 values as FP32.
fn widened(rows: &[u8]) -> Vec<u8> {
    let count = rows.len() / DType::Bf16.width();
    let mut values = vec![0.0; count];
    sum::begin(&mut values, DType::Bf16, &rows[..count * DType::Bf16.width()]);
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
