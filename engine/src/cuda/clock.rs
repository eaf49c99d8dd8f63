//! Times of devices in seconds of a run.

use zipwire_kernels::{Device, Event, GpuError, Stream};

/// The clock of one device in one iteration. It is set anew for each, because devices tell distances between events as
/// 32-bit floats, and because clocks drift.
#[derive(Debug)]
pub(crate) struct Clock {
    base: Event,
    base_s: f64,
}

impl Clock {
    /// Sets the clock by that of the run; waits for the device.
    pub(crate) fn set(device: &Device, now_s: impl FnOnce() -> f64) -> Result<Self, GpuError> {
        let (stream, base) = (Stream::new(device)?, Event::new(device)?);
        stream.record(&base)?;
        base.wait()?;
        Ok(Self { base, base_s: now_s() })
    }

    /// When the device passed an event, in seconds since the start of the run.
    pub(crate) fn time_s(&self, event: &Event) -> Result<f64, GpuError> {
        Ok(self.base_s + event.seconds_since(&self.base)?)
    }
}
