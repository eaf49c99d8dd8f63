//! Machine code on a device, and the kernels in it.

use std::ffi::{CString, c_void};

use cudarc::driver::{result, sys};

use super::{Device, Stream};
use crate::error::{GpuError, check};

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
        debug_assert!(done.is_err() || unloaded.is_ok(), "{unloaded:?}");
    }
}
