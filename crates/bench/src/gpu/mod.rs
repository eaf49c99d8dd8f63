//! Speed of the kernels on a GPU, beside copies of the same size on the same device in the same run.
//!
//! Every row is first compared with the codec of the CPU: the kernels write the same bytes, and read their values out of
//! them. Times are the device's own, launches included.

mod frames;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use zipwire_codec::{DType, Layout, Spec};
use zipwire_kernels::{
    Addition, Coder, Decoder, Device, DeviceRegion, Encoder, Event, GpuError, Stream, Summer, Values,
};
use zipwire_runner::Cancel;

use self::frames::{Frame, Frames};

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
    #[error("stopped")]
    Cancelled,
    /// The device is absent or has failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
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
            compared += compare(frames, values, settings.seed)?;
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
                sums.extend(sum_rows(&device, &stream, &values, sets, settings.shortest_s)?);
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

impl Frames<'_> {
    /// Checks and measures; launches take turns among `sets` frames of the same values.
    fn row(&self, values: &[u8], sets: u64, shortest_s: f64) -> Result<GpuRow, GpuBenchError> {
        let on_cpu = self.on_cpu(values).map_err(|error| wrong(self, values, &error.to_string()))?;
        let frames = (0..sets).map(|_| self.frame(values, &on_cpu)).collect::<Result<Vec<_>, _>>()?;
        let encoders = frames.chunks(1).map(|one| self.encoder(one)).collect::<Result<Vec<_>, _>>()?;
        let decoders = frames.chunks(1).map(|one| self.decoder(one)).collect::<Result<Vec<_>, _>>()?;
        self.check(values, &on_cpu, &frames, &encoders, &decoders)?;

        let events = [Event::new(self.device)?, Event::new(self.device)?];
        let time = |launch: &dyn Fn(usize) -> Result<(), GpuError>| {
            seconds_per_launch(self.stream, &events, shortest_s, launch)
        };
        let of_set = |launch: usize| launch % frames.len();
        let copy_s = time(&|launch| {
            let frame = &frames[of_set(launch)];
            self.stream.copy(&frame.values, &frame.decoded)
        })?;
        let encoders: Option<Vec<Encoder>> = encoders.into_iter().collect();
        let encode_s = encoders
            .map(|encoders| time(&|launch| encoders[of_set(launch)].launch(self.stream)))
            .transpose()?;
        let decode_s = time(&|launch| decoders[of_set(launch)].launch(self.stream))?;
        let batch = self.decoder(&frames)?;
        let batch_s = time(&|_| batch.launch(self.stream))? / sets as f64;
        let (bytes, coded) = (values.len() as u64, on_cpu.len() as u64);
        let speed = |seconds: f64| bytes as f64 / seconds / 1e9;
        let share = |seconds: f64| (bytes + coded) as f64 / seconds / (2 * bytes) as f64 * copy_s;
        Ok(GpuRow {
            codec: self.spec.to_string(),
            dtype: self.dtype.name(),
            layout: self.layout.name(),
            bytes_raw: bytes,
            bytes_coded: coded,
            size_pct: 100.0 * coded as f64 / bytes as f64,
            encode_gbps: encode_s.map(speed),
            decode_gbps: speed(decode_s),
            decode_batch_gbps: speed(batch_s),
            copy_gbps: speed(copy_s),
            encode_share: encode_s.map(share),
            decode_share: share(decode_s),
        })
    }

    /// Codes every set once. Every frame has the bytes that the CPU writes; all decode to the values.
    fn check(
        &self,
        values: &[u8],
        on_cpu: &[u8],
        frames: &[Frame],
        encoders: &[Option<Encoder>],
        decoders: &[Decoder],
    ) -> Result<(), GpuBenchError> {
        encoders.iter().flatten().try_for_each(|encoder| encoder.launch(self.stream))?;
        decoders.iter().try_for_each(|decoder| decoder.launch(self.stream))?;
        self.stream.synchronize()?;
        let found = frames[0].read()?;
        let what = match found.iter().zip(on_cpu).position(|(a, b)| a != b) {
            Some(at) => format!("byte {at} of the frame is not what the CPU writes"),
            None => format!("the frame has {} bytes where the CPU's has {}", found.len(), on_cpu.len()),
        };
        if found != on_cpu {
            return Err(wrong(self, values, &what));
        }
        for (frame, decoder) in frames.iter().zip(decoders) {
            if let Some(fault) = Decoder::faults(&decoder.states().read()?).into_iter().flatten().next() {
                return Err(wrong(self, values, &format!("the frame is refused: {fault}")));
            }
            if frame.decoded.read()? != values {
                return Err(wrong(self, values, "it decodes to other values"));
            }
        }
        Ok(())
    }
}

/// Contributions to a sum: of two ranks, and of eight.
const TERMS: [u64; 2] = [2, 8];

