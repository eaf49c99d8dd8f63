//! Speed of the kernels on a GPU, beside copies of the same size on the same device in the same run.
//!
//! Every row is first compared with the codec of the CPU: the kernels write the same bytes, and read their values out of
//! them. Times are the device's own, launches included.

mod frames;
mod parity;
mod rows;

use serde::Serialize;
use zipwire_codec::{DType, Layout, Spec};
use zipwire_kernels::{Coder, Device, GpuError, Stream};
use zipwire_runner::Cancel;

use self::frames::Frames;

/// Sets of buffers at most, and their share of the free memory.
const MOST_SETS: u64 = 1024;
const MEMORY_SHARE: f64 = 0.8;

/// Codecs, types, layouts and sizes to measure.
#[derive(Clone, Copy, Debug)]
pub struct GpuSettings<'a> {
    /// Number of the device.
    pub device: usize,
    /// Codecs; each has kernels for one of the types at least.
    pub codecs: &'a [Spec],
    /// Layouts of frames.
    pub layouts: &'a [Layout],
    /// Types, and values of each that are repeated as often as it takes.
    pub values: &'a [(DType, Vec<u8>)],
    /// Seed of the noise that is compared with the CPU.
    pub seed: u64,
    /// Bytes of values per launch, one row each.
    pub sizes: &'a [u64],
    /// Launches take turns among as many bytes of values: more than a cache of the GPU holds.
    pub rotated: u64,
    /// Seconds that each measurement takes at least.
    pub shortest_s: f64,
}

/// One codec, type and layout at one size. GB/s are raw bytes (10^9) per second, the median of several rounds.
#[derive(Clone, Debug, Serialize)]
pub struct GpuRow {
    /// The codec.
    pub codec: String,
    /// Type of the values.
    pub dtype: &'static str,
    /// Layout of the frame.
    pub layout: &'static str,
    /// Bytes of the values.
    pub bytes_raw: u64,
    /// Bytes of the frame.
    pub bytes_coded: u64,
    /// 100 x coded / raw.
    pub size_pct: f64,
    /// Speed of encoding; none where no kernel encodes it, and the CPU has.
    pub encode_gbps: Option<f64>,
    /// Speed of decoding, with the checksum compared.
    pub decode_gbps: f64,
    /// Speed of decoding in a launch that has as many frames as launches of one take turns among: for small frames, what a batch
    /// is worth, such as all matrices of a transformer block.
    pub decode_batch_gbps: f64,
    /// Speed of a copy of the same values on the device.
    pub copy_gbps: f64,
    /// Bytes that encoding reads and writes per second, over those of the copy.
    pub encode_share: Option<f64>,
    /// Bytes that decoding reads and writes per second, over those of the copy.
    pub decode_share: f64,
}

/// Sums of BF16 values to BF16 values.
#[derive(Clone, Debug, Serialize)]
pub struct GpuSum {
    /// Contributions to each sum.
    pub terms: u64,
    /// Bytes of all of them.
    pub bytes_read: u64,
    /// GB (10^9 bytes) read per second, as in the key `cluster.reduce` of a scenario.
    pub read_gbps: f64,
    /// Bytes that are read and written per second, over those of a copy of what is read.
    pub share: f64,
}

/// Result of `bench gpu` on one device.
#[derive(Clone, Debug, Serialize)]
pub struct GpuReport {
    /// Name of the device.
    pub device: String,
    /// Architecture that the kernels were compiled for, such as `sm_90`.
    pub arch: String,
    /// Frames of odd lengths, noise and all bit patterns that were compared with the CPU's.
    pub frames_compared: u64,
    /// The rows, by type, size, codec and layout.
    pub rows: Vec<GpuRow>,
    /// Sums, by size, if BF16 is among the types.
    pub sums: Vec<GpuSum>,
}

