//! Measurements of single parts, side by side in one run.

mod codec;
mod contender;
mod gpu;

pub use codec::{BenchError, CodecRow, Load, LoadTensor, Settings, bench_codec, pages};
pub use contender::Contender;
pub use gpu::{GpuBenchError, GpuReport, GpuRow, GpuSettings, bench_gpu};