/// Measures sums that read `bytes` bytes of BF16 values, which are parts of `values`; launches take turns among `sets` of them.
fn sum_rows(
    device: &Device,
    stream: &Stream,
    values: &[u8],
    sets: u64,
    shortest_s: f64,
) -> Result<Vec<GpuSum>, GpuBenchError> {
    let summer = Summer::new(device)?;
    let region = |bytes: u64| DeviceRegion::allocate(device, bytes);
    let (width, mut rows) = (DType::Bf16.width() as u64, Vec::new());
    for terms in TERMS {
        let of_term = values.len() as u64 / terms / width * width;
        if of_term == 0 {
            continue;
        }
        let bytes = terms * of_term;
        let events = [Event::new(device)?, Event::new(device)?];
        let sources = (0..sets).map(|_| region(bytes)).collect::<Result<Vec<_>, _>>()?;
        let targets = (0..sets).map(|_| region(bytes)).collect::<Result<Vec<_>, _>>()?;
        let sums = sources.iter().zip(&targets).map(|(source, target)| {
            source.write(&values[..usize::try_from(bytes).expect("it is in memory")])?;
            let bf16 = |region| Values { region, dtype: DType::Bf16 };
            // Terms begin at multiples of 16 bytes where their number and length allow it.
            let terms =
                (0..terms).map(|term| bf16(source.part(term * of_term..(term + 1) * of_term))).collect();
            summer.sums(vec![Addition { output: bf16(target.part(0..of_term)), terms }])
        });
        let sums = sums.collect::<Result<Vec<_>, GpuError>>()?;
        let of_set = |launch: usize| launch % sums.len();
        let time = |launch: &dyn Fn(usize) -> Result<(), GpuError>| {
            seconds_per_launch(stream, &events, shortest_s, launch)
        };
        let copy_s = time(&|launch| stream.copy(&sources[of_set(launch)], &targets[of_set(launch)]))?;
        let sum_s = time(&|launch| sums[of_set(launch)].launch(stream))?;
        rows.push(GpuSum {
            terms,
            bytes_read: bytes,
            read_gbps: bytes as f64 / sum_s / 1e9,
            share: (bytes + of_term) as f64 / sum_s / (2 * bytes) as f64 * copy_s,
        });
    }
    Ok(rows)
}

/// Rounds that are measured, after one that is not; the median counts.
const ROUNDS: usize = 5;
/// Launches of a round at most: where they are so short, the queue is full before.
const MOST_LAUNCHES: usize = 2000;

/// Seconds of the device from one launch to the next, if one follows the other. `launch` gets a running number; a round
/// takes about `shortest_s`.
fn seconds_per_launch(
    stream: &Stream,
    [begin, end]: &[Event; 2],
    shortest_s: f64,
    launch: &dyn Fn(usize) -> Result<(), GpuError>,
) -> Result<f64, GpuError> {
    let mut next = 0;
    let mut round = |launches: usize| {
        stream.record(begin)?;
        for _ in 0..launches {
            launch(next)?;
            next += 1;
        }
        stream.record(end)?;
        end.wait()?;
        end.seconds_since(begin).map(|seconds| seconds / launches as f64)
    };
    // The first launches are slow, so the second round says how many there are in the others.
    round(2)?;
    let guess_s = round(4)?.max(1e-7);
    let launches = ((shortest_s / guess_s) as usize).clamp(1, MOST_LAUNCHES);
    let mut rounds = (0..ROUNDS).map(|_| round(launches)).collect::<Result<Vec<f64>, _>>()?;
    rounds.sort_unstable_by(f64::total_cmp);
    Ok(rounds[ROUNDS / 2])
}

/// Numbers of values.
/// They lie around the lengths of groups and tiles.
const COUNTS: [usize; 12] = [1, 2, 13, 33, 513, 1023, 8191, 8192, 8193, 33_001, 65_536, 200_003];

/// Compares frames of the kernels with those of the CPU, and decodes them, before anything is timed; returns how many. Values are every
/// bit pattern, noise, and those that are going to be measured.
///
/// # Errors
/// If a frame has other bytes than the CPU's, or decodes to other values.
fn compare(kernels: &Frames<'_>, values: &[u8], seed: u64) -> Result<u64, GpuBenchError> {
    let dtype = kernels.dtype;
    let mut noise = vec![0; COUNTS[COUNTS.len() - 1] * dtype.width()];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut noise);
    let mut compared = 0;
    for content in [patterns(dtype), noise, values.to_vec()] {
        let of_len = |count: usize| content.iter().copied().cycle().take(count * dtype.width()).collect();
        let all_values: Vec<Vec<u8>> = COUNTS.into_iter().map(of_len).collect();
        let on_cpu = |values: &Vec<u8>| {
            kernels.on_cpu(values).map_err(|error| wrong(kernels, values, &error.to_string()))
        };
        let expected = all_values.iter().map(on_cpu).collect::<Result<Vec<_>, _>>()?;
        let frames =
            all_values.iter().zip(&expected).map(|(values, expected)| kernels.frame(values, expected));
        let frames = frames.collect::<Result<Vec<Frame>, _>>()?;
        if let Some(encoder) = kernels.encoder(&frames)? {
            encoder.launch(kernels.stream)?;
        }
        let decoder = kernels.decoder(&frames)?;
        decoder.launch(kernels.stream)?;
        kernels.stream.synchronize()?;
        let faults = Decoder::faults(&decoder.states().read()?);
        for (((values, expected), frame), fault) in all_values.iter().zip(&expected).zip(&frames).zip(faults)
        {
            if frame.read()? != *expected {
                return Err(wrong(kernels, values, "the frame is not that of the CPU"));
            }
            if let Some(fault) = fault {
                return Err(wrong(kernels, values, &format!("the frame is refused: {fault}")));
            }
            if frame.decoded.read()? != *values {
                return Err(wrong(kernels, values, "it decodes to other values"));
            }
            compared += 1;
        }
    }
    Ok(compared)
}

/// Every bit pattern of a type, in an order that mixes them; of F32 every upper half, with other lower ones.
fn patterns(dtype: DType) -> Vec<u8> {
    let width = dtype.width().min(2);
    let patterns = 1usize << (8 * width);
    let lower = |i: usize| i.wrapping_mul(40_505).to_le_bytes()[..dtype.width() - width].to_vec();
    let upper = |i: usize| (i.wrapping_mul(40_503) % patterns).to_le_bytes()[..width].to_vec();
    (0..patterns).flat_map(|i| [lower(i), upper(i)].concat()).collect()
}
