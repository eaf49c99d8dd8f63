//! Speed of the kernels on a GPU, beside copies of the same size on the same device in the same run.
//!
//! Every row is first compared with the codec of the CPU: the kernels write the same bytes, and read their values out of
//! them. Times are the device's own, launches included. A difference or a failure of the device ends a row and not the run: results are
//! handed out one by one, so that whoever ends the process keeps those before.

mod frames;
mod parity;
mod rows;
mod timing;

use std::path::PathBuf;

use serde::Serialize;
use zipwire_codec::{DType, Layout, Spec};
use zipwire_kernels::{Coder, Device, GpuError, Stream, cache};
use zipwire_runner::Cancel;

use self::frames::Frames;
use self::rows::sum_rows;
use self::timing::Timer;

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
    /// Bytes of values per launch, one row each; without any, frames are compared with the CPU's only.
    pub sizes: &'a [u64],
    /// Whether sums of BF16 values are measured as well.
    pub sums: bool,
    /// Launches take turns among as many bytes of values: more than a cache of the GPU holds.
    pub rotated: u64,
    /// Seconds that each measurement takes at least.
    pub shortest_s: f64,
    /// Seconds of launches in front of each measurement.
    pub warm_up_s: f64,
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
    /// Microseconds of the device for one launch alone, which encodes on an idle stream.
    pub encode_latency_us: Option<f64>,
    /// Microseconds of the device for one launch alone that decodes.
    pub decode_latency_us: f64,
    /// Microseconds of the device for one copy alone.
    pub copy_latency_us: f64,
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

/// Frames that were compared with the CPU's before anything was timed.
#[derive(Clone, Debug, Serialize)]
pub struct GpuComparison {
    /// The codec.
    pub codec: String,
    /// Type of the values.
    pub dtype: &'static str,
    /// Layout of the frames.
    pub layout: &'static str,
    /// Frames of odd lengths, noise and all bit patterns.
    pub frames: u64,
    /// Number of them that differ from the CPU's, are refused or decode to other values.
    pub wrong: u64,
}

/// A difference from the CPU, or a failure of the device.
#[derive(Clone, Debug, Serialize)]
pub struct GpuFailure {
    /// The codec, or `sum`.
    pub codec: String,
    /// Type of the values.
    pub dtype: &'static str,
    /// Layout of the frame; none where no frame was coded.
    pub layout: Option<&'static str>,
    /// Bytes of the values, if one size is concerned.
    pub bytes: Option<u64>,
    /// The difference or failure, in words.
    pub what: String,
}

/// Kernels of the process that were found compiled.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GpuCache {
    /// Modules from the cache.
    pub found: usize,
    /// Modules that were compiled.
    pub compiled: usize,
    /// Files of the cache with a wrong checksum, whose modules were compiled anew.
    pub damaged: Vec<PathBuf>,
}

/// One result, as soon as it is there.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "documented by what they hold")]
pub enum GpuResult {
    Comparison(GpuComparison),
    Row(GpuRow),
    Sum(GpuSum),
    Failure(GpuFailure),
}

/// Result of `bench gpu` on one device.
#[derive(Clone, Debug, Serialize)]
pub struct GpuReport {
    /// Name of the device.
    pub device: String,
    /// Architecture that the kernels were compiled for, such as `sm_90`.
    pub arch: String,
    /// Kernels that were compiled before.
    pub cache: GpuCache,
    /// Frames of odd lengths, noise and all bit patterns that were compared with the CPU's.
    pub frames_compared: u64,
    /// Comparisons, by type, codec and layout.
    pub comparisons: Vec<GpuComparison>,
    /// The rows, by type, size, codec and layout.
    pub rows: Vec<GpuRow>,
    /// Sums, by size, if they are measured and BF16 is among the types.
    pub sums: Vec<GpuSum>,
    /// Differences and failures; a row that has one is not measured.
    pub failures: Vec<GpuFailure>,
}

