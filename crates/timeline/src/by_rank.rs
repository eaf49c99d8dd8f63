//! What each rank does in an iteration, and how uneven ranks are: the parts of what [`Metrics`](crate::Metrics) averages.

use serde::Serialize;

use crate::Imbalance;

/// The numbers of each rank, in the order of ranks: means over iterations. Times as in [`Metrics`](crate::Metrics), in seconds; the mean of
/// one over ranks is the number of the same name there.
///
/// `summary.json` has the waiting and the imbalance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ByRank {
    /// The rank does the model's own work.
    #[serde(skip)]
    pub compute_s: Vec<f64>,
    /// A transfer of the rank is in latency or moving.
    #[serde(skip)]
    pub comm_s: Vec<f64>,
    /// An exchange of the rank is open and none of its transfers is, or the rank is done and others are not.
    #[serde(rename = "wait_s_by_rank")]
    pub wait_s: Vec<f64>,
    /// The rank encodes or decodes.
    #[serde(skip)]
    pub codec_s: Vec<f64>,
    /// Bytes that the rank received, headers, sizes and padding included, rounded to the nearest.
    #[serde(skip)]
    pub bytes_received: Vec<u64>,
    /// How uneven they are.
    pub imbalance: Imbalances,
}

/// How uneven ranks are; `None` where all have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Imbalances {
    /// Of received bytes, all exchanges of an iteration together.
    pub received: Option<Imbalance>,
    /// Of compute time.
    pub compute: Option<Imbalance>,
    /// Of waiting.
    pub wait: Option<Imbalance>,
}
