//! Declared costs of ops on a cluster.

use crate::{LibraryCost, Slowdown};

/// Declared cost of split, encode, decode and copy ops: `launch_s + raw bytes / speed`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodecCost {
    /// Raw bytes per second of encoding.
    pub encode_bytes_per_s: f64,
    /// Raw bytes per second of decoding.
    pub decode_bytes_per_s: f64,
    /// Seconds per op.
    pub launch_s: f64,
}

impl CodecCost {
    /// Cost of a codec that takes no time.
    pub const FREE: Self =
        Self { encode_bytes_per_s: f64::INFINITY, decode_bytes_per_s: f64::INFINITY, launch_s: 0.0 };

    /// Bytes per second at which rows are put together: as fast as values are decoded, which also ends in writing each of them
    /// once, and which no copy is slower than.
    pub fn gather_bytes_per_s(&self) -> f64 {
        self.decode_bytes_per_s
    }

    /// Raw bytes per second at which signs and mantissas are taken out of values: as fast as values are decoded. Decoding reads frames of
    /// about two thirds of the values' bytes and writes all of these, taking out reads all of them and writes half as many:
    /// memory moves about the same. An encode that follows reads all values again, and costs what it costs without.
    pub fn split_bytes_per_s(&self) -> f64 {
        self.decode_bytes_per_s
    }
}

/// Host overheads of ops on a cluster, the speed of sums, and the costs of calls of a library.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostCost {
    /// Seconds from issuing a compute op, an exchange or a sum until it begins.
    pub launch_s: f64,
    /// Seconds from the arrival of the last size of an exchange until the host knows it.
    pub sync_s: f64,
    /// Slowdown of compute while other lanes of its rank are busy.
    pub compute_slowdown: Slowdown,
    /// Bytes that a GPU reads per second where it adds values up.
    pub reduce_bytes_per_s: f64,
    /// Costs of calls of a library's own collectives.
    pub library: LibraryCost,
}

impl HostCost {
    /// Bytes per second of adding up where nothing is said: of the order of what the memory of a GPU of 2020 gives.
    pub const REDUCE_BYTES_PER_S: f64 = 400e9;
}

impl Default for HostCost {
    /// Nothing costs anything but sums.
    fn default() -> Self {
        Self {
            launch_s: 0.0,
            sync_s: 0.0,
            compute_slowdown: Slowdown::default(),
            reduce_bytes_per_s: Self::REDUCE_BYTES_PER_S,
            library: LibraryCost::default(),
        }
    }
}