/// Why there is no measurement.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuBenchError {
    /// The user asked to stop.
    #[error("stopped")]
    Cancelled,
    /// The device is absent or has failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// Kernels and CPU disagree.
    #[error("codec `{codec}` on the GPU, {dtype}, layout `{layout}`, {bytes} bytes of values: {what}")]
    Wrong { codec: String, dtype: DType, layout: &'static str, bytes: u64, what: String },
}

/// Measures every codec at every size that fits into the device's memory.
///
/// # Errors
/// If there is no device, a codec has kernels for none of the types, kernels and CPU disagree, or the user stops it.
pub fn bench_gpu(settings: &GpuSettings<'_>, cancel: &Cancel) -> Result<GpuReport, GpuBenchError> {
    let device = Device::open(settings.device)?;
    let stream = Stream::new(&device)?;
    let mut coders = Vec::new();
    for spec in settings.codecs {
        let types = || settings.values.iter().map(|(dtype, _)| *dtype);
        if let Some(Err(error)) = types().map(|dtype| Coder::check(spec, dtype)).reduce(Result::or) {
            return Err(error.into());
        }
        for dtype in types().filter(|dtype| Coder::check(spec, *dtype).is_ok()) {
            coders.push((spec, dtype, Coder::new(&device, spec, dtype)?));
        }
    }
    let (mut compared, mut rows, mut sums) = (0, Vec::new(), Vec::new());
    for (dtype, values) in settings.values {
        let of_type = coders.iter().filter(|(_, of, _)| of == dtype);
        let kernels: Vec<Frames<'_>> = of_type
            .flat_map(|(spec, _, coder)| {
                let frames =
                    |&layout| Frames { device: &device, stream: &stream, spec, coder, dtype: *dtype, layout };
                settings.layouts.iter().map(frames)
            })
            .collect();
        for frames in &kernels {
            if cancel.is_cancelled() {
                return Err(GpuBenchError::Cancelled);
            }
            compared += parity::compare(frames, values, settings.seed)?;
        }
        for &bytes in settings.sizes {
            let values = repeated(values, bytes);
            for frames in &kernels {
                if cancel.is_cancelled() {
                    return Err(GpuBenchError::Cancelled);
                }
                let _span = tracing::info_span!("bench gpu", codec = %frames.spec, bytes).entered();
                let Some(sets) = set_count(&device, bytes, settings.rotated)? else { continue };
                rows.push(frames.row(&values, sets, settings.shortest_s)?);
            }
            if *dtype == DType::Bf16
                && let Some(sets) = set_count(&device, bytes, settings.rotated)?
            {
                sums.extend(rows::sums(&device, &stream, &values, sets, settings.shortest_s)?);
            }
        }
    }
    Ok(GpuReport { device: device.name()?, arch: device.arch()?, frames_compared: compared, rows, sums })
}

/// How many sets of buffers there are; none if not even one fits.
fn set_count(device: &Device, bytes: u64, rotated: u64) -> Result<Option<u64>, GpuError> {
    // Values, as many decoded ones, and a frame that may be as long.
    let of_set = 3 * bytes + bytes / 8;
    let fits = (device.memory()?.0 as f64 * MEMORY_SHARE / of_set as f64) as u64;
    let wanted = rotated.div_ceil(bytes).clamp(1, MOST_SETS);
    Ok((fits > 0).then(|| wanted.min(fits)))
}

/// `bytes` bytes of values.
fn repeated(values: &[u8], bytes: u64) -> Vec<u8> {
    values.iter().copied().cycle().take(usize::try_from(bytes).expect("it is in memory")).collect()
}

/// Kernels and CPU disagree about these values.
fn wrong(frames: &Frames<'_>, values: &[u8], what: &str) -> GpuBenchError {
    GpuBenchError::Wrong {
        codec: frames.spec.to_string(),
        dtype: frames.dtype,
        layout: frames.layout.name(),
        bytes: values.len() as u64,
        what: what.to_owned(),
    }
}
