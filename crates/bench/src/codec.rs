//! Size and speed of codecs on given values, beside `memcpy` in the same run.

use std::time::Instant;

use rayon::prelude::*;
use serde::Serialize;
use zipwire_codec::{DType, Layout, simd_level};
use zipwire_runner::Cancel;

use crate::contender::{Contender, Task, Worker};
use crate::memory::{Memory, Pages, padded};

/// Rounds that are measured, after one that is not; the median counts.
const ROUNDS: usize = 7;
/// A round takes at least this long: little data is coded several times.
const SHORTEST_ROUND_S: f64 = 0.02;

/// Values of one type that are measured together.
#[derive(Debug)]
pub struct Load {
    /// Where they come from.
    pub file: String,
    /// Their type.
    pub dtype: DType,
    /// The tensors.
    pub tensors: Vec<LoadTensor>,
}

/// A tensor of a load.
#[derive(Debug)]
pub struct LoadTensor {
    /// Values of a row, the last dimension; 0 if there are no rows.
    pub row: usize,
    /// The values, little-endian.
    pub values: Vec<u8>,
    /// Base of the same type and length, for codecs that code differences.
    pub base: Option<Vec<u8>>,
}

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Layout of the project's frames.
    pub layout: Layout,
    /// Threads, at least 1.
    pub threads: usize,
    /// Pages of the values, the frames and what they are decoded to.
    pub pages: Pages,
}

/// Size and speed of one codec on one load. GB/s are raw bytes (10^9) per second of wall time, the median of several rounds.
#[derive(Clone, Debug, Serialize)]
pub struct CodecRow {
    /// The codec.
    pub codec: String,
    /// Layout of its frames.
    pub layout: &'static str,
    /// Where the values come from.
    pub file: String,
    /// Type of the values.
    pub dtype: &'static str,
    /// Threads.
    pub threads: usize,
    /// Pages of the values, the frames and what they are decoded to.
    pub pages: Pages,
    /// The share of these buffers that lay on huge pages, in percent; `None` if the system does not say.
    pub huge_pages_pct: Option<f64>,
    /// SIMD level of the project's codecs.
    pub simd: String,
    /// Values that are +0, in percent.
    pub zeros_pct: f64,
    /// Bytes of the values.
    pub bytes_raw: u64,
    /// Bytes of the frames, headers included.
    pub bytes_coded: u64,
    /// 100 x coded / raw.
    pub size_pct: f64,
    /// Speed of encoding.
    pub encode_gbps: f64,
    /// Speed of decoding.
    pub decode_gbps: f64,
    /// Speed of copying the same values with the same threads, from and to the same buffers.
    pub memcpy_gbps: f64,
}

/// Why a load was not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum BenchError {
    #[error("stopped")]
    Cancelled,
    #[error("codec `{codec}` is not lossless on `{file}`, {dtype}")]
    NotLossless { codec: String, file: String, dtype: DType },
    #[error("codec `{codec}` failed on `{file}`: {reason}")]
    Failed { codec: String, file: String, reason: String },
    #[error("cannot have {bytes} bytes of {pages} pages: {reason}", pages = pages.name())]
    Memory { bytes: usize, pages: Pages, reason: String },
    #[error(
        "cannot start {threads} threads: {reason}\nhelp: take fewer, or raise what limits them: `ulimit -u` or `ulimit -v`, or the \
         container's limit of processes"
    )]
    Threads { threads: usize, reason: String },
}

/// Measures every contender on a load; each decodes to the same values, or this fails.
///
/// # Errors
/// If a codec is not lossless or fails, the system has no such memory, or the user stops it.
pub fn bench_codec(
    load: &Load,
    contenders: &[Contender],
    settings: Settings,
    cancel: &Cancel,
) -> Result<Vec<CodecRow>, BenchError> {
    let Settings { layout, threads, .. } = settings;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| BenchError::Threads { threads, reason: error.to_string() })?;
    let supported = contenders.iter().filter(|contender| contender.supports(layout, load.dtype));
    supported
        .map(|contender| {
            if cancel.is_cancelled() {
                return Err(BenchError::Cancelled);
            }
            pool.install(|| measure(load, contender, settings, cancel))
        })
        .collect()
}

