//! Cost of weights that are held compressed: walks through the blocks of a model as a forward pass does, and multiplies each matrix by a
//! vector once its block is decoded.

use std::hint::black_box;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Instant;

use ndarray::{ArrayView1, aview1};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde::Serialize;
use zipwire_codec::{DType, Spec};
use zipwire_kernels::{Device, Stream};
use zipwire_models::file::TensorInfo;
use zipwire_models::held::{HeldError, HeldModel, HeldOptions, Place, Walk};
use zipwire_runner::Cancel;

/// Codecs by which models are held on a GPU.
const GPU_CODECS: [&str; 3] = ["huffman", "tiered", "rans"];
/// Values of a frame on a GPU: 16 MiB of BF16.
const GPU_CHUNK_VALUES: NonZero<usize> = NonZero::new(8 << 20).expect("it is not zero");
/// Bytes of a matrix that a thread multiplies at once.
const SHARE: usize = 256 << 10;

/// Settings of a benchmark of held weights.
#[derive(Clone, Debug)]
pub struct HeldSettings {
    /// Files of one model, or folders.
    pub model: Vec<PathBuf>,
    /// Codecs for all tensors, in memory.
    pub codecs: Vec<Spec>,
    /// How many blocks, from the first one on; `None` for all.
    pub blocks: Option<usize>,
    /// Where the model is held as the files have it, beside that.
    pub as_files: Vec<Place>,
    /// Whether it is held by `huffman`, `tiered` and `rans` on the first GPU, too.
    pub on_gpu: bool,
    /// Threads that decode and multiply.
    pub threads: NonZero<usize>,
    /// Passes that are measured, at least 1, after one that is not.
    pub passes: usize,
}

/// The rows, and what they are of.
#[derive(Clone, Debug, Serialize)]
pub struct HeldReport {
    /// Blocks of a pass.
    pub blocks: usize,
    /// Bytes of all their tensors.
    pub bytes_raw: u64,
    /// Bytes of the matrices that are multiplied, of types that multiplication knows: BF16, F16 and F32.
    pub bytes_multiplied: u64,
    /// Threads that decode and multiply.
    pub threads: usize,
    /// One for each way of holding the model.
    pub rows: Vec<HeldRow>,
}

/// A model that is held in one way. Times are those of the pass whose total is the median.
#[derive(Clone, Debug, Serialize)]
pub struct HeldRow {
    /// The codec of all tensors; `None` if they are as the files have them.
    pub codec: Option<String>,
    /// Where it is held: `memory`, `disk` or `gpu`. There nothing is multiplied.
    pub place: &'static str,
    /// Bytes that are held: frames, and values of what does not compress.
    pub bytes_held: u64,
    /// 100 x held / raw.
    pub held_pct: f64,
    /// Bytes of the buffer that blocks are decoded to.
    pub bytes_buffer: u64,
    /// Seconds of a pass.
    pub pass_s: f64,
    /// Seconds of it in which blocks are decoded.
    pub decode_s: f64,
    /// Seconds of it in which a block is waited for.
    pub wait_s: f64,
    /// Seconds of it in which matrices are multiplied.
    pub multiply_s: f64,
    /// 100 x decoding / pass.
    pub decode_share_pct: f64,
    /// Raw bytes (10^9) of all tensors per second of decoding; `None` if nothing is decoded.
    pub decode_gbps: Option<f64>,
    /// The bandwidth, in GB/s, at which fetching the bytes that holding frames saves would take as long as decoding: over a slower link, holding
    /// frames is faster than keeping these bytes elsewhere. `None` if nothing is decoded.
    pub break_even_gbps: Option<f64>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum HeldBenchError {
    #[error("stopped")]
    Cancelled,
    /// The model is not held.
    #[error(transparent)]
    Held(#[from] HeldError),
    #[error("the model has no tensors\nhelp: name safetensors files with weights")]
    Empty,
    #[error(
        "cannot start {threads} threads: {reason}\nhelp: take fewer, or raise what limits them: `ulimit -u` or `ulimit -v`, or the \
         container's limit of processes"
    )]
    Threads { threads: usize, reason: String },
}

/// Seconds of a pass.
#[derive(Clone, Copy, Debug)]
struct Pass {
    total: f64,
    next: f64,
    wait: f64,
    multiply: f64,
}

