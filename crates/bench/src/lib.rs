//! Measurements of single parts, side by side in one run.

mod codec;
mod collective;
mod contender;
mod gpu;
mod held;
pub mod inspect;
mod memory;
mod sim;
mod train;

pub use codec::{BenchError, CodecRow, Load, LoadTensor, Settings, bench_codec};
pub use collective::{
    By, ClusterSource, CollectiveBench, CollectiveBenchError, CollectiveCluster, CollectiveCodec,
    CollectiveReport, CollectiveRow, OPERATIONS, TYPE_NAME, bench_collective, count, ranks, redop,
};
pub use contender::Contender;
pub use gpu::{
    GpuBenchError, GpuCache, GpuComparison, GpuFailure, GpuReport, GpuResult, GpuRow, GpuSettings, GpuSum,
    bench_gpu,
};
pub use held::{HeldBenchError, HeldReport, HeldRow, HeldSettings, bench_held};
pub use memory::Pages;
pub use sim::{
    CASES, Level, SimBenchError, SimCase, SimRow, WorkPerEvent, bench_sim, bench_sim_scenario, can_play,
};
pub use train::{TrainError, Trained, train};
