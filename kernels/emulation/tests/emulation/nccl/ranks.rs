//! Ranks as threads of this process, and the few functions of NCCL that they call.
#![allow(non_snake_case, clippy::too_many_arguments, reason = "functions are those of NCCL")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cudarc::driver::sys;
use libloading::Library;
use zipwire_emulation::Controls;

use crate::gpu::Gpu;

pub(crate) const SUCCESS: c_int = 0;
pub(crate) const CUDA_ERROR: c_int = 1;
pub(crate) const SYSTEM_ERROR: c_int = 2;
pub(crate) const INVALID_ARGUMENT: c_int = 4;
pub(crate) const INVALID_USAGE: c_int = 5;
pub(crate) const IN_PROGRESS: c_int = 7;

pub(crate) const UINT8: c_int = 1;
pub(crate) const INT32: c_int = 2;
pub(crate) const F16: c_int = 6;
pub(crate) const F32: c_int = 7;
pub(crate) const BF16: c_int = 9;

pub(crate) const SUM: c_int = 0;

pub(crate) type Comm = *mut c_void;
pub(crate) type Stream = sys::CUstream;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Id(pub(crate) [u8; 128]);

/// The beginning of `ncclConfig_t`, which says that it ends there.
#[repr(C)]
pub(crate) struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

impl Config {
    pub(crate) fn nonblocking() -> Self {
        Self { size: size_of::<Self>(), magic: 0xcafe_beef, version: 22000, blocking: 0 }
    }
}

/// The library that programs load.
pub(crate) fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    // SAFETY: the harness has started this below the emulation, whose NCCL has no constructors.
    LIBRARY.get_or_init(|| unsafe { Library::new("libnccl.so.2") }.unwrap())
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        pub(crate) fn $name($($argument: $kind),*) -> c_int {
            let name = concat!(stringify!($name), "\0").as_bytes();
            // SAFETY: the types are those of `nccl.h`; tests pass memory that lives until its streams are done, or wrong values on purpose,
            // which the fake looks at before it uses them.
            unsafe {
                let function = library().get::<unsafe extern "C" fn($($kind),*) -> c_int>(name).unwrap();
                function($($argument),*)
            }
        }
    )*};
}

functions! {
    ncclGetVersion(version: *mut c_int);
    ncclGetUniqueId(id: *mut Id);
    ncclCommInitRank(comm: *mut Comm, size: c_int, id: Id, rank: c_int);
    ncclCommInitRankConfig(comm: *mut Comm, size: c_int, id: Id, rank: c_int, config: *const Config);
    ncclCommInitRankScalable(comm: *mut Comm, size: c_int, rank: c_int, ids: c_int, id: *const Id, config: *const Config);
    ncclCommInitAll(comms: *mut Comm, count: c_int, devices: *const c_int);
    ncclCommSplit(comm: Comm, color: c_int, key: c_int, out: *mut Comm, config: *const Config);
    ncclCommCount(comm: Comm, count: *mut c_int);
    ncclCommUserRank(comm: Comm, rank: *mut c_int);
    ncclCommCuDevice(comm: Comm, device: *mut c_int);
    ncclCommGetAsyncError(comm: Comm, error: *mut c_int);
    ncclCommFinalize(comm: Comm);
    ncclCommDestroy(comm: Comm);
    ncclCommAbort(comm: Comm);
    ncclGroupStart();
    ncclGroupEnd();
    ncclSend(send: u64, count: usize, kind: c_int, peer: c_int, comm: Comm, stream: Stream);
    ncclRecv(receive: u64, count: usize, kind: c_int, peer: c_int, comm: Comm, stream: Stream);
    ncclAllGather(send: u64, receive: u64, count: usize, kind: c_int, comm: Comm, stream: Stream);
    ncclAllReduce(send: u64, receive: u64, count: usize, kind: c_int, op: c_int, comm: Comm, stream: Stream);
    ncclReduceScatter(send: u64, receive: u64, count: usize, kind: c_int, op: c_int, comm: Comm, stream: Stream);
    ncclReduce(send: u64, receive: u64, count: usize, kind: c_int, op: c_int, root: c_int, comm: Comm, stream: Stream);
    ncclBroadcast(send: u64, receive: u64, count: usize, kind: c_int, root: c_int, comm: Comm, stream: Stream);
    ncclBcast(buffer: u64, count: usize, kind: c_int, root: c_int, comm: Comm, stream: Stream);
    ncclAlltoAll(send: u64, receive: u64, count: usize, kind: c_int, comm: Comm, stream: Stream);
    ncclGather(send: u64, receive: u64, count: usize, kind: c_int, root: c_int, comm: Comm, stream: Stream);
    ncclScatter(send: u64, receive: u64, count: usize, kind: c_int, root: c_int, comm: Comm, stream: Stream);
    ncclMemAlloc(memory: *mut u64, bytes: usize);
    ncclMemFree(memory: u64);
}

