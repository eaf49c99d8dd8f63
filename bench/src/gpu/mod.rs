//! Speed of the kernels on a GPU, beside copies of the same size on the same device in the same run.
//!
//! Every row is first compared with the codec of the CPU: the kernels write the same bytes, and read their values out of
//! them. Times are the device's own, launches included.

mod parity;
mod timing;

use serde::Serialize;
use zipwire_codec::{DType, FrameShape, Layout, Spec, encode_to_vec};
use zipwire_experiments::Cancel;
use zipwire_kernels::{Block, Coder, Decoder, Device, DeviceRegion, Encoder, Event, GpuError, Stream};

use self::timing::seconds_per_launch;

/// Sets of buffers at most, and their share of the free memory.
const MOST_SETS: u64 = 1024;
const MEMORY_SHARE: f64 = 0.8;
/// What memory holds before kernels write it.
const POISON: u8 = 0xee;

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct GpuSettings<'a> {
    /// Number of the device.
    pub device: usize,
    /// Codecs, each of which has kernels for the type.
    pub codecs: &'a [Spec],
    /// Type of the values.
    pub dtype: DType,
    /// Values that are repeated as often as it takes.
    pub values: &'a [u8],
    /// Seed of the noise that is compared with the CPU.
    pub seed: u64,
    /// Bytes of values per launch, one row each.
    pub sizes: &'a [u64],
    /// Launches take turns among as many bytes of values: more than a cache of the GPU holds.
    pub rotated: u64,
    /// Seconds that each measurement takes at least.
    pub shortest_s: f64,
}

/// One codec at one size. GB/s are raw bytes (10^9) per second, the median of several rounds.
#[derive(Clone, Debug, Serialize)]
pub struct GpuRow {
    /// The codec.
    pub codec: String,
    /// Type of the values.
    pub dtype: &'static str,
    /// Bytes of the values.
    pub bytes_raw: u64,
    /// Bytes of the frame.
    pub bytes_coded: u64,
    /// 100 x coded / raw.
    pub size_pct: f64,
    /// Speed of encoding.
    pub encode_gbps: f64,
    /// Speed of decoding, with the checksum compared.
    pub decode_gbps: f64,
    /// Speed of decoding in a launch that has as many frames as launches of one take turns among: for small frames, what a batch
    /// is worth, such as all matrices of a transformer block.
    pub decode_batch_gbps: f64,
    /// Speed of a copy of the same values on the device.
    pub copy_gbps: f64,
    /// Bytes that encoding reads and writes per second, over those of the copy.
    pub encode_share: f64,
    /// Bytes that decoding reads and writes per second, over those of the copy.
    pub decode_share: f64,
}

/// What was measured where.
#[derive(Clone, Debug, Serialize)]
pub struct GpuReport {
    /// Name of the device.
    pub device: String,
    /// What the kernels were compiled for.
    pub arch: String,
    /// Frames of odd lengths, noise and all bit patterns that were compared with the CPU's.
    pub frames_compared: u64,
    /// The rows, by size and codec.
    pub rows: Vec<GpuRow>,
}

/// Why there is no measurement.
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
    #[error("codec `{codec}` on the GPU, {bytes} bytes of values: {what}")]
    Wrong {
        /// The codec.
        codec: String,
        /// Bytes of the values.
        bytes: u64,
        /// How.
        what: String,
    },
}

/// Measures every codec at every size that fits into the device's memory.
///
/// # Errors
/// If there is no device, kernels and CPU disagree, or the user stops it.
pub fn bench_gpu(settings: &GpuSettings<'_>, cancel: &Cancel) -> Result<GpuReport, GpuBenchError> {
    let device = Device::open(settings.device)?;
    let stream = Stream::new(&device)?;
    let coders = settings.codecs.iter().map(|spec| Coder::new(&device, spec, settings.dtype));
    let coders = coders.collect::<Result<Vec<_>, _>>()?;
    let compared = parity::compare(&device, &stream, settings.codecs, settings.values, settings.seed)?;
    let mut rows = Vec::new();
    for &bytes in settings.sizes {
        let values = repeated(settings.values, bytes);
        for (spec, coder) in settings.codecs.iter().zip(&coders) {
            if cancel.is_cancelled() {
                return Err(GpuBenchError::Cancelled);
            }
            let _span = tracing::info_span!("bench gpu", codec = %spec, bytes).entered();
            let Some(sets) = set_count(&device, bytes, settings.rotated)? else { continue };
            let bench = Bench { device: &device, stream: &stream, spec, coder, dtype: settings.dtype };
            rows.push(bench.row(&values, sets, settings.shortest_s)?);
        }
    }
    Ok(GpuReport { device: device.name()?, arch: device.arch()?, frames_compared: compared, rows })
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

struct Bench<'a> {
    device: &'a Device,
    stream: &'a Stream,
    spec: &'a Spec,
    coder: &'a Coder,
    dtype: DType,
}

