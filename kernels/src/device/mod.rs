//! A GPU, and what belongs to it: streams, events, memory, code.

#![allow(unsafe_code, reason = "the driver is a C library")]

mod memory;
mod stream;

pub use memory::{DeviceBuffer, DeviceRegion, HostBuffer};
pub use stream::{Event, Stream};

use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;

use cudarc::driver::{result, sys};

use crate::error::{GpuError, check, is_released};

/// A GPU with its primary context, which is released with the last clone and whatever was made of it.
#[derive(Clone, Debug)]
pub struct Device(Arc<Context>);

#[derive(Debug)]
struct Context {
    ordinal: usize,
    device: sys::CUdevice,
    context: sys::CUcontext,
    /// Stream for uploads to regions.
    uploads: sys::CUstream,
}

// SAFETY: the driver's handles can be used from any thread; every call first makes the context current on its thread.
unsafe impl Send for Context {}
// SAFETY: as above; the driver synchronises its own state.
unsafe impl Sync for Context {}

/// Asks the driver, by the environment, for the most queues that it spreads streams over (32, where 8 is its default): what waits in one holds
/// up other streams in it. A number that the user has set stays.
///
/// # Safety
/// No other thread may run, and nothing may have called the driver.
pub unsafe fn take_all_queues() {
    const VARIABLE: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: the caller promises that nobody reads the environment meanwhile.
        unsafe { std::env::set_var(VARIABLE, "32") };
    }
}

impl Device {
    /// Ids of the GPUs that this process sees, in their order; another process that sees one of them finds the same id. Opens none.
    ///
    /// # Errors
    /// Errors of [`Self::count`].
    pub fn ids() -> Result<Vec<[u8; 16]>, GpuError> {
        let id = |ordinal: usize| {
            let ordinal = i32::try_from(ordinal).expect("devices are few");
            let device = check("cuDeviceGet", result::device::get(ordinal))?;
            let uuid = check("cuDeviceGetUuid", result::device::get_uuid(device))?;
            Ok(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
        };
        (0..Self::count()?).map(id).collect()
    }

    /// How many GPUs this machine has.
    ///
    /// # Errors
    /// If there is no driver, or it works with no device.
    pub fn count() -> Result<usize, GpuError> {
        if crate::IS_STATIC {
            return Err(GpuError::Static { library: "libcuda.so.1" });
        }
        // SAFETY: it tries to load the driver's library and looks at the result.
        if !unsafe { sys::is_culib_present() } {
            return Err(GpuError::NoDriver);
        }
        let named = |error: cudarc::driver::DriverError| {
            let text = error.error_string().ok().and_then(|text| text.to_str().ok());
            GpuError::NoDevice(text.map_or_else(|| format!("{error:?}"), str::to_owned))
        };
        result::init().map_err(named)?;
        let count = result::device::get_count().map_err(named)?;
        match usize::try_from(count) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(GpuError::NoDevice("it counts none".to_owned())),
        }
    }

    /// Opens the GPU with this number, from 0.
    ///
    /// # Errors
    /// If there is no driver or no such device.
    pub fn open(ordinal: usize) -> Result<Self, GpuError> {
        let count = Self::count()?;
        if ordinal >= count {
            return Err(GpuError::Ordinal { ordinal, count });
        }
        let number = c_int::try_from(ordinal).expect("devices are few");
        let device = check("cuDeviceGet", result::device::get(number))?;
        // SAFETY: the device is one that the driver has just named.
        let context = check("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(device) })?;
        let uploads = || {
            // SAFETY: the context is retained.
            check("cuCtxSetCurrent", unsafe { result::ctx::set_current(context) })?;
            check("cuStreamCreate", result::stream::create(result::stream::StreamKind::NonBlocking))
        };
        let uploads = uploads().inspect_err(|_| {
            // SAFETY: it was retained above, and nothing was made in it.
            _ = unsafe { result::primary_ctx::release(device) };
        })?;
        Ok(Self(Arc::new(Context { ordinal, device, context, uploads })))
    }

    /// Number of the device, from 0.
    pub fn ordinal(&self) -> usize {
        self.0.ordinal
    }

    /// Name of the device, from the driver.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn name(&self) -> Result<String, GpuError> {
        check("cuDeviceGetName", result::device::get_name(self.0.device))
    }