pub(crate) fn ok(result: c_int) {
    assert_eq!(result, SUCCESS, "{}", last_error());
}

pub(crate) fn last_error() -> String {
    // SAFETY: the function takes a communicator that it does not look at, and returns a text that stays.
    unsafe {
        let function =
            library().get::<unsafe extern "C" fn(Comm) -> *const c_char>(b"ncclGetLastError\0").unwrap();
        CStr::from_ptr(function(std::ptr::null_mut())).to_string_lossy().into_owned()
    }
}

pub(crate) fn controls() -> Controls {
    Controls::find().expect("the harness has started this below the emulation")
}

pub(crate) fn unique_id() -> Id {
    let mut id = Id([0; 128]);
    ok(ncclGetUniqueId(&raw mut id));
    id
}

/// One rank: its device, a stream there, and its end of a communicator.
pub(crate) struct Rank {
    pub(crate) gpu: Gpu,
    pub(crate) comm: Comm,
    pub(crate) rank: c_int,
}

impl Rank {
    pub(crate) fn send(&self, from: u64, bytes: usize, peer: c_int) {
        ok(ncclSend(from, bytes, UINT8, peer, self.comm, self.gpu.stream));
    }

    pub(crate) fn receive(&self, to: u64, bytes: usize, peer: c_int) {
        ok(ncclRecv(to, bytes, UINT8, peer, self.comm, self.gpu.stream));
    }

    pub(crate) fn async_error(&self) -> c_int {
        let mut error = SUCCESS;
        ok(ncclCommGetAsyncError(self.comm, &raw mut error));
        error
    }

    /// Waits until a nonblocking communicator is ready, or has failed.
    pub(crate) fn settle(&self) -> c_int {
        loop {
            let error = self.async_error();
            if error != IN_PROGRESS {
                return error;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether the stream still has work after a while.
    pub(crate) fn hangs(&self) -> bool {
        std::thread::sleep(Duration::from_millis(100));
        !self.is_done()
    }

    /// Whether the stream runs out of work, however slow the machine is.
    pub(crate) fn ends(&self) -> bool {
        comes(|| self.is_done())
    }

    fn is_done(&self) -> bool {
        // SAFETY: the stream lives as long as this.
        unsafe { sys::cuStreamQuery(self.gpu.stream) == sys::CUresult::CUDA_SUCCESS }
    }
}

/// Waits for what should come at once on a machine that may be slow. Whether it has come.
pub(crate) fn comes(mut holds: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(10) {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Calls of one group.
pub(crate) fn group(calls: impl FnOnce()) {
    ok(ncclGroupStart());
    calls();
    ok(ncclGroupEnd());
}

/// Runs `body` in a thread for each rank, with a device each and a communicator of all. Its results are in the order of ranks.
///
/// A rank that panics ends the process, as others would wait for it for ever.
pub(crate) fn ranks<T: Send>(count: c_int, body: impl Fn(&Rank) -> T + Sync) -> Vec<T> {
    with_devices(count, |rank, id| {
        let gpu = Gpu::open(rank);
        let mut comm = std::ptr::null_mut();
        ok(ncclCommInitRank(&raw mut comm, count, id, rank));
        body(&Rank { gpu, comm, rank })
    })
}

/// The same before there are communicators.
pub(crate) fn with_devices<T: Send>(count: c_int, body: impl Fn(c_int, Id) -> T + Sync) -> Vec<T> {
    controls().set_devices(u32::try_from(count).unwrap());
    let id = unique_id();
    let results = std::thread::scope(|scope| {
        let run = |rank| {
            let body = &body;
            scope.spawn(move || {
                std::panic::catch_unwind(AssertUnwindSafe(|| body(rank, id))).unwrap_or_else(|_| {
                    eprintln!("rank {rank} has failed");
                    std::process::abort()
                })
            })
        };
        let threads: Vec<_> = (0..count).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    controls().set_devices(1);
    results
}
