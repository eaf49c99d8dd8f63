//! What is to be served, and on what.

use std::sync::Arc;
use std::time::Duration;

use zipwire_cluster::{CodecCost, HostCost, Topology};
use zipwire_kv::{Geometry, Spec};
use zipwire_payload::Rows;
use zipwire_serving::{ComputeTime, Config, RequestId, Requests, Shards, Trouble};

use crate::report::STUCK_AFTER;

/// After so long a silence a rank is taken for lost.
pub const LOST_AFTER: Duration = Duration::from_secs(5);

/// All that a run depends on: the same on all ranks.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The requests.
    pub requests: &'a Requests,
    /// Pools and rules.
    pub config: Config,
    /// What computing takes, in seconds of the cluster.
    pub compute: ComputeTime,
    /// Who sends what to whom.
    pub shards: &'a Shards,
    /// The cache as one shard has it: all layers, and of each the heads, or the latent, that one rank sends to another.
    pub geometry: Geometry,
    /// How caches are coded; `None` moves them as they are.
    pub coding: Option<Coding>,
    /// Recorded values of keys and of values, or of latents: rows of the geometry's type for each of its planes.
    pub rows: &'a [Arc<Rows>],
    /// From which seed rows are drawn.
    pub seed: u64,
    /// Launches, and what compute loses to codecs and transfers. Nothing of it counts unless the run is paced.
    pub host: HostCost,
    /// Seconds before the first flow of each request, in which both ends agree, if the run is paced.
    pub handshake_s: f64,
    /// The cluster that the run stands for; without one links are as fast as they are, and codecs, launches and handshakes take what they
    /// take.
    pub pace: Option<Pace<'a>>,
    /// Seconds of this machine for a second of computing, and between arrivals, if the run is not paced; 0 takes no time.
    pub time_scale: f64,
    /// Codec ops that work at a time on this machine.
    pub cores: usize,
    /// Whether what comes is held against its checksum, and against what must have come.
    pub verifies: bool,
    /// What goes wrong, in seconds as those of arrivals: users go away, and instances stop doing and saying anything, which is noticed
    /// after [`Self::lost_after`].
    pub troubles: &'a [Trouble],
    /// When the run ends at the latest, whoever is still served, in the same seconds; `None` is when all have ended.
    pub until_s: Option<f64>,
    /// What happens to bytes on their way.
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
    /// What coding is declared to cost a rank, if the run is paced. Its launch is paid once for each shard and end.
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

/// What happens to a group on its way, in each part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of whose cache.
    pub request: RequestId,
    /// Which layer.
    pub layer: u32,
    /// What happens.
    pub damage: Damage,
}

/// What can happen to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The lowest bit of a byte, modulo the number of them, is another one.
    Flip(u64),
    /// It never arrives.
    Drop,
}

impl<'a> Setup<'a> {
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