/// Measures the model with each codec in memory, and then as the files have it.
///
/// # Errors
/// If the model cannot be held or is damaged, or the user stops it.
pub fn bench_held(settings: &HeldSettings, cancel: &Cancel) -> Result<HeldReport, HeldBenchError> {
    let threads = settings.threads.get();
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| HeldBenchError::Threads { threads, reason: error.to_string() })?;
    // What is not there is said before anything is measured.
    let device = settings.on_gpu.then(|| Device::open(0)).transpose().map_err(HeldError::from)?;
    let mut ways: Vec<_> = settings.codecs.iter().map(|spec| (Some(spec.clone()), Place::Memory)).collect();
    ways.extend(settings.as_files.iter().map(|place| (None, *place)));
    let mut report = HeldReport { blocks: 0, bytes_raw: 0, bytes_multiplied: 0, threads, rows: Vec::new() };
    for (codec, place) in ways {
        if cancel.is_cancelled() {
            return Err(HeldBenchError::Cancelled);
        }
        let (threads, blocks) = (settings.threads, settings.blocks);
        let options = HeldOptions { codec: codec.clone(), place, threads, blocks, ..HeldOptions::default() };
        let model = HeldModel::open(&settings.model, &options)?;
        let bench = Bench { model: &model, pool: &pool, cancel };
        (report.blocks, report.bytes_raw) = (model.blocks().len(), model.bytes());
        if report.bytes_raw == 0 {
            return Err(HeldBenchError::Empty);
        }
        let (bytes_multiplied, pass) = bench.passes(settings.passes)?;
        report.bytes_multiplied = bytes_multiplied;
        let place = match place {
            Place::Memory => "memory",
            Place::Disk => "disk",
        };
        let codec = codec.map(|spec| spec.to_string());
        let bytes = [model.bytes(), model.bytes_kept(), model.bytes_decoded()];
        report.rows.push(HeldRow::new(codec, place, bytes, pass));
    }
    if let Some(device) = device {
        for codec in GPU_CODECS {
            report.rows.push(on_gpu(&device, codec, settings, cancel)?);
        }
    }
    Ok(report)
}

/// The model on a GPU: its blocks are decoded one after the other, and the device is waited for behind the last.
fn on_gpu(
    device: &Device,
    codec: &str,
    settings: &HeldSettings,
    cancel: &Cancel,
) -> Result<HeldRow, HeldBenchError> {
    zipwire_paper_codecs::register();
    let codec: Spec = codec.parse().expect("it is a codec without options");
    let options = HeldOptions {
        codec: Some(codec.clone()),
        chunk_values: GPU_CHUNK_VALUES,
        threads: settings.threads,
        blocks: settings.blocks,
        ..HeldOptions::default()
    };
    let model = HeldModel::open(&settings.model, &options)?;
    let on_device = model.on_device(device)?;
    let stream = Stream::new(device).map_err(HeldError::from)?;
    let mut passes_s = Vec::new();
    for number in 0..=settings.passes {
        let begin = Instant::now();
        for block in 0..on_device.block_count() {
            if cancel.is_cancelled() {
                return Err(HeldBenchError::Cancelled);
            }
            on_device.decode(block, &stream)?.for_each(drop);
        }
        on_device.check(&stream)?;
        if number > 0 {
            passes_s.push(begin.elapsed().as_secs_f64());
        }
    }
    passes_s.sort_by(f64::total_cmp);
    let pass_s = passes_s[passes_s.len() / 2];
    let pass = Pass { total: pass_s, next: pass_s, wait: 0.0, multiply: 0.0 };
    let bytes = [model.bytes(), on_device.bytes_kept(), on_device.bytes_decoded()];
    Ok(HeldRow::new(Some(codec.to_string()), "gpu", bytes, pass))
}

impl HeldRow {
    /// A row for a pass over `bytes_raw` of tensors, held in `bytes_held` and decoded to a buffer of `bytes_buffer`.
    fn new(
        codec: Option<String>,
        place: &'static str,
        [bytes_raw, bytes_held, bytes_buffer]: [u64; 3],
        Pass { total: pass_s, next, wait: wait_s, multiply: multiply_s }: Pass,
    ) -> Self {
        let decode_s = next - wait_s;
        let per_second = |bytes: u64| (bytes_buffer > 0).then(|| bytes as f64 / decode_s / 1e9);
        Self {
            codec,
            place,
            bytes_held,
            held_pct: 100.0 * bytes_held as f64 / bytes_raw as f64,
            bytes_buffer,
            pass_s,
            decode_s,
            wait_s,
            multiply_s,
            decode_share_pct: 100.0 * decode_s / pass_s,
            decode_gbps: per_second(bytes_raw),
            break_even_gbps: per_second(bytes_raw.saturating_sub(bytes_held)),
        }
    }
}

struct Bench<'a> {
    model: &'a HeldModel,
    pool: &'a ThreadPool,
    cancel: &'a Cancel,
}