    /// Architecture that kernels are compiled for, such as `sm_90`.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn arch(&self) -> Result<String, GpuError> {
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        Ok(format!("sm_{}{}", self.attribute(MAJOR)?, self.attribute(MINOR)?))
    }

    /// Multiprocessors, each of which runs some blocks at a time.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn multiprocessors(&self) -> Result<u32, GpuError> {
        let count = self.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn attribute(&self, attribute: sys::CUdevice_attribute) -> Result<i32, GpuError> {
        // SAFETY: the device is one that the driver has named.
        let value = unsafe { result::device::get_attribute(self.0.device, attribute) };
        check("cuDeviceGetAttribute", value)
    }

    /// Bytes of memory that are free, and all of them.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn memory(&self) -> Result<(u64, u64), GpuError> {
        self.bind()?;
        let (free, all) = check("cuMemGetInfo", result::mem_get_info())?;
        Ok((free as u64, all as u64))
    }

    /// Waits until the device has nothing to do.
    ///
    /// # Errors
    /// If something that it did has failed.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.bind()?;
        check("cuCtxSynchronize", result::ctx::synchronize())
    }

    /// Makes the context current on this thread, as calls of the driver, and of libraries that use it, demand.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn bind(&self) -> Result<(), GpuError> {
        // SAFETY: the context is retained for as long as this value lives.
        check("cuCtxSetCurrent", unsafe { result::ctx::set_current(self.0.context) })
    }

    pub(crate) fn context(&self) -> sys::CUcontext {
        self.0.context
    }

    /// Copies bytes to device memory, and waits until they are there: the call without a stream may return before, and streams do not wait for it.
    ///
    /// # Safety
    /// There must be as many bytes of memory at the address.
    pub(crate) unsafe fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), GpuError> {
        self.bind()?;
        // SAFETY: the caller promises room, and the bytes live until the copy is done.
        let copied = unsafe { result::memcpy_htod_async(address, bytes, self.0.uploads) };
        check("cuMemcpyHtoDAsync", copied)?;
        // SAFETY: the stream lives as long as this value.
        check("cuStreamSynchronize", unsafe { result::stream::synchronize(self.0.uploads) })
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ordinal == other.0.ordinal
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is retained until below, the stream was created in it, and all that went through it is done.
        let destroyed = unsafe {
            result::ctx::set_current(self.context).and_then(|()| result::stream::destroy(self.uploads))
        };
        debug_assert!(is_released(destroyed), "{destroyed:?}");
        // SAFETY: it was retained once, by `open`, and whatever was made in it is gone: it held this value.
        let released = unsafe { result::primary_ctx::release(self.device) };
        debug_assert!(is_released(released), "{released:?}");
    }
}

/// A module that is loaded on a device.
#[derive(Debug)]
pub(crate) struct Code {
    module: sys::CUmodule,
    device: Device,
}

/// A kernel. It must not outlive its [`Code`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(sys::CUfunction);

// SAFETY: the driver's handles can be used from any thread.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}
// SAFETY: as above.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Code {
    pub(crate) fn load(device: &Device, cubin: &[u8]) -> Result<Self, GpuError> {
        device.bind()?;
        // SAFETY: the driver reads the image during the call and checks it; its length is in it.
        let module = check("cuModuleLoadData", unsafe { result::module::load_data(cubin.as_ptr().cast()) })?;
        Ok(Self { module, device: device.clone() })
    }

    pub(crate) fn function(&self, name: &str) -> Result<Function, GpuError> {
        self.device.bind()?;
        let name = CString::new(name).expect("names of kernels have no zero bytes");
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(self.module, name) };
        check("cuModuleGetFunction", function).map(Function)
    }
}

impl Function {
    /// Queues the kernel: `grid` blocks of `threads` threads.
    ///
    /// # Safety
    /// `params` must point to values of the types of the kernel's parameters, and what they point to on the device must be as
    /// the kernel demands, until it has run. The function's code must be loaded until then.
    pub(crate) unsafe fn launch(
        self,
        stream: &Stream,
        grid: (u32, u32),
        threads: u32,
        params: &mut [*mut c_void],
    ) -> Result<(), GpuError> {
        stream.device().bind()?;
        // SAFETY: the caller promises what the kernel needs; the stream is alive.
        let launched = unsafe {
            result::launch_kernel(self.0, (grid.0, grid.1, 1), (threads, 1, 1), 0, stream.raw(), params)
        };
        check("cuLaunchKernel", launched)
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // What is queued may still run it.
        let done = self.device.synchronize();
        // SAFETY: it was loaded once, and nothing runs any more.
        let unloaded = unsafe { result::module::unload(self.module) };
        debug_assert!(done.is_err() || is_released(unloaded), "{unloaded:?}");
    }
}
