//! Points in streams.

use cudarc::driver::{DriverError, result, sys};

use super::Device;
use crate::error::{GpuError, check};

/// A point in a stream that others can wait for, and whose time is known. It has passed until it is recorded.
#[derive(Debug)]
pub struct Event {
    event: sys::CUevent,
    device: Device,
}

// SAFETY: the driver's handles can be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above; the driver synchronises its own state.
unsafe impl Sync for Event {}

impl Event {
    /// An event for streams of `device`.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        device.bind()?;
        let event = check("cuEventCreate", result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT))?;
        Ok(Self { event, device: device.clone() })
    }

    /// Whether the device has passed it.
    ///
    /// # Errors
    /// If something that the device did before has failed.
    pub fn has_passed(&self) -> Result<bool, GpuError> {
        self.device.bind()?;
        // SAFETY: the event is alive.
        match unsafe { result::event::query(self.event) } {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(GpuError::Driver { call: "cuEventQuery", error }),
        }
    }

    /// Waits until the device has passed it.
    ///
    /// # Errors
    /// If something that the device did before has failed.
    pub fn wait(&self) -> Result<(), GpuError> {
        self.device.bind()?;
        // SAFETY: the event is alive.
        check("cuEventSynchronize", unsafe { result::event::synchronize(self.event) })
    }

    /// Seconds of the device from `earlier` to this one, both recorded on the same device and passed. Exact to about half
    /// a microsecond.
    ///
    /// # Errors
    /// If one of them has not passed, or has never been recorded.
    pub fn seconds_since(&self, earlier: &Self) -> Result<f64, GpuError> {
        self.device.bind()?;
        // SAFETY: both events are alive.
        let milliseconds =
            check("cuEventElapsedTime", unsafe { result::event::elapsed(earlier.event, self.event) })?;
        Ok(f64::from(milliseconds) * 1e-3)
    }

    pub(crate) fn raw(&self) -> sys::CUevent {
        self.event
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it was created once; the driver keeps what is still queued.
        let destroyed = self.device.bind().map(|()| unsafe { result::event::destroy(self.event) });
        debug_assert!(matches!(destroyed, Ok(Ok(()))), "{destroyed:?}");
    }
}
