//! Workload `serving`, resolved: requests, pools, what computing takes and what caches are.

use std::sync::Arc;

use zipwire_kv::Geometry;
use zipwire_serving::{ComputeTime, Config, Requests, Shards, Slo, Trouble};

/// Everything about serving that is not the cluster's, a codec's or the payload's.
#[derive(Clone, Debug, PartialEq)]
pub struct Serving {
    /// The requests.
    pub requests: Arc<Requests>,
    /// Pools and rules.
    pub config: Config,
    /// Compute time of prefill and decode.
    pub compute: ComputeTime,
    /// Which rank sends what of a cache to which.
    pub shards: Shards,
    /// Layout of a shard: its heads of keys and values, or the latent. Groups are coded separately.
    pub geometry: Geometry,
    /// Latencies that users are promised.
    pub slo: Slo,
    /// Seconds before the first flow of each request, in which both ends agree.
    pub handshake_s: f64,
    /// Whether pieces move while others are coded.
    pub is_pipelined: bool,
    /// Losses of instances and cancelled requests, in the order of time.
    pub troubles: Vec<Trouble>,
    /// End of the run, even if requests are still served.
    pub until_s: Option<f64>,
}