fn measure(
    load: &Load,
    contender: &Contender,
    settings: Settings,
    cancel: &Cancel,
) -> Result<CodecRow, BenchError> {
    let Load { file, dtype, tensors } = load;
    let (codec, file, dtype) = (contender.to_string(), file.clone(), *dtype);
    let failed = |reason| BenchError::Failed { codec: codec.clone(), file: file.clone(), reason };
    let Settings { layout, threads, pages } = settings;
    let task = |tensor| task_of(tensor, contender, layout, dtype);
    let lens = || {
        let values = tensors.iter().map(|tensor| tensor.values.len());
        values.clone().chain(values).chain(tensors.iter().map(|tensor| task(tensor).room_len()))
    };
    let bytes = lens().map(padded).sum();
    let refused = |reason| BenchError::Memory { bytes, pages, reason };
    let mut memory = Memory::new(pages, bytes).map_err(refused)?;
    let mut parts = memory.parts(lens());
    // Touched: the first round would take the page faults otherwise.
    parts.iter_mut().for_each(|part| part.fill(1));
    let rooms = parts.split_off(2 * tensors.len());
    let out = parts.split_off(tensors.len());
    let mut values = parts;
    values.iter_mut().zip(tensors).for_each(|(values, tensor)| values.copy_from_slice(&tensor.values));
    let workers = tensors.iter().zip(rooms).map(|(tensor, room)| Worker::new(task(tensor), room));
    let workers: Vec<Worker<'_>> = workers.collect::<Result<_, _>>().map_err(failed)?;

    let mut buffers = Buffers { values, out, workers, threads };
    buffers.run(Step::Encode).and_then(|()| buffers.run(Step::Decode)).map_err(failed)?;
    if tensors.iter().zip(&buffers.out).any(|(tensor, out)| tensor.values != **out) {
        return Err(BenchError::NotLossless { codec, file, dtype });
    }
    let bytes_raw: usize = tensors.iter().map(|tensor| tensor.values.len()).sum();
    let bytes_coded: usize = buffers.workers.iter().map(Worker::coded_len).sum();
    let [encode_gbps, decode_gbps, memcpy_gbps] = buffers.speeds(bytes_raw, cancel, failed)?;
    Ok(CodecRow {
        codec,
        layout: layout.name(),
        file,
        dtype: dtype.name(),
        threads,
        pages,
        huge_pages_pct: memory.huge_pct(),
        simd: simd_level().to_string(),
        zeros_pct: zeros_pct(load),
        bytes_raw: bytes_raw as u64,
        bytes_coded: bytes_coded as u64,
        size_pct: 100.0 * bytes_coded as f64 / bytes_raw as f64,
        encode_gbps,
        decode_gbps,
        memcpy_gbps,
    })
}

/// Work whose speed is measured.
#[derive(Clone, Copy)]
enum Step {
    Encode,
    Decode,
    Copy,
}

/// Buffers of all tensors of a load, and the codecs at work on them.
struct Buffers<'m, 'w> {
    values: Vec<&'m mut [u8]>,
    out: Vec<&'m mut [u8]>,
    workers: Vec<Worker<'w>>,
    threads: usize,
}

impl Buffers<'_, '_> {
    fn run(&mut self, step: Step) -> Result<(), String> {
        let Self { values, out, workers, threads } = self;
        match step {
            Step::Encode => {
                workers.iter_mut().zip(values).try_for_each(|(worker, values)| worker.encode(values))
            }
            Step::Decode => workers.iter().zip(out).try_for_each(|(worker, out)| worker.decode(out)),
            Step::Copy => {
                copy(values, out, *threads);
                Ok(())
            }
        }
    }

    /// Speeds of all steps in GB/s, side by side: a disturbance that slows one of them in a round slows its neighbours, too.
    fn speeds(
        &mut self,
        bytes: usize,
        cancel: &Cancel,
        failed: impl Fn(String) -> BenchError,
    ) -> Result<[f64; 3], BenchError> {
        let mut speeds: [Vec<f64>; 3] = Default::default();
        let mut repeats = [1; 3];
        for round in 0..=ROUNDS {
            let mut seconds = [0.0; 3];
            for ((step, repeats), seconds) in
                [Step::Encode, Step::Decode, Step::Copy].into_iter().zip(repeats).zip(&mut seconds)
            {
                if cancel.is_cancelled() {
                    return Err(BenchError::Cancelled);
                }
                let begin = Instant::now();
                for _ in 0..repeats {
                    self.run(step).map_err(&failed)?;
                }
                *seconds = begin.elapsed().as_secs_f64();
            }
            if round == 0 {
                repeats =
                    seconds.map(|seconds| (SHORTEST_ROUND_S / seconds.max(1e-9)).ceil().max(1.0) as usize);
                continue;
            }
            for (step, speeds) in speeds.iter_mut().enumerate() {
                speeds.push((bytes * repeats[step]) as f64 / seconds[step] / 1e9);
            }
        }
        Ok(speeds.map(median))
    }
}

fn task_of<'a>(tensor: &'a LoadTensor, contender: &'a Contender, layout: Layout, dtype: DType) -> Task<'a> {
    let LoadTensor { row, values, base } = tensor;
    Task { contender, layout, dtype, row: *row, len: values.len(), base: base.as_deref() }
}

/// The share of zeros, on which speeds depend, in percent.
fn zeros_pct(load: &Load) -> f64 {
    let values = || load.tensors.iter().flat_map(|tensor| tensor.values.chunks_exact(load.dtype.width()));
    let zeros = values().filter(|value| value.iter().all(|byte| *byte == 0)).count();
    100.0 * zeros as f64 / values().count().max(1) as f64
}

/// Copies each tensor in as many parts as there are threads: the longest calls, which the library's function makes the
/// most of.
fn copy(values: &[&mut [u8]], out: &mut [&mut [u8]], threads: usize) {
    for (values, out) in values.iter().zip(out) {
        let part = values.len().div_ceil(threads).next_multiple_of(1 << 12);
        let parts = values.par_chunks(part).zip(out.par_chunks_mut(part));
        parts.for_each(|(from, to)| to.copy_from_slice(std::hint::black_box(from)));
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
