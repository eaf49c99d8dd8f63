//! Speeds of the kernels beside copies.

use zipwire_codec::DType;
use zipwire_kernels::{Addition, Decoder, Device, DeviceRegion, Encoder, GpuError, Stream, Summer, Values};

use super::frames::{Frame, Frames};
use super::parity::difference;
use super::timing::Timer;
use super::{GpuRow, GpuSum};

/// A row, or the difference from the CPU for which there is none.
pub(super) type Measured = Result<GpuRow, String>;

impl Frames<'_> {
    /// Checks and measures; launches take turns among `sets` frames of the same values.
    ///
    /// # Errors
    /// If the device fails.
    pub(super) fn row(&self, timer: &Timer<'_>, values: &[u8], sets: u64) -> Result<Measured, GpuError> {
        let on_cpu = self.on_cpu(values);
        let frames = (0..sets).map(|_| self.frame(values, &on_cpu)).collect::<Result<Vec<_>, _>>()?;
        let encoders = frames.chunks(1).map(|one| self.encoder(one)).collect::<Result<Vec<_>, _>>()?;
        let decoders = frames.chunks(1).map(|one| self.decoder(one)).collect::<Result<Vec<_>, _>>()?;
        let encoders: Option<Vec<Encoder>> = encoders.into_iter().collect();
        if let Some(wrong) = self.check(values, &on_cpu, &frames, encoders.as_deref(), &decoders)? {
            return Ok(Err(wrong));
        }
        let of_set = |launch: usize| launch % frames.len();
        // Throughput, and the latency of one alone.
        let time = |launch: &dyn Fn(usize) -> Result<(), GpuError>| -> Result<[f64; 2], GpuError> {
            Ok([timer.seconds_per_launch(launch)?, timer.seconds_alone(launch)?])
        };
        let copy = time(&|launch| {
            let frame = &frames[of_set(launch)];
            self.stream.copy(&frame.values, &frame.decoded)
        })?;
        let encode = encoders
            .map(|encoders| time(&|launch| encoders[of_set(launch)].launch(self.stream)))
            .transpose()?;
        let decode = time(&|launch| decoders[of_set(launch)].launch(self.stream))?;
        let batch = self.decoder(&frames)?;
        let batch_s = timer.seconds_per_launch(&|_| batch.launch(self.stream))? / sets as f64;
        let (bytes, coded) = (values.len() as u64, on_cpu.len() as u64);
        let speed = |seconds: f64| bytes as f64 / seconds / 1e9;
        let share = |seconds: f64| (bytes + coded) as f64 / seconds / (2 * bytes) as f64 * copy[0];
        Ok(Ok(GpuRow {
            codec: self.spec.to_string(),
            dtype: self.dtype.name(),
            layout: self.layout.name(),
            bytes_raw: bytes,
            bytes_coded: coded,
            size_pct: 100.0 * coded as f64 / bytes as f64,
            encode_gbps: encode.map(|[seconds, _]| speed(seconds)),
            decode_gbps: speed(decode[0]),
            decode_batch_gbps: speed(batch_s),
            copy_gbps: speed(copy[0]),
            encode_share: encode.map(|[seconds, _]| share(seconds)),
            decode_share: share(decode[0]),
            encode_latency_us: encode.map(|[_, alone]| 1e6 * alone),
            decode_latency_us: 1e6 * decode[1],
            copy_latency_us: 1e6 * copy[1],
        }))
    }

    /// Codes every set once: the difference, if the first frame has not the bytes that the CPU writes, or one decodes to other values.
    fn check(
        &self,
        values: &[u8],
        on_cpu: &[u8],
        frames: &[Frame],
        encoders: Option<&[Encoder]>,
        decoders: &[Decoder],
    ) -> Result<Option<String>, GpuError> {
        encoders.into_iter().flatten().try_for_each(|encoder| encoder.launch(self.stream))?;
        decoders.iter().try_for_each(|decoder| decoder.launch(self.stream))?;
        self.stream.synchronize()?;
        if let Some(what) = difference(&frames[0].read()?, on_cpu) {
            return Ok(Some(what));
        }
        for (frame, decoder) in frames.iter().zip(decoders) {
            if let Some(fault) = Decoder::faults(&decoder.states().read()?).into_iter().flatten().next() {
                return Ok(Some(format!("the frame is refused: {fault}")));
            }
            if frame.decoded.read()? != values {
                return Ok(Some("it decodes to other values".to_owned()));
            }
        }
        Ok(None)
    }
}

/// Contributions to a sum: of two ranks, and of eight.
const TERMS: [u64; 2] = [2, 8];

/// Measures sums that read so many bytes of BF16 values, which are parts of `values`; launches take turns among `sets` of them.
///
/// # Errors
/// If the device fails.
pub(super) fn sum_rows(
    device: &Device,
    stream: &Stream,
    timer: &Timer<'_>,
    values: &[u8],
    sets: u64,
) -> Result<Vec<GpuSum>, GpuError> {
    let summer = Summer::new(device)?;
    let region = |bytes: u64| DeviceRegion::allocate(device, bytes);
    let (width, mut rows) = (DType::Bf16.width() as u64, Vec::new());
    for terms in TERMS {
        let of_term = values.len() as u64 / terms / width * width;
        if of_term == 0 {
            continue;
        }
        let bytes = terms * of_term;
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
        let copy = |launch| stream.copy(&sources[of_set(launch)], &targets[of_set(launch)]);
        let copy_s = timer.seconds_per_launch(&copy)?;
        let sum_s = timer.seconds_per_launch(&|launch| sums[of_set(launch)].launch(stream))?;
        rows.push(GpuSum {
            terms,
            bytes_read: bytes,
            read_gbps: bytes as f64 / sum_s / 1e9,
            share: (bytes + of_term) as f64 / sum_s / (2 * bytes) as f64 * copy_s,
        });
    }
    Ok(rows)
}
