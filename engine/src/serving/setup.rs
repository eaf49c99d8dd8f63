//! Setup of a serving run: requests, pools, cache and cluster.

use std::sync::Arc;
use std::time::Duration;

use zipwire_cluster::{CodecCost, HostCost, Rank, Topology};
use zipwire_kv::{Geometry, Spec};
use zipwire_payload::Rows;
use zipwire_serving::{ComputeTime, Config, RequestId, Requests, Shards, Trouble};

use super::Served;
use crate::report::STUCK_AFTER;

/// Silence after which a rank is declared lost.
pub const LOST_AFTER: Duration = Duration::from_secs(5);

/// Inputs and settings of a run: the same on all ranks.
#[derive(Debug)]
pub struct ServingSetup<'a> {
    /// The requests.
    pub requests: &'a Requests,
    /// Pools and rules.
    pub config: Config,
    /// Durations of computing, in seconds of the cluster.
    pub compute: ComputeTime,
    /// Shards of a cache: the ranks that send and receive each part.
    pub shards: &'a Shards,
    /// The cache as one shard has it: all layers, and of each the heads, or the latent, that one rank sends to another.
    pub geometry: Geometry,
    /// How caches are coded; `None` moves them uncoded.
    pub coding: Option<Coding>,
    /// Recorded values of keys and of values, or of latents: rows of the geometry's type for each of its planes.
    pub rows: &'a [Arc<Rows>],
    /// Seed of the rows that are drawn.
    pub seed: u64,
    /// Launches, and what compute loses to codecs and transfers. Nothing of it counts unless the run is paced.
    pub host: HostCost,
    /// Seconds before the first flow of each request, in which both ends agree, if the run is paced.
    pub handshake_s: f64,
    /// The cluster that the run stands for. Without one, links run as fast as they can, and codecs, launches and handshakes take the time they
    /// take.
    pub pace: Option<Pace<'a>>,
    /// Seconds of this machine for a second of computing, and between arrivals, if the run is not paced; 0 takes no time.
    pub time_scale: f64,
    /// Codec ops that work at a time on this machine.
    pub cores: usize,
    /// Whether received groups are verified against their checksums and against regenerated values.
    pub verifies: bool,
    /// Cancellations by users and deaths of instances, with times in seconds as those of arrivals. A dead instance falls silent, which is noticed
    /// after [`Self::lost_after`].
    pub troubles: &'a [Trouble],
    /// Latest end of the run, even if requests are still being served, in the same seconds; `None` runs until all have ended.
    pub until_s: Option<f64>,
    /// Groups that are damaged or lost on their way.
    pub faults: &'a [Fault],
    /// The longest standstill.
    pub stuck_after: Duration,
    /// The longest silence of a rank.
    pub lost_after: Duration,
    /// Spans that are kept at the most, shared out among ranks.
    pub span_limit: usize,
}

/// How caches are coded.
#[derive(Clone, Debug, PartialEq)]
pub struct Coding {
    /// The codec.
    pub spec: Spec,
    /// Declared cost of coding, if the run is paced. Its launch is paid once for each shard and end.
    pub cost: CodecCost,
    /// Whether groups move while others are coded; otherwise all of a shard is encoded, moved and decoded one after the other, in memory for
    /// all of its groups.
    pub is_pipelined: bool,
}

/// A cluster, and how much slower this machine plays it.
#[derive(Clone, Copy, Debug)]
pub struct Pace<'a> {
    /// Links and latencies of as many ranks as the pools have or more.
    pub topology: &'a Topology,
    /// Seconds of this machine for a second of the cluster, at least 1.
    pub dilation: f64,
}

/// An instance of either pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instance {
    /// One that computes prompts.
    Prefill(u32),
    /// One that generates tokens.
    Decode(u32),
}

/// Damage to a group on its way, in each part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The request that owns the cache.
    pub request: RequestId,
    /// The layer.
    pub layer: u32,
    /// Kind of damage.
    pub damage: Damage,
}

/// Kind of damage to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The lowest bit of byte `n` modulo the group's length is flipped.
    Flip(u64),
    /// The group never arrives.
    Drop,
}

impl<'a> ServingSetup<'a> {
    /// Serves as fast as it goes, on two cores at the most, compares all that comes, and codes nothing.
    pub fn new(
        requests: &'a Requests,
        config: Config,
        shards: &'a Shards,
        geometry: Geometry,
        rows: &'a [Arc<Rows>],
    ) -> Self {
        Self {
            requests,
            config,
            compute: ComputeTime::default(),
            shards,
            geometry,
            coding: None,
            rows,
            seed: 0,
            host: HostCost::default(),
            handshake_s: 0.0,
            pace: None,
            time_scale: 0.0,
            cores: 2,
            verifies: true,
            troubles: &[],
            until_s: None,
            faults: &[],
            stuck_after: STUCK_AFTER,
            lost_after: LOST_AFTER,
            span_limit: 1 << 20,
        }
    }
}

/// Least ratio of declared time to real work.
const MARGIN: f64 = 3.0;

/// The least dilation with which real work takes no more than a third of the time that is declared for it, even while all ranks code, or
/// fill links with what is not coded, at the same time. `measured` is what an unpaced run of the same setup came to.
pub fn least_dilation(setup: &ServingSetup<'_>, topology: &Topology, measured: &Served) -> f64 {
    let Served { bytes_raw, bytes_wire, totals, .. } = measured;
    if *bytes_raw == 0 {
        return 1.0;
    }
    let (raw, config, shards) = (*bytes_raw as f64, &setup.config, setup.shards);
    let first = Rank(shards.prefill_ranks(0).start);
    let route = topology.route(first, Rank(shards.decode_ranks(0).start));
    let capacities = topology.capacities();
    let link = route.links().iter().map(|link| capacities[link.index()]).fold(f64::INFINITY, f64::min);
    // In bytes of values, as coders are.
    let link = link * raw / *bytes_wire as f64;
    let cost = setup.coding.as_ref().map(|coding| coding.cost);
    let encode = link.min(cost.map_or(f64::INFINITY, |cost| cost.encode_bytes_per_s));
    let decode = link.min(cost.map_or(f64::INFINITY, |cost| cost.decode_bytes_per_s));
    // Cores that one rank keeps busy where a second takes a second.
    let works = [encode * totals.encode_s / raw, decode * totals.decode_s / raw];
    let prefill = config.prefill.instances as usize * shards.prefill_ranks(0).len();
    let decode = config.decode.instances as usize * shards.decode_ranks(0).len();
    let all = (works[0] * prefill as f64 + works[1] * decode as f64) / setup.cores.max(1) as f64;
    (MARGIN * works[0].max(works[1]).max(all)).max(1.0)
}
