//! Rows of a benchmark of collectives.

use serde::Serialize;
use zipwire_schedule::Protocol;
use zipwire_traces::Split;

/// How the time of a row is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Its plan was simulated.
    Simulation,
    /// The closed form of its plan.
    ClosedForm,
    /// The cluster's model of its library's own calls.
    Library,
    /// Real ranks carried its plan out, and every byte was compared unless that was left out: this machine's time, not the cluster's.
    Execution,
    /// The collective of the MPI library that connects real ranks.
    Mpi,
}

/// One operation of one size in one protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollectiveRow {
    /// The operation, as nccl-tests calls it.
    pub op: &'static str,
    /// The protocol.
    pub variant: &'static str,
    /// Algorithm: `library` and the library's own choice, or that of the plan.
    pub algorithm: String,
    /// Nodes.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus_per_node: u32,
    /// Size in bytes, as nccl-tests counts it for the operation.
    pub bytes: u64,
    /// Seconds.
    pub time_s: f64,
    /// Algorithm bandwidth in GB/s: size over time.
    pub algbw: f64,
    /// Bus bandwidth in GB/s of the bytes that moved: that of nccl-tests over the ratio.
    pub busbw: f64,
    /// Bus bandwidth of nccl-tests in GB/s, of raw bytes: algorithm bandwidth times the operation's factor.
    pub effective_busbw: f64,
    /// Raw over moved bytes; 1 if nothing is coded.
    pub ratio: f64,
    /// Seconds in which a rank encodes or decodes, of the mean rank; part of the time.
    pub codec_s: f64,
    /// Seconds of the same call at ratio 1 with a codec that takes no time; `None` if it is not coded or not predicted.
    pub uncompressed_s: Option<f64>,
    /// Time of the row of the same operation and size that is not coded, over this one; `None` without one, or of real runs.
    pub speedup: Option<f64>,
    /// Shares of the speedup that are due to compression and to the protocol.
    pub split: Option<Split>,
    /// How the time is known.
    pub by: By,
}

/// Says of every row how much faster it is than the one that is not coded, and why.
pub(super) fn compare(rows: &mut [CollectiveRow]) {
    let native: Vec<CollectiveRow> =
        rows.iter().filter(|row| row.variant == Protocol::Native.name()).cloned().collect();
    for row in rows.iter_mut().filter(|row| !matches!(row.by, By::Execution | By::Mpi)) {
        let is_same = |other: &&CollectiveRow| (other.op, other.bytes) == (row.op, row.bytes);
        let Some(first) = native.iter().find(is_same) else { continue };
        row.speedup = Some(first.time_s / row.time_s);
        row.split = row.uncompressed_s.map(|uncompressed_s| Split {
            compression: uncompressed_s / row.time_s,
            algorithm: first.time_s / uncompressed_s,
        });
    }
}

/// Rows, and what they take for granted.
#[derive(Clone, Debug, Serialize)]
pub struct CollectiveReport {
    /// By operation, then size, then protocol.
    pub rows: Vec<CollectiveRow>,
    /// A sentence each, without a full stop.
    pub notes: Vec<String>,
}
