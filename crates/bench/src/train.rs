//! Tables that frames share: trained from samples, and how well they do on these.

use serde::Serialize;
use zipwire_codec::{
    Codec, DType, DecodeError, EncodeError, FrameShape, Layout, Spec, TableError, TableUsage,
};
use zipwire_runner::Cancel;
use zipwire_traces::TableFile;

/// Values of a frame at most.
const FRAME_VALUES: usize = 1 << 17;

/// A table, and its samples as frames that name it, beside frames that each have their own.
#[derive(Clone, Debug, Serialize)]
pub struct Trained {
    /// The codec with the table.
    pub codec: String,
    /// Type of the values.
    pub dtype: &'static str,
    /// Layout of the frames.
    pub layout: &'static str,
    /// Bytes of the samples.
    pub bytes_raw: u64,
    /// 100 x coded / raw with the table.
    pub size_pct: f64,
    /// The same of frames that carry their own tables.
    pub own_size_pct: f64,
    /// Values that the table does not serve, in percent of those that are coded.
    pub missed_pct: f64,
    /// The table and what it promises.
    #[serde(skip)]
    pub file: TableFile,
}

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum TrainError {
    #[error("stopped")]
    Cancelled,
    /// Nothing can be trained.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A sample cannot be coded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("codec `{codec}` does not decode its own frame: {source}")]
    Decode { codec: String, source: DecodeError },
    #[error("codec `{codec}` is not lossless on the samples")]
    NotLossless { codec: String },
}

/// Trains a table of a codec from samples, little-endian values of a type each, for frames in a layout; then codes the samples with it, in frames of at
/// most 131 072 values, and decodes them.
///
/// # Errors
/// If the codec takes no tables or does not code the type, if there is nothing to code, and if `cancel` says so.
pub fn train(
    spec: &Spec,
    layout: Layout,
    dtype: DType,
    samples: &[&[u8]],
    cancel: &Cancel,
) -> Result<Trained, TrainError> {
    let table = spec.train(layout, dtype, samples)?;
    let spec_with = spec.clone().with_table(&table)?;
    let (own, codec, decoder) = (spec.codec(), spec_with.codec(), spec_with.decoder());
    let (mut usage, mut bytes, mut of_table, mut of_own) = (TableUsage::default(), 0, 0, 0);
    let mut out = vec![0; FRAME_VALUES * dtype.width()];
    for values in samples.iter().flat_map(|sample| sample.chunks(FRAME_VALUES * dtype.width())) {
        if cancel.is_cancelled() {
            return Err(TrainError::Cancelled);
        }
        bytes += values.len() as u64;
        of_own += encode(&*own, layout, dtype, values)?.1.len() as u64;
        let (fixed, frame) = encode(&*codec, layout, dtype, values)?;
        of_table += frame.len() as u64;
        let mut decode = || -> Result<TableUsage, DecodeError> {
            let (out, (fixed, dynamic)) = (&mut out[..values.len()], frame.split_at(fixed));
            decoder.decode(layout, dtype, fixed, dynamic, out)?;
            let shape = FrameShape::new(layout, dtype, values.len() / dtype.width());
            TableUsage::of_shared(&decoder, table.id(), shape, fixed, dynamic)
        };
        usage += decode().map_err(|source| TrainError::Decode { codec: spec_with.to_string(), source })?;
        if out[..values.len()] != *values {
            return Err(TrainError::NotLossless { codec: spec_with.to_string() });
        }
    }
    let pct = |part: u64| 100.0 * part as f64 / bytes.max(1) as f64;
    Ok(Trained {
        codec: spec_with.to_string(),
        dtype: dtype.name(),
        layout: layout.name(),
        bytes_raw: bytes,
        size_pct: pct(of_table),
        own_size_pct: pct(of_own),
        missed_pct: 100.0 * usage.missed(),
        file: TableFile { table, layout, values: usage.values(), missed: usage.missed_values() },
    })
}

/// A frame in one buffer, and the length of its static section.
fn encode(
    codec: &dyn Codec,
    layout: Layout,
    dtype: DType,
    values: &[u8],
) -> Result<(usize, Vec<u8>), EncodeError> {
    let frame = codec.encode_to_vec(layout, dtype, values)?;
    Ok((codec.static_len(FrameShape::new(layout, dtype, values.len() / dtype.width())), frame))
}
