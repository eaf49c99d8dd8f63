//! Kind `dp`: every rank has all parameters and a micro-batch of its own.
//!
//! Nothing travels but gradients. They are collected in buckets of equal size, in the order in which the backward pass makes
//! them: head, last layer to first, embedding. A bucket is summed over the ranks as soon as it is full, beside the rest of the
//! backward pass (PyTorch DDP, arXiv:2006.15704, sec. 3.2.3).

use std::ops::Range;

use zipwire_codec::DType;
use zipwire_schedule::Slot;

use super::super::whole;
use super::super::{Context, Kind, Workload};
use super::builder::{Builder, Settings, Uses, check, check_call};
use super::gradients::{self, Sums, Unit, When, read_dtype, read_when};
use crate::error::Result;
use crate::language::{AnyKey, Field, Keys, Raw, keys, raw, schema};
use crate::payload::{Carried, TENSORS};

keys! { static KEYS =
    bucket: Raw = raw(schema::bytes), "bytes of gradients that are summed in one call; 25 MiB by default";
}

keys! { static PAYLOAD =
    payload: Raw = raw(|| CARRIED.schema()), "what is sent";
}

static CARRIED: Carried = Carried { tensors: &[TENSORS.gradients], always: 1 };

pub(super) fn keys() -> Vec<&'static dyn AnyKey> {
    Settings::keys(Kind::Dp, &[gradients::KEYS.all, KEYS.all].concat(), PAYLOAD.all)
}

/// Bytes of a bucket: `bucket_cap_mb` of PyTorch.
const BUCKET: u64 = 25 << 20;
const BUCKET_LIMIT: u64 = 1 << 14;

pub(super) fn read(field: &Field<'_>, context: &Context<'_>) -> Result<Workload> {
    let table = field.table(&Kind::Dp.keys(&keys()))?;
    let settings = Settings::read(&table, Kind::Dp, context)?;
    let when = read_when(&table, &When::ALL)?;
    let dtype = read_dtype(&table)?;
    let bucket_field = table.field(KEYS.bucket);
    let width = dtype.width() as u64;
    let bucket = bucket_field.as_ref().map_or(Ok(BUCKET), |field| field.bytes(width))?;
    let blamed = bucket_field.as_ref().unwrap_or(field);
    check_call(whole(blamed, bucket, dtype)?, blamed)?;
    let parts = parts(&settings);
    let total = parts.last().map_or(0, |part| part.end);
    check("buckets of gradients", total.div_ceil(bucket / width), BUCKET_LIMIT, blamed)?;
    let dtypes = vec![dtype];
    let rows = CARRIED.read(table.field(PAYLOAD.payload), 1, DType::Bf16, context.files)?;
    if when == When::None {
        let unused: Keys<'_> = &[KEYS.bucket, gradients::KEYS.gradient_dtype, PAYLOAD.payload];
        table.refuse_all(unused, "no gradient travels")?;
    }

    let builder = build(&settings, &parts, bucket / width, (when, dtype), context);
    builder.finish(Kind::Dp.name(), field, dtypes, rows)
}

/// Which gradients each phase of the backward pass makes, counted in that order: head, layers from the last on, and the
/// embedding with the first layer.
fn parts(settings: &Settings) -> Vec<Range<u64>> {
    let model = &settings.model;
    let layers = (0..model.layers).rev().map(|layer| model.layer_parameters(layer).total());
    let mut end = 0;
    let counts: Vec<u64> = [model.vocabulary_parameters()].into_iter().chain(layers).collect();
    let last = counts.len() - 1;
    let part = |(index, count)| {
        let embedding = if index == last { model.vocabulary_parameters() } else { 0 };
        let start = end;
        end += count + embedding;
        start..end
    };
    counts.into_iter().enumerate().map(part).collect()
}

/// Gradients are counted in values.
fn build<'a>(
    settings: &Settings,
    parts: &[Range<u64>],
    bucket: u64,
    (when, dtype): (When, DType),
    context: &'a Context<'a>,
) -> Builder<'a> {
    let mut builder = Builder::new(context, settings);
    let mut sums = Sums::new(&mut builder, when, dtype, 0);
    let total = parts.last().map_or(0, |part| part.end);
    let buckets: Vec<Slot> = match &sums {
        Some(_) => (0..total.div_ceil(bucket)).map(|_| builder.slot("bucket")).collect(),
        None => Vec::new(),
    };
    let Settings { model, tokens, compute, micro_batches, .. } = settings;
    let passes = |layer| compute.dense(model.layer_flops(layer, *tokens).total());
    for micro_batch in 0..*micro_batches {
        let (prefix, is_last) = (settings.prefix(micro_batch), micro_batch + 1 == *micro_batches);
        for layer in 0..model.layers {
            let uses = Uses { reads: &[], writes: &[] };
            builder.phase(&format!("{prefix}L{layer} forward"), "forward", passes(layer).forward_s, uses);
        }
        let head = (format!("{prefix}head"), "head", compute.head_s(model.head_flops(*tokens)));
        let backward = |layer| (format!("{prefix}L{layer} backward"), "backward", passes(layer).backward_s);
        let phases = [head].into_iter().chain((0..model.layers).rev().map(backward));
        for ((name, phase, seconds), part) in phases.zip(parts) {
            // The buckets that the phase fills, and of these those that nothing behind it fills further.
            let touched = (part.start / bucket) as usize..part.end.div_ceil(bucket) as usize;
            let touched = if is_last && !part.is_empty() { touched } else { 0..0 };
            let mut writes = buckets.get(touched.clone()).unwrap_or_default().to_vec();
            writes.extend(sums.as_ref().map(Sums::kept).unwrap_or_default());
            if seconds > 0.0 || !writes.is_empty() {
                builder.phase(&name, phase, seconds, Uses { reads: &[], writes: &writes });
            }
            let full = touched.filter(|&index| ((index as u64 + 1) * bucket).min(total) <= part.end);
            let unit = |index: usize| {
                let start = index as u64 * bucket;
                let values = (start + bucket).min(total) - start;
                Some(Unit { name: format!("bucket {index} all-reduce"), values, slot: *buckets.get(index)? })
            };
            let units = full.filter_map(unit).collect();
            if let Some(sums) = &mut sums {
                sums.take(&mut builder, units);
            }
        }
    }
    if let Some(sums) = sums {
        sums.finish(&mut builder);
    }
    builder
}
