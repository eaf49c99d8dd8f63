//! Settings and counters of the fake driver that a test process has loaded.
#![allow(unsafe_code)]

use libloading::Library;

/// The fake driver of this process. Its settings are one set for the process, so tests that change them run one by one, as
/// those of [`harness`](crate::harness()) do.
#[derive(Debug)]
pub struct Controls {
    driver: Library,
}

impl Controls {
    /// Finds the fake driver. None if the process runs without an emulation, with a real driver or with none.
    #[must_use]
    pub fn find() -> Option<Self> {
        // SAFETY: loading a driver runs its constructors, as cudarc does in the same process; the fake has none.
        let driver = unsafe { Library::new("libcuda.so.1") }.ok()?;
        let controls = Self { driver };
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

    fn set<T>(&self, name: &[u8], value: T) {
        // SAFETY: these functions of `runtime/state.cpp` take one number of the type that their callers above pass.
        let function = unsafe { self.driver.get::<unsafe extern "C" fn(T)>(name) };
        let function = function.expect("`find` has seen that this is the fake driver");
        // SAFETY: they store the number in an atomic variable and do nothing else.
        unsafe { function(value) };
    }

    fn count(&self, name: &[u8]) -> u64 {
        // SAFETY: these functions of the fake driver take nothing and return 64 bits.
        let function = unsafe { self.driver.get::<unsafe extern "C" fn() -> u64>(name) };
        let function = function.expect("`find` has seen that this is the fake driver");
        // SAFETY: they read an atomic variable, or a table under its lock.
        unsafe { function() }
    }
}