/// Why there is no measurement.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuBenchError {
    #[error("stopped")]
    Cancelled,
    /// The device is absent.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// Results are there, but not all of them.
    #[error("{count} failures on the GPU; the first one: {first}")]
    Failed { count: usize, first: GpuFailure },
}

impl std::fmt::Display for GpuFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "codec `{}`, {}", self.codec, self.dtype)?;
        if let Some(layout) = self.layout {
            write!(f, ", layout `{layout}`")?;
        }
        if let Some(bytes) = self.bytes {
            write!(f, ", {bytes} bytes of values")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl GpuReport {
    /// Success if nothing has failed.
    ///
    /// # Errors
    /// [`GpuBenchError::Failed`] with the number of failures, and the first one.
    pub fn check(&self) -> Result<(), GpuBenchError> {
        let failed =
            |first: &GpuFailure| GpuBenchError::Failed { count: self.failures.len(), first: first.clone() };
        self.failures.first().map_or(Ok(()), |first| Err(failed(first)))
    }
}

/// Measures every codec at every size that fits into the device's memory. `each` gets every result as soon as it is there.
///
/// Differences from the CPU and failures of the device are results ([`GpuReport::failures`]), and the next row follows.
///
/// # Errors
/// If there is no device or no compiler, a codec has kernels for none of the types, or the user stops it.
pub fn bench_gpu(
    settings: &GpuSettings<'_>,
    cancel: &Cancel,
    each: &mut dyn FnMut(&GpuResult),
) -> Result<GpuReport, GpuBenchError> {
    let device = Device::open(settings.device)?;
    let stream = Stream::new(&device)?;
    let report = GpuReport {
        device: device.name()?,
        arch: device.arch()?,
        cache: GpuCache::default(),
        frames_compared: 0,
        comparisons: Vec::new(),
        rows: Vec::new(),
        sums: Vec::new(),
        failures: Vec::new(),
    };
    let timer = Timer::new(&device, &stream, settings.shortest_s, settings.warm_up_s)?;
    let mut run = Run { settings, cancel, device: &device, stream: &stream, timer, each, report };
    let coders = run.coders()?;
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
            run.compare(frames, values)?;
        }
        for &bytes in settings.sizes {
            run.measure(&kernels, *dtype, &repeated(values, bytes))?;
        }
    }
    let cache::CacheUse { found, compiled, damaged } = cache::used();
    run.report.cache = GpuCache { found, compiled, damaged };
    Ok(run.report)
}

/// A measurement under way.
struct Run<'a> {
    settings: &'a GpuSettings<'a>,
    cancel: &'a Cancel,
    device: &'a Device,
    stream: &'a Stream,
    timer: Timer<'a>,
    each: &'a mut dyn FnMut(&GpuResult),
    report: GpuReport,
}

impl<'a> Run<'a> {
    /// Loads the kernels of every codec for each type that it has some for.
    fn coders(&mut self) -> Result<Vec<(&'a Spec, DType, Coder)>, GpuBenchError> {
        let mut coders = Vec::new();
        for spec in self.settings.codecs {
            let types = || self.settings.values.iter().map(|(dtype, _)| *dtype);
            if let Some(Err(error)) = types().map(|dtype| Coder::check(spec, dtype)).reduce(Result::or) {
                return Err(error.into());
            }
            for dtype in types().filter(|dtype| Coder::check(spec, *dtype).is_ok()).collect::<Vec<_>>() {
                match Coder::for_measuring(self.device, spec, dtype) {
                    Ok(coder) => coders.push((spec, dtype, coder)),
                    Err(error) if error.is_absence() => return Err(error.into()),
                    Err(error) => self.fail(&spec.to_string(), dtype, None, None, error.to_string()),
                }
            }
        }
        Ok(coders)
    }

