//! How variants let calls travel, and what their ops are declared to take: what planners, memory estimates, simulations and validation
//! take from a variant.

use zipwire_codec::{Base, DType, FrameShape, Layout, Spec};
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::{Choice, CostModel, Protocol, SegmentId, Selection, sum};

/// Factor over the predicted length, so that frames that are a little longer than the mean still fit.
const MARGIN: f64 = 1.005;

/// Declared costs of the ops of a variant.
pub(crate) fn costs(experiment: &Experiment, variant: &Variant) -> CostModel {
    CostModel { host: experiment.host, codec: experiment.codec_of(variant).map(|choice| choice.cost) }
}

/// How a variant lets the calls of all segments travel.
pub(crate) fn choices(experiment: &Experiment, variant: &Variant) -> Vec<Choice> {
    (0..experiment.job().segments.len()).map(|segment| choice(experiment, variant, segment)).collect()
}

/// Whether calls of a variant travel as those of the same variant of an experiment with other costs or ratios: in the same ways, and what is
/// speculative in slots of the same capacity.
pub(crate) fn travel_alike(one: (&Experiment, &Variant), other: (&Experiment, &Variant)) -> bool {
    let ratio = |(experiment, variant): (&Experiment, &Variant)| {
        let has_slots = variant.protocol == Protocol::Speculative && variant.speculative_capacity.is_none();
        experiment.codec_of(variant).filter(|_| has_slots).and_then(|choice| choice.ratio)
    };
    one.1.ways == other.1.ways && ratio(one) == ratio(other)
}

/// How a variant lets the call of a segment travel.
pub(crate) fn choice(experiment: &Experiment, variant: &Variant, segment: usize) -> Choice {
    let protocol = variant.protocol_of(&experiment.job().segments[segment]);
    let part = experiment.part(&experiment.job().segments[segment]);
    let ranks_per_node = part.map_or(1, |part| part.gpus_per_node);
    let is_speculative = protocol == Protocol::Speculative;
    let way = variant.ways[segment];
    Choice {
        protocol,
        algorithm: way.map(|way| way.algorithm),
        channels: way.map_or(1, |way| way.channels),
        slices: way.map_or(1, |way| way.slices),
        sums: experiment.sums,
        layout: variant.layout,
        order: variant.order,
        window: variant.window,
        codec: experiment.codec_of(variant).map(|choice| choice.spec.clone()),
        selection: Selection {
            ranks_per_node: variant.selection.ranks_per_node.map(|_| ranks_per_node),
            ..variant.selection
        },
        parts: variant.parts,
        ranks_per_node,
        dedup: variant.dedup,
        arenas: variant.arenas,
        grouped: variant.may_call && experiment.host.library.model.is_some(),
        speculative_capacity: is_speculative
            .then(|| speculative_capacity(experiment, variant, segment))
            .flatten(),
    }
}

/// Capacity of a slot of `speculative` over the bytes of its values: stated, or the predicted length of frames.
fn speculative_capacity(experiment: &Experiment, variant: &Variant, segment: usize) -> Option<f64> {
    let work = &experiment.job().segments[segment].work;
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
