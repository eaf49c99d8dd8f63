//! CUDA's driver, as the process has it. Nothing is loaded: without a driver there is no stream to look at.

#![allow(unsafe_code, reason = "the driver is a C library")]

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A context of CUDA.
pub(crate) type Context = *mut c_void;
/// An event of CUDA.
pub(crate) type Event = *mut c_void;

/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: c_int = 600;
/// `CU_MEMHOSTALLOC_PORTABLE`, `CU_EVENT_DISABLE_TIMING`, `CU_STREAM_CAPTURE_MODE_RELAXED`.
const PORTABLE: c_uint = 1;
const WITHOUT_TIME: c_uint = 2;
const RELAXED: c_int = 2;

/// Calls of the driver. Results other than 0 are errors.
pub(crate) struct Driver {
    context: unsafe extern "C" fn(*mut Context) -> c_int,
    set_context: unsafe extern "C" fn(Context) -> c_int,
    is_capturing: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    /// Missing in old drivers.
    exchange_mode: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
    host_alloc: unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int,
    event: unsafe extern "C" fn(*mut Event, c_uint) -> c_int,
    record: unsafe extern "C" fn(Event, *mut c_void) -> c_int,
    query: unsafe extern "C" fn(Event) -> c_int,
    copy: unsafe extern "C" fn(*mut c_void, u64, usize, *mut c_void) -> c_int,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

impl Driver {
    /// The driver that the process has loaded.
    pub(crate) fn get() -> Option<&'static Self> {
        static LOOKS: AtomicU32 = AtomicU32::new(0);
        // Not there yet may be there later; a look takes many microseconds, so there are fewer and fewer.
        DRIVER.get().or_else(|| {
            let looks = LOOKS.fetch_add(1, Ordering::Relaxed);
            let found = (looks & looks.wrapping_sub(1) == 0).then(Self::find)??;
            Some(DRIVER.get_or_init(|| found))
        })
    }

    /// The driver that the process has loaded, looked for however often it was not there.
    pub(crate) fn find_now() -> Option<&'static Self> {
        Self::get().or_else(|| Self::find().map(|found| DRIVER.get_or_init(|| found)))
    }

    #[allow(clippy::missing_transmute_annotations, reason = "the fields have the types")]
    fn find() -> Option<Self> {
        // SAFETY: a library that is loaded is looked for, and stays.
        let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        let find = |name: &CStr| {
            // SAFETY: the handle is a library's.
            let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        /// The function of a name, as its place demands.
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the driver's functions of these names have the types of the fields.
                unsafe { std::mem::transmute::<*mut c_void, _>(find($name)?) }
            };
        }
        Some(Self {
            context: function!(c"cuCtxGetCurrent"),
            set_context: function!(c"cuCtxSetCurrent"),
            is_capturing: function!(c"cuStreamIsCapturing"),
            // SAFETY: the driver's function of this name has the type of the field.
            exchange_mode: find(c"cuThreadExchangeStreamCaptureMode")
                .map(|function| unsafe { std::mem::transmute::<*mut c_void, _>(function) }),
            host_alloc: function!(c"cuMemHostAlloc"),
            event: function!(c"cuEventCreate"),
            record: function!(c"cuEventRecord"),
            query: function!(c"cuEventQuery"),
            copy: function!(c"cuMemcpyDtoHAsync_v2"),
        })
    }

    /// The calling thread's context, which is null if it has none; `None` if the driver cannot say.
    pub(crate) fn context(&self) -> Option<Context> {
        let mut context = null_mut();
        // SAFETY: there is room for the result.
        let result = unsafe { (self.context)(&raw mut context) };
        (result == 0).then_some(context)
    }

    /// Makes a context the calling thread's.
    pub(crate) fn set_context(&self, context: Context) -> bool {
        // SAFETY: contexts come from the driver; of one that is gone it says so.
        unsafe { (self.set_context)(context) == 0 }
    }

    /// Whether the stream is captured into a graph; `None` if the driver cannot say. The default stream is that of the calling thread's context.
    pub(crate) fn is_capturing(&self, stream: *mut c_void) -> Option<bool> {
        let mut status = 0;
        // SAFETY: the stream is one that the program gives to NCCL.
        let result = unsafe { (self.is_capturing)(stream, &raw mut status) };
        (result == 0).then_some(status != 0)
    }

    /// Lets the calling thread allocate and ask for events while this or another one captures. Returns the mode that it had.
    pub(crate) fn relax(&self) -> c_int {
        self.exchange_mode(RELAXED)
    }

    /// Gives the calling thread a mode of capturing. Returns the one that it had.
    pub(crate) fn exchange_mode(&self, mut mode: c_int) -> c_int {
        if let Some(exchange) = self.exchange_mode {
            // SAFETY: it is a mode of this thread only; the driver writes the other one in its place.
            unsafe { exchange(&raw mut mode) };
        }
        mode
    }

    /// Page-locked memory that is never freed, and an event, both of the calling thread's context.
    pub(crate) fn landing(&self, bytes: usize) -> Option<(*mut c_void, Event)> {
        let (mut memory, mut event) = (null_mut(), null_mut());
        // SAFETY: there is room for the results.
        let made = unsafe {
            (self.event)(&raw mut event, WITHOUT_TIME) == 0
                && (self.host_alloc)(&raw mut memory, bytes, PORTABLE) == 0
        };
        made.then_some((memory, event))
    }

    /// Queues a copy of device memory to page-locked memory.
    ///
    /// # Safety
    /// Both must have so many bytes until an event behind has passed.
    pub(crate) unsafe fn copy(&self, to: *mut c_void, from: u64, bytes: usize, stream: *mut c_void) -> bool {
        // SAFETY: as the caller promises; of a stream of another context the driver says so.
        unsafe { (self.copy)(to, from, bytes, stream) == 0 }
    }

    /// Puts the event behind what is queued.
    pub(crate) fn record(&self, event: Event, stream: *mut c_void) -> bool {
        // SAFETY: events here are never destroyed.
        unsafe { (self.record)(event, stream) == 0 }
    }

    /// Whether the event has passed: `None` if something has failed.
    pub(crate) fn has_passed(&self, event: Event) -> Option<bool> {
        // SAFETY: events here are never destroyed.
        match unsafe { (self.query)(event) } {
            0 => Some(true),
            NOT_READY => Some(false),
            _ => None,
        }
    }
}
