//! The little of a GPU that toy kernels need, on cudarc's thin layer.

use std::ffi::{CString, c_void};
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cudarc::driver::{result, sys};

/// A device, and a stream on it.
pub(crate) struct Gpu {
    module: sys::CUmodule,
    pub(crate) stream: sys::CUstream,
}

/// Device memory of `len` values; never freed, as tests are short.
pub(crate) struct Buffer<T> {
    pub(crate) pointer: sys::CUdeviceptr,
    pub(crate) len: usize,
    value: std::marker::PhantomData<T>,
}

impl<T> Buffer<T> {
    /// Its address as a parameter of a kernel.
    pub(crate) fn arg(&self) -> *mut c_void {
        std::ptr::from_ref(&self.pointer).cast_mut().cast()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

/// A parameter of a kernel.
pub(crate) fn arg<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}

impl Gpu {
    pub(crate) fn open(ordinal: i32) -> Self {
        result::init().unwrap();
        let device = result::device::get(ordinal).unwrap();
        // SAFETY: the device exists; its context becomes current before anything else is made.
        unsafe {
            let context = result::primary_ctx::retain(device).unwrap();
            result::ctx::set_current(context).unwrap();
            let module = result::module::load_data(c"any".as_ptr().cast()).unwrap();
            Self { module, stream: Self::stream() }
        }
    }

    pub(crate) fn stream() -> sys::CUstream {
        result::stream::create(result::stream::StreamKind::NonBlocking).unwrap()
    }

    pub(crate) fn buffer<T>(&self, len: usize) -> Buffer<T> {
        // SAFETY: the size is not zero.
        let pointer = unsafe { result::malloc_sync(len * size_of::<T>()) }.unwrap();
        Buffer { pointer, len, value: std::marker::PhantomData }
    }

    pub(crate) fn zeros<T>(&self, len: usize) -> Buffer<T> {
        let buffer = self.buffer(len);
        // SAFETY: all bytes are inside the buffer.
        unsafe { result::memset_d8_async(buffer.pointer, 0, buffer.bytes(), self.stream) }.unwrap();
        buffer
    }

    pub(crate) fn upload<T: Copy>(&self, values: &[T]) -> Buffer<T> {
        let buffer = self.buffer(values.len());
        // SAFETY: the buffer is as long as the values, which pageable memory keeps until the call returns.
        unsafe { result::memcpy_htod_async(buffer.pointer, values, self.stream) }.unwrap();
        buffer
    }

    pub(crate) fn download<T: Copy + Default>(&self, buffer: &Buffer<T>) -> Vec<T> {
        let mut values = vec![T::default(); buffer.len];
        // SAFETY: the vector is as long as the buffer; it is read after the stream is done.
        unsafe { result::memcpy_dtoh_async(&mut values, buffer.pointer, self.stream) }.unwrap();
        self.synchronize().unwrap();
        values
    }

    pub(crate) fn synchronize(&self) -> Result<(), result::DriverError> {
        // SAFETY: the stream lives as long as this.
        unsafe { result::stream::synchronize(self.stream) }
    }

    pub(crate) fn launch(
        &self,
        kernel: &str,
        blocks: u32,
        threads: u32,
        dynamic: u32,
        args: &mut [*mut c_void],
    ) {
        self.launch_on(self.stream, kernel, blocks, threads, dynamic, args).unwrap();
    }

    pub(crate) fn launch_on(
        &self,
        stream: sys::CUstream,
        kernel: &str,
        blocks: u32,
        threads: u32,
        dynamic: u32,
        args: &mut [*mut c_void],
    ) -> Result<(), result::DriverError> {
        self.launch_shape(stream, kernel, (blocks, 1, 1), (threads, 1, 1), dynamic, args)
    }

    pub(crate) fn launch_shape(
        &self,
        stream: sys::CUstream,
        kernel: &str,
        grid: (u32, u32, u32),
        block: (u32, u32, u32),
        dynamic: u32,
        args: &mut [*mut c_void],
    ) -> Result<(), result::DriverError> {
        let name = CString::new(kernel).unwrap();
        // SAFETY: the caller passes the parameters of this kernel, and buffers that are large enough.
        unsafe {
            let function = result::module::get_function(self.module, name).unwrap();
            result::launch_kernel(function, grid, block, dynamic, stream, args)
        }
    }
}

/// Something in a stream that what is behind it waits for, until it is opened.
pub(crate) struct Gate {
    is_open: &'static AtomicBool,
}

impl Gate {
    pub(crate) fn close(stream: sys::CUstream) -> Self {
        extern "C" fn wait(is_open: *mut c_void) {
            // SAFETY: `close` passes an `AtomicBool` that lives as long as the process.
            let is_open = unsafe { &*is_open.cast::<AtomicBool>() };
            while !is_open.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let is_open: &AtomicBool = Box::leak(Box::default());
        let argument = std::ptr::from_ref(is_open).cast_mut().cast();
        // SAFETY: the function is for this argument, which lives long enough.
        unsafe { sys::cuLaunchHostFunc(stream, Some(wait), argument).result() }.unwrap();
        Self { is_open }
    }

    pub(crate) fn open(self) {
        self.is_open.store(true, Ordering::Release);
    }
}
