//! Settings and counters of the fake driver that a test process has loaded.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::sync::OnceLock;

use libloading::Library;

/// The fake driver and the fake NCCL of this process. Its settings are one set for the process, so tests that change them run one by one, as
/// those of [`harness`](crate::harness()) do.
#[derive(Debug)]
pub struct Controls {
    driver: Library,
    /// Loaded when it is first asked for.
    nccl: OnceLock<Library>,
}

impl Controls {
    /// Finds the fake driver. None if the process runs without an emulation, with a real driver or with none.
    #[must_use]
    pub fn find() -> Option<Self> {
        // SAFETY: loading a driver runs its constructors, as cudarc does in the same process; the fake has none.
        let driver = unsafe { Library::new("libcuda.so.1") }.ok()?;
        let controls = Self { driver, nccl: OnceLock::new() };
        // SAFETY: the symbol is only looked for; its type does not matter.
        let is_fake =
            unsafe { controls.driver.get::<unsafe extern "C" fn()>(b"fakecuda_launches\0") }.is_ok();
        is_fake.then_some(controls)
    }

    /// Chooses the order of threads in kernels, and delays. 0, the default, is the plain order.
    pub fn set_seed(&self, seed: u64) {
        self.set(b"fakecuda_set_seed\0", seed);
    }

    /// Before each piece of work in a stream: nothing, or a delay of up to so many microseconds. 0 by default.
    pub fn set_delay_us(&self, most: u32) {
        self.set(b"fakecuda_set_delay_us\0", most);
    }

    /// How many blocks of a grid are under way at a time. 2 by default.
    pub fn set_workers(&self, workers: u32) {
        self.set(b"fakecuda_set_workers\0", workers);
    }

    /// How many devices there are, at most 16. 1 by default; without any, there is no CUDA.
    pub fn set_devices(&self, devices: u32) {
        self.set(b"fakecuda_set_devices\0", devices);
    }

    /// Bytes of memory of each device. 4 GiB by default.
    pub fn set_memory(&self, bytes: u64) {
        self.set(b"fakecuda_set_memory\0", bytes);
    }

    /// How long a kernel may wait in `__nanosleep` before the process ends with a message. 30 s by default.
    pub fn set_deadline_ms(&self, milliseconds: u32) {
        self.set(b"fakecuda_set_deadline_ms\0", milliseconds);
    }

    /// Plants a fault: of the waits of streams for events from now on, the one of this number (1 is the next) does nothing.
    /// 0 takes the fault back.
    pub fn drop_wait(&self, number: u64) {
        self.set(b"fakecuda_drop_wait\0", number);
    }

    /// Kernels that were launched so far.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.count(b"fakecuda_launches\0")
    }

    /// Waits of streams for events so far, with dropped ones.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.count(b"fakecuda_waits\0")
    }

    /// Calls of `__nanosleep` by all threads of all kernels so far: whether blocks have waited for one another.
    #[must_use]
    pub fn pauses(&self) -> u64 {
        self.count(b"fakecuda_pauses\0")
    }

    /// Bytes that were asked to be copied so far.
    #[must_use]
    pub fn bytes_copied(&self) -> u64 {
        self.count(b"fakecuda_bytes_copied\0")
    }

    /// Allocations of device memory and page-locked memory that are not freed: for tests of leaks.
    #[must_use]
    pub fn live_allocations(&self) -> u64 {
        self.count(b"fakecuda_live_allocations\0")
    }

    /// Sets what the fake NCCL says its version is, such as 21907; 23007 by default. Functions that came later return errors.
    pub fn set_nccl_version(&self, version: u32) {
        self.set_nccl(b"fakenccl_set_version\0", u64::from(version));
    }

    /// Plants a fault: the call of this number from now on (1 is the next) of a function of NCCL, such as `ncclSend`, returns `ncclSystemError`.
    ///
    /// # Panics
    ///
    /// If the name has a zero byte.
    pub fn fail_nccl(&self, function: &str, number: u64) {
        let fault = CString::new(format!("{function}:{number}")).expect("names have no zero bytes");
        self.set_nccl(b"fakenccl_fail\0", fault.as_ptr());
    }

    /// Plants an asynchronous error: the work of the group of this number from now on hangs until its communicator is aborted. 0 takes it back.
    pub fn fail_nccl_group(&self, number: u64) {
        self.set_nccl(b"fakenccl_async_fail\0", number);
    }

    /// Plants a wrong byte in the message of this number that is received from now on, in a collective or not. 0 takes it back.
    pub fn corrupt_nccl_message(&self, number: u64) {
        self.set_nccl(b"fakenccl_corrupt\0", number);
    }

    /// Plants a lack of memory: of the times that NCCL needs memory from now on, the one of this number fails. That is for a communicator, for
    /// a group with a new peer, and in `ncclMemAlloc`. 0 takes it back.
    pub fn exhaust_nccl(&self, number: u64) {
        self.set_nccl(b"fakenccl_out_of_memory\0", number);
    }

    /// Messages that came through NCCL so far, in collectives or not, without those of no bytes.
    #[must_use]
    pub fn nccl_messages(&self) -> u64 {
        self.count_nccl(b"fakenccl_messages\0")
    }

    /// Bytes of these messages.
    #[must_use]
    pub fn nccl_bytes(&self) -> u64 {
        self.count_nccl(b"fakenccl_bytes\0")
    }

    /// Groups of calls of NCCL so far that had work; a call outside of a group is one.
    #[must_use]
    pub fn nccl_groups(&self) -> u64 {
        self.count_nccl(b"fakenccl_groups\0")
    }

    fn nccl(&self) -> &Library {
        // SAFETY: loading the fake NCCL runs no constructors of its own.
        let load = || unsafe { Library::new("libnccl.so.2") };
        self.nccl.get_or_init(|| load().expect("the fake NCCL lies beside the fake driver"))
    }

    fn set<T>(&self, name: &[u8], value: T) {
        // SAFETY: these functions of `runtime/state.cpp` take one number of the type that their callers above pass, and store it.
        unsafe { set(&self.driver, name, value) };
    }

    fn set_nccl<T>(&self, name: &[u8], value: T) {
        // SAFETY: these functions of `runtime/nccl_state.cpp` take one value of the type that their callers above pass, and copy it.
        unsafe { set(self.nccl(), name, value) };
    }

    fn count(&self, name: &[u8]) -> u64 {
        // SAFETY: these functions of the fake driver take nothing and return 64 bits.
        unsafe { count(&self.driver, name) }
    }

    fn count_nccl(&self, name: &[u8]) -> u64 {
        // SAFETY: these functions of `runtime/nccl_state.cpp` take nothing and return 64 bits.
        unsafe { count(self.nccl(), name) }
    }
}

/// Calls a function with one value.
///
/// # Safety
///
/// The function takes a value of this type and returns nothing.
unsafe fn set<T>(library: &Library, name: &[u8], value: T) {
    // SAFETY: the caller promises the type.
    let function = unsafe { library.get::<unsafe extern "C" fn(T)>(name) };
    let function = function.expect("a fake library has the functions of its settings");
    // SAFETY: as above; such functions have no other conditions.
    unsafe { function(value) };
}

/// Calls a function that returns a number.
///
/// # Safety
///
/// The function takes nothing and returns 64 bits.
unsafe fn count(library: &Library, name: &[u8]) -> u64 {
    // SAFETY: the caller promises the type.
    let function = unsafe { library.get::<unsafe extern "C" fn() -> u64>(name) };
    let function = function.expect("a fake library has the functions of its settings");
    // SAFETY: as above; such functions have no other conditions.
    unsafe { function() }
}
