//! Measurements: one codec at one size, sums of decoded values as a Reduce-Scatter adds them up, and how long launches take by the device's clock.

use zipwire_codec::DType;
use zipwire_kernels::{
    Addition, Decoder, Device, DeviceRegion, Encoder, Event, GpuError, Stream, Summer, Values,
};

use super::frames::{Frame, Frames};
use super::{GpuBenchError, GpuRow, GpuSum, wrong};

impl Frames<'_> {
    /// Checks and measures; launches take turns among `sets` frames of the same values.
    pub(super) fn row(&self, values: &[u8], sets: u64, shortest_s: f64) -> Result<GpuRow, GpuBenchError> {
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
pub(super) fn sums(
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
///
/// # Errors
/// If a launch fails.
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
