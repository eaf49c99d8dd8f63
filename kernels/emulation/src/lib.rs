//! CUDA kernels on the CPU, for tests: the unmodified code calls a driver, and below it is an emulation.
//!
//! [`Emulation::build`] compiles kernel sources with the C++ compiler of the system, next to a fake `libcuda.so.1`, a fake
//! `libnvrtc.so.13` and a fake `libnccl.so.2`. A process that is started with [`Emulation::environment`] loads these instead of the real ones.
//! [`harness`] is the main function of a test that does so with itself; the example `emulated` runs any command so, and `FAKECUDA_FAULT`
//! plants a fault below it (`runtime/state.h`).
//!
//! - `cuda/` is what a kernel source sees: a portable subset of CUDA C++. Threads are fibers; barriers, shuffles and masks are
//!   checked; shared memory is poisoned; with a seed, the order of threads is random.
//! - `runtime/` is the fake driver. Streams are queues with a thread each, and delays if asked for, so that a wait that is
//!   missing shows. Memory has guards. See [`Controls`] for what tests can set and count.
//! - `runtime/nccl*` is the fake NCCL. Ranks are threads or processes, which meet in shared memory; its work runs in the fake driver's
//!   streams. Sends have little room ahead of their receives, and ranks that make different calls are told so. Sums are made in the order
//!   of ranks, of bf16 and f16 as f32 with one rounding at the end.
//!
//! Settings are read from the environment as well, so that programs in other languages can be tested: `FAKECUDA_SEED`, `FAKECUDA_DELAY_US`,
//! `FAKECUDA_WORKERS`, `FAKECUDA_DEVICES`, `FAKECUDA_MEMORY`, `FAKECUDA_DEADLINE_MS` and `FAKECUDA_DROP_WAIT`; `FAKENCCL_VERSION` (such as
//! 21907), `FAKENCCL_FAIL` (such as `ncclSend:3,ncclRecv:1`), `FAKENCCL_ASYNC_FAIL`, `FAKENCCL_CORRUPT` and `FAKENCCL_OOM`. They mean what the
//! methods of [`Controls`] say. With `FAKENCCL_LINGER_MS`, a call that makes a communicator that does not block returns when that is done, or after so
//! many milliseconds; of NCCL's own, `NCCL_HOSTID` and `NCCL_MULTI_RANK_GPU_ENABLE` decide which ranks may share a device.
//!
//! It is no model of a GPU: no timing, no weak memory order, no inline PTX. What runs here can still be slow or wrong there.

mod compiler;
mod controls;
mod emulation;
mod harness;
mod scan;

pub use controls::Controls;
pub use emulation::{BuildError, Emulation};
pub use harness::{Scene, harness, plays_whole_forms, scene};