impl Bench<'_> {
    /// Bytes of the matrices, and the pass in the middle.
    fn passes(&self, count: usize) -> Result<(u64, Pass), HeldBenchError> {
        let mut walk = self.model.walk(0..self.model.blocks().len())?;
        let (bytes, _) = self.pass(&mut walk)?;
        let mut passes = Vec::new();
        for _ in 0..count {
            walk.restart();
            passes.push(self.pass(&mut walk)?.1);
        }
        passes.sort_by(|a, b| a.total.total_cmp(&b.total));
        Ok((bytes, passes[passes.len() / 2]))
    }

    fn pass(&self, walk: &mut Walk<'_>) -> Result<(u64, Pass), HeldBenchError> {
        let (begin, waited) = (Instant::now(), walk.waited());
        let (mut next, mut bytes_multiplied) = (0.0, 0);
        loop {
            if self.cancel.is_cancelled() {
                return Err(HeldBenchError::Cancelled);
            }
            let asked = Instant::now();
            let block = walk.next()?;
            next += asked.elapsed().as_secs_f64();
            let Some(block) = block else { break };
            for (tensor, values) in block.tensors() {
                bytes_multiplied += self.pool.install(|| multiply(tensor, values));
            }
        }
        let (total, wait) = (begin.elapsed().as_secs_f64(), (walk.waited() - waited).as_secs_f64());
        Ok((bytes_multiplied, Pass { total, next, wait, multiply: total - next }))
    }
}

/// Multiplies a matrix by a vector, if it is one of a type that can be; the bytes of it. Its rows are along the first dimension.
fn multiply(tensor: &TensorInfo, values: &[u8]) -> u64 {
    let (Some(dtype), [rows, columns @ ..]) = (DType::from_name(&tensor.dtype), &tensor.shape[..]) else {
        return 0;
    };
    let width: usize = columns.iter().product();
    let is_known = matches!(dtype, DType::Bf16 | DType::F16 | DType::F32);
    if columns.is_empty() || rows * width == 0 || !is_known {
        return 0;
    }
    let vector: Vec<f32> = (0..width).map(|column| (column % 7) as f32 / 7.0).collect();
    let row_len = width * dtype.width();
    let rows_at_once = (SHARE / row_len).max(1);
    values.par_chunks(rows_at_once * row_len).for_each(|rows| {
        let mut row_values = vec![0.0; width];
        for row in rows.chunks(row_len) {
            widen(dtype, row, &mut row_values);
            let product: f32 = ArrayView1::from(&row_values).dot(&aview1(&vector));
            black_box(product);
        }
    });
    values.len() as u64
}

fn widen(dtype: DType, values: &[u8], out: &mut [f32]) {
    let pair = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
    match dtype {
        DType::F32 => {
            for (out, bytes) in out.iter_mut().zip(values.chunks_exact(4)) {
                *out = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
        }
        DType::F16 => {
            // Exponents of FP16 are moved below those of FP32, and a product puts them right, subnormal ones as well. Infinities become
            // large numbers, which does not matter for time.
            let scale = f32::from_bits((254 - 15) << 23);
            for (out, bytes) in out.iter_mut().zip(values.chunks_exact(2)) {
                let bits = u32::from(pair(bytes));
                *out = f32::from_bits((bits & 0x8000) << 16 | (bits & 0x7fff) << 13) * scale;
            }
        }
        _ => {
            for (out, bytes) in out.iter_mut().zip(values.chunks_exact(2)) {
                *out = f32::from_bits(u32::from(pair(bytes)) << 16);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_widened() {
        let mut out = [0.0; 4];
        let bytes = |bits: [u16; 4]| bits.into_iter().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        widen(DType::Bf16, &bytes([0x3f80, 0xc000, 0, 0x7f80]), &mut out);
        assert_eq!(out, [1.0, -2.0, 0.0, f32::INFINITY]);
        // 2^-24 is the smallest of FP16, 65504 the largest.
        widen(DType::F16, &bytes([0x3c00, 0xc000, 0x0001, 0x7bff]), &mut out);
        assert_eq!(out, [1.0, -2.0, 1.0 / 16_777_216.0, 65504.0]);
        widen(DType::F32, &[1.5f32, -0.0, 3.0, 1e30].map(f32::to_le_bytes).concat(), &mut out);
        assert_eq!(out, [1.5, -0.0, 3.0, 1e30]);
    }

    #[test]
    fn matrices_are_multiplied_and_all_else_is_not() {
        let tensor = |dtype: &str, shape: &[usize]| TensorInfo {
            name: "w".to_owned(),
            dtype: dtype.to_owned(),
            shape: shape.to_vec(),
            range: 0..0,
        };
        assert_eq!(multiply(&tensor("BF16", &[3, 5, 2]), &[0; 60]), 60);
        for (dtype, shape, len) in
            [("BF16", &[30][..], 60), ("BF16", &[0, 30], 0), ("I64", &[2, 2], 32), ("F8_E4M3", &[2, 2], 4)]
        {
            assert_eq!(multiply(&tensor(dtype, shape), &vec![0; len]), 0, "{dtype} {shape:?}");
        }
    }
}
