//! The executors by name, and which of them this build can run here.

use std::fmt;
use std::str::FromStr;

use zipwire_kernels::Device;

/// Something that carries out plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Executor {
    /// The simulator.
    Sim,
    /// Ranks as threads of this process.
    Threads,
    /// Ranks as MPI processes.
    Mpi,
    /// Ranks on CUDA streams.
    Cuda,
    /// Ranks on GPUs that NCCL connects.
    Nccl,
}

impl Executor {
    /// All executors.
    pub const ALL: [Self; 5] = [Self::Sim, Self::Threads, Self::Mpi, Self::Cuda, Self::Nccl];

    /// Name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Threads => "threads",
            Self::Mpi => "mpi",
            Self::Cuda => "cuda",
            Self::Nccl => "nccl",
        }
    }

    /// Why it cannot run here; `None` if it can.
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Sim | Self::Threads => None,
            Self::Cuda => Device::count().err().map(|error| error.to_string()),
            Self::Mpi | Self::Nccl => {
                Some("this version has the executors `sim`, `threads` and `cuda` only".to_owned())
            }
        }
    }

    /// Whether it moves real bytes, which are compared with what was sent.
    pub fn is_real(self) -> bool {
        self != Self::Sim
    }

    /// The clock of its timelines.
    pub fn clock(self) -> &'static str {
        match self {
            Self::Sim => "virtual",
            Self::Threads | Self::Mpi => "monotonic",
            Self::Cuda | Self::Nccl => "device",
        }
    }
}

impl fmt::Display for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Executor {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|executor| executor.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|executor| executor.name()).collect();
            format!("unknown executor `{name}`; expected one of {}", names.join(", "))
        })
    }
}