impl Bench<'_> {
    fn row(&self, values: &[u8], sets: u64, shortest_s: f64) -> Result<GpuRow, GpuBenchError> {
        let bytes = values.len() as u64;
        let blocks = (0..sets)
            .map(|_| block(self.device, self.spec, self.dtype, values))
            .collect::<Result<Vec<Block>, _>>()?;
        let outputs = blocks
            .iter()
            .map(|block| Ok(Block { values: DeviceRegion::allocate(self.device, bytes)?, ..block.clone() }));
        let outputs = outputs.collect::<Result<Vec<Block>, GpuError>>()?;
        let encoders = blocks.iter().map(|block| self.coder.encoder(vec![block.clone()]));
        let encoders = encoders.collect::<Result<Vec<Encoder>, _>>()?;
        let decoders = outputs.iter().map(|block| self.coder.decoder(vec![block.clone()]));
        let decoders = decoders.collect::<Result<Vec<Decoder>, _>>()?;
        let coded = self.check(values, &blocks, &outputs, &encoders, &decoders)?;

        let time = |launch: &dyn Fn(usize) -> Result<(), GpuError>| {
            seconds_per_launch(
                self.stream,
                &[Event::new(self.device)?, Event::new(self.device)?],
                shortest_s,
                launch,
            )
        };
        let of_set = |launch: usize| launch % blocks.len();
        let copy_s = time(&|launch| {
            self.stream.copy(&blocks[of_set(launch)].values, &outputs[of_set(launch)].values)
        })?;
        let encode_s = time(&|launch| encoders[of_set(launch)].launch(self.stream))?;
        let decode_s = time(&|launch| decoders[of_set(launch)].launch(self.stream))?;
        let batch = self.coder.decoder(outputs.clone())?;
        let batch_s = time(&|_| batch.launch(self.stream))? / sets as f64;
        let speed = |seconds: f64| bytes as f64 / seconds / 1e9;
        let share = |seconds: f64| (bytes + coded) as f64 / seconds / (2 * bytes) as f64 * copy_s;
        Ok(GpuRow {
            codec: self.spec.to_string(),
            dtype: self.dtype.name(),
            bytes_raw: bytes,
            bytes_coded: coded,
            size_pct: 100.0 * coded as f64 / bytes as f64,
            encode_gbps: speed(encode_s),
            decode_gbps: speed(decode_s),
            decode_batch_gbps: speed(batch_s),
            copy_gbps: speed(copy_s),
            encode_share: share(encode_s),
            decode_share: share(decode_s),
        })
    }

    /// Codes every set once. The first frame has the bytes that the CPU writes; all decode to the values. Returns the length of
    /// a frame.
    fn check(
        &self,
        values: &[u8],
        blocks: &[Block],
        outputs: &[Block],
        encoders: &[Encoder],
        decoders: &[Decoder],
    ) -> Result<u64, GpuBenchError> {
        for (block, output) in blocks.iter().zip(outputs) {
            for region in [&block.static_section, &block.dynamic_section, &block.size, &output.values] {
                self.stream.fill(region, POISON)?;
            }
        }
        let wrong = |what: String| {
            let (codec, bytes) = (self.spec.to_string(), values.len() as u64);
            GpuBenchError::Wrong { codec, bytes, what }
        };
        let expected = encode_to_vec(&*self.spec.codec(), Layout::Split, self.dtype, values)
            .map_err(|error| wrong(error.to_string()))?;
        encoders.iter().try_for_each(|encoder| encoder.launch(self.stream))?;
        decoders.iter().try_for_each(|decoder| decoder.launch(self.stream))?;
        self.stream.synchronize()?;
        let found = frame_of(&blocks[0])?;
        if let Some(at) = found.iter().zip(&expected).position(|(a, b)| a != b) {
            return Err(wrong(format!("byte {at} of the frame is not what the CPU writes")));
        }
        if found.len() != expected.len() {
            let (found, expected) = (found.len(), expected.len());
            return Err(wrong(format!("the frame has {found} bytes where the CPU's has {expected}")));
        }
        for (output, decoder) in outputs.iter().zip(decoders) {
            if let Some(fault) = Decoder::faults(&decoder.states().read()?).into_iter().flatten().next() {
                return Err(wrong(format!("the frame is refused: {fault}")));
            }
            if output.values.read()? != values {
                return Err(wrong("it decodes to other values".to_owned()));
            }
        }
        Ok(expected.len() as u64)
    }
}

/// Buffers for a frame of these values, which are uploaded.
fn block(device: &Device, spec: &Spec, dtype: DType, values: &[u8]) -> Result<Block, GpuError> {
    let (codec, count) = (spec.codec(), values.len() / dtype.width());
    let static_len = codec.static_len(FrameShape::new(Layout::Split, dtype, count));
    let room = codec.bound(FrameShape::new(Layout::Split, dtype, count)) - static_len;
    let region = |len: usize| DeviceRegion::allocate(device, len as u64);
    let block = Block {
        values: region(values.len())?,
        static_section: region(static_len)?,
        dynamic_section: region(room)?,
        size: region(8)?,
    };
    block.values.write(values)?;
    Ok(block)
}

/// A frame in one buffer, static section first; cut where its size says more than there is room for.
fn frame_of(block: &Block) -> Result<Vec<u8>, GpuError> {
    let size = u64::from_le_bytes(block.size.read()?.try_into().expect("a size has eight bytes"));
    let mut frame = block.static_section.read()?;
    frame.extend(block.dynamic_section.part(0..size.min(block.dynamic_section.len())).read()?);
    Ok(frame)
}
