//! One codec at one size.

use zipwire_kernels::{Decoder, Encoder, Event, GpuError};

use super::frames::{Frame, Frames};
use super::timing::seconds_per_launch;
use super::{GpuBenchError, GpuRow, wrong};

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