    /// Compares frames with the CPU's.
    fn compare(&mut self, frames: &Frames<'_>, values: &[u8]) -> Result<(), GpuBenchError> {
        self.check_cancelled()?;
        let (codec, dtype, layout) = (frames.spec.to_string(), frames.dtype, frames.layout.name());
        match parity::compare(frames, values, self.settings.seed) {
            Ok(compared) => {
                let parity::Compared { frames, wrong, first } = compared;
                let dtype_name = dtype.name();
                self.say(GpuResult::Comparison(GpuComparison {
                    codec: codec.clone(),
                    dtype: dtype_name,
                    layout,
                    frames,
                    wrong,
                }));
                if let Some((bytes, what)) = first {
                    let what = format!("{what}; {wrong} of {frames} frames are wrong");
                    self.fail(&codec, dtype, Some(layout), Some(bytes), what);
                }
            }
            Err(error) => self.fail(&codec, dtype, Some(layout), None, error.to_string()),
        }
        Ok(())
    }

    /// Measures all kernels of a type at one size, and sums where it is BF16.
    fn measure(&mut self, kernels: &[Frames<'_>], dtype: DType, values: &[u8]) -> Result<(), GpuBenchError> {
        let bytes = values.len() as u64;
        for frames in kernels {
            self.check_cancelled()?;
            let _span = tracing::info_span!("bench gpu", codec = %frames.spec, bytes).entered();
            let sets = set_count(self.device, bytes, self.settings.rotated);
            let row =
                sets.and_then(|sets| sets.map(|sets| frames.row(&self.timer, values, sets)).transpose());
            let (codec, layout) = (frames.spec.to_string(), Some(frames.layout.name()));
            match row {
                Ok(None) => {}
                Ok(Some(Ok(row))) => self.say(GpuResult::Row(row)),
                Ok(Some(Err(what))) => self.fail(&codec, dtype, layout, Some(bytes), what),
                Err(error) => self.fail(&codec, dtype, layout, Some(bytes), error.to_string()),
            }
        }
        if self.settings.sums && dtype == DType::Bf16 {
            self.check_cancelled()?;
            let sets = set_count(self.device, bytes, self.settings.rotated);
            let rows = sets.and_then(|sets| {
                sets.map_or(Ok(Vec::new()), |sets| {
                    sum_rows(self.device, self.stream, &self.timer, values, sets)
                })
            });
            match rows {
                Ok(rows) => rows.into_iter().for_each(|row| self.say(GpuResult::Sum(row))),
                Err(error) => self.fail("sum", dtype, None, Some(bytes), error.to_string()),
            }
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<(), GpuBenchError> {
        if self.cancel.is_cancelled() { Err(GpuBenchError::Cancelled) } else { Ok(()) }
    }

    fn fail(
        &mut self,
        codec: &str,
        dtype: DType,
        layout: Option<&'static str>,
        bytes: Option<u64>,
        what: String,
    ) {
        let codec = codec.to_owned();
        self.say(GpuResult::Failure(GpuFailure { codec, dtype: dtype.name(), layout, bytes, what }));
    }

    /// Hands a result out, and keeps it.
    fn say(&mut self, result: GpuResult) {
        (self.each)(&result);
        match result {
            GpuResult::Comparison(comparison) => {
                self.report.frames_compared += comparison.frames;
                self.report.comparisons.push(comparison);
            }
            GpuResult::Row(row) => self.report.rows.push(row),
            GpuResult::Sum(sum) => self.report.sums.push(sum),
            GpuResult::Failure(failure) => self.report.failures.push(failure),
        }
    }
}

/// How many sets of buffers there are; none if not even one fits.
fn set_count(device: &Device, bytes: u64, rotated: u64) -> Result<Option<u64>, GpuError> {
    // Values, as many decoded ones, a frame that may be as long, and the encoder's room, which may be a little longer.
    let of_set = 4 * bytes + bytes / 4;
    let fits = (device.memory()?.0 as f64 * MEMORY_SHARE / of_set as f64) as u64;
    let wanted = rotated.div_ceil(bytes).clamp(1, MOST_SETS);
    Ok((fits > 0).then(|| wanted.min(fits)))
}

/// `bytes` bytes of values.
fn repeated(values: &[u8], bytes: u64) -> Vec<u8> {
    values.iter().copied().cycle().take(usize::try_from(bytes).expect("it is in memory")).collect()
}
