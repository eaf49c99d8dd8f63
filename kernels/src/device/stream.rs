//! Queues of a device's work, and points in them.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{DriverError, result, sys};

use super::{Device, DeviceRegion, HostBuffer};
use crate::error::{GpuError, check, is_released};

/// A queue: what is put into it runs in order, beside other streams. No call waits unless it says so.
///
/// Buffers that queued work uses must live until it is done; dropping one waits for the device. Clones are the same queue, which is destroyed
/// with the last of them.
#[derive(Clone, Debug)]
pub struct Stream(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    stream: sys::CUstream,
    device: Device,
    is_owned: bool,
}

// SAFETY: the driver's handles can be used from any thread.
unsafe impl Send for Queue {}
// SAFETY: as above; the driver synchronises its own state.
unsafe impl Sync for Queue {}

impl Stream {
    /// A stream of `device`.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        device.bind()?;
        let stream =
            check("cuStreamCreate", result::stream::create(result::stream::StreamKind::NonBlocking))?;
        Ok(Self(Arc::new(Queue { stream, device: device.clone(), is_owned: true })))
    }

    /// A stream that somebody else has made, such as a caller's `cudaStream_t`; null is the default stream. It is not destroyed here.
    ///
    /// # Safety
    /// It must be a stream of the device's primary context, and live as long as a clone of this value.
    pub unsafe fn borrowed(device: &Device, stream: *mut c_void) -> Self {
        Self(Arc::new(Queue { stream: stream.cast(), device: device.clone(), is_owned: false }))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Puts the event here: it passes when all before it is done.
    ///
    /// # Errors
    /// If the driver fails, or the event is another device's.
    pub fn record(&self, event: &Event) -> Result<(), GpuError> {
        self.0.device.bind()?;
        // SAFETY: both are alive.
        check("cuEventRecord", unsafe { result::event::record(event.raw(), self.0.stream) })
    }

    /// Makes later work of this stream wait for the event as recorded now.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn wait(&self, event: &Event) -> Result<(), GpuError> {
        self.0.device.bind()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive.
        check("cuStreamWaitEvent", unsafe { result::stream::wait_event(self.0.stream, event.raw(), flags) })
    }

    /// Copies between regions of equal length, of this device or of two.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy(&self, from: &DeviceRegion, to: &DeviceRegion) -> Result<(), GpuError> {
        assert_eq!(from.len(), to.len(), "as many bytes are read as are written");
        self.0.device.bind()?;
        let (src, dst, len) = (from.address(), to.address(), from.len() as usize);
        let (src_device, dst_device) = (from.buffer().device(), to.buffer().device());
        if src_device.is(dst_device) {
            // SAFETY: both regions are within live allocations, which the caller keeps until the copy is done.
            check("cuMemcpyDtoDAsync", unsafe { result::memcpy_dtod_async(dst, src, len, self.0.stream) })
        } else {
            let (dst_context, src_context) = (dst_device.context(), src_device.context());
            // SAFETY: as above; the contexts are those of the allocations.
            let copied =
                unsafe { result::memcpy_peer_async(dst_context, dst, src_context, src, len, self.0.stream) };
            check("cuMemcpyPeerAsync", copied)
        }
    }

    /// Copies `to.len()` bytes to the device, from `offset` on.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If the buffer is shorter.
    pub fn upload(&self, from: &HostBuffer, offset: u64, to: &DeviceRegion) -> Result<(), GpuError> {
        self.0.device.bind()?;
        // SAFETY: the range is within page-locked memory that lives until the buffer is dropped, which waits.
        let bytes = unsafe { std::slice::from_raw_parts(from.pointer(offset, to.len()), to.len() as usize) };
        // SAFETY: the region is within a live allocation.
        check("cuMemcpyHtoDAsync", unsafe { result::memcpy_htod_async(to.address(), bytes, self.0.stream) })
    }

    /// Copies `from.len()` bytes to the host, from `offset` on. They are there when an event recorded behind has passed.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If the buffer is shorter.
    pub fn download(&self, from: &DeviceRegion, to: &HostBuffer, offset: u64) -> Result<(), GpuError> {
        self.0.device.bind()?;
        // SAFETY: the range is within page-locked memory that lives until the buffer is dropped, which waits; nobody has a
        // reference to its bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(to.pointer(offset, from.len()), from.len() as usize) };
        // SAFETY: the region is within a live allocation.
        check("cuMemcpyDtoHAsync", unsafe { result::memcpy_dtoh_async(bytes, from.address(), self.0.stream) })
    }

    /// Fills a region.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn fill(&self, region: &DeviceRegion, byte: u8) -> Result<(), GpuError> {
        self.0.device.bind()?;
        let (address, len) = (region.address(), region.len() as usize);
        // SAFETY: the region is within a live allocation.
        check("cuMemsetD8Async", unsafe { result::memset_d8_async(address, byte, len, self.0.stream) })
    }

    /// Whether all that is queued is done.
    ///
    /// # Errors
    /// If something that the device did has failed.
    pub fn is_idle(&self) -> Result<bool, GpuError> {
        self.device().bind()?;
        // SAFETY: the stream is alive.
        match unsafe { sys::cuStreamQuery(self.raw()) } {
            sys::CUresult::CUDA_SUCCESS => Ok(true),
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            error => Err(GpuError::Driver { call: "cuStreamQuery", error: DriverError(error) }),
        }
    }

    /// Waits until all that is queued is done.
    ///
    /// # Errors
    /// If something that the device did has failed.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.0.device.bind()?;
        // SAFETY: the stream is alive.
        check("cuStreamSynchronize", unsafe { result::stream::synchronize(self.0.stream) })
    }

    /// The driver's handle, a `CUstream`, for other libraries that queue work. It is valid while a clone of this value lives.
    pub fn handle(&self) -> *mut c_void {
        self.0.stream.cast()
    }

    pub(crate) fn raw(&self) -> sys::CUstream {
        self.0.stream
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if !self.is_owned {
            return;
        }
        // SAFETY: it was created once; the driver lets what is queued run to its end.
        let destroyed = self.device.bind().map(|()| unsafe { result::stream::destroy(self.stream) });
        debug_assert!(destroyed.as_ref().map_or(true, |result| is_released(*result)), "{destroyed:?}");
    }
}

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
        debug_assert!(destroyed.as_ref().map_or(true, |result| is_released(*result)), "{destroyed:?}");
    }
}
