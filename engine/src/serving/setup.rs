//! Setup of a serving run: requests, pools, cache and cluster.

use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_128;
use zipwire_cluster::{CodecCost, HostCost, Rank, Topology};
use zipwire_kv::{Geometry, KvCodec, Spec};
use zipwire_payload::Rows;
use zipwire_serving::{ComputeTime, Config, Loss, RequestId, Requests, Shards, Trouble};

use super::groups::{Groups, Values};
use super::{ServeError, Served};
use crate::report::{Hello, STUCK_AFTER, announced};

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

/// Shards that a rank sends at a time; others wait for their turn.
pub(super) const OPEN: usize = 256;
/// Groups of a shard that a rank has in buffers at a time: one is coded while the other one moves.
pub(super) const WINDOW: u32 = 2;
/// Greatest number of buffers of a rank; they are allocated when needed.
pub(super) const ROOM: usize = 1 << 16;

/// Setup and derived values that all ranks and the coordinator share.
pub(super) struct Job<'a> {
    pub(super) setup: &'a ServingSetup<'a>,
    pub(super) codec: Option<KvCodec>,
    pub(super) values: Values<'a>,
    pub(super) ranks: u32,
}

impl<'a> Job<'a> {
    /// # Errors
    /// If something in the setup does not fit something else.
    pub(super) fn new(setup: &'a ServingSetup<'a>) -> Result<Self, ServeError> {
        let &ServingSetup { config, shards, geometry, rows, .. } = setup;
        let refuse = |why: String| Err(ServeError::Setup(why));
        if geometry.layers() != shards.layers() {
            return refuse(format!(
                "a cache of {} layers for a model of {}",
                geometry.layers(),
                shards.layers()
            ));
        }
        let token_bytes = (geometry.planes() * geometry.row_len()) as u64;
        if token_bytes != shards.token_bytes() {
            let expected = shards.token_bytes();
            return refuse(format!("{token_bytes} B for a token and layer, where a shard has {expected} B"));
        }
        if rows.len() != geometry.planes() {
            let (found, planes) = (rows.len(), geometry.planes());
            return refuse(format!("recorded values for {found} planes of a cache that has {planes}"));
        }
        let width = geometry.dtype().width();
        if let Some(rows) = rows.iter().find(|rows| !rows.row_bytes().is_multiple_of(width)) {
            let (bytes, dtype) = (rows.row_bytes(), geometry.dtype());
            return refuse(format!("recorded rows of {bytes} B are no whole values of `{dtype}`"));
        }
        let ranks = shards.ranks(config.decode.instances);
        if let Some(pace) = setup.pace {
            if pace.topology.ranks() < ranks {
                let found = pace.topology.ranks();
                return refuse(format!("{ranks} ranks serve on a cluster of {found}"));
            }
            if !(pace.dilation >= 1.0 && pace.dilation.is_finite()) {
                return refuse(format!("a dilation of {}: it is 1 or more", pace.dilation));
            }
        }
        if !(setup.time_scale >= 0.0 && setup.time_scale.is_finite()) {
            return refuse(format!("a time scale of {}: it is 0 or more", setup.time_scale));
        }
        let exists = |what: &Loss| match *what {
            Loss::Request(request) => request.index() < setup.requests.len(),
            Loss::Prefill(instance) => instance < config.prefill.instances,
            Loss::Decode(instance) => instance < config.decode.instances,
        };
        if let Some(Trouble { what, .. }) = setup.troubles.iter().find(|trouble| !exists(&trouble.what)) {
            return refuse(format!("{what:?} is lost, and there is no such thing"));
        }
        let codec = setup.coding.as_ref().map(|coding| KvCodec::new(geometry, coding.spec.clone()));
        let values = Values { seed: setup.seed, rows };
        Ok(Self { setup, codec: codec.transpose()?, values, ranks })
    }

    pub(super) fn coordinator(&self) -> Rank {
        Rank(self.ranks)
    }

    /// Seconds of the transport's clock for a second of the run.
    pub(super) fn dilation(&self) -> f64 {
        self.setup.pace.map_or(1.0, |pace| pace.dilation)
    }

    /// Duration of computing, or of waiting for the next arrival, in seconds of the run.
    pub(super) fn compute_s(&self, seconds: f64) -> f64 {
        if self.setup.pace.is_some() { seconds } else { seconds * self.setup.time_scale }
    }

    /// Duration of any other declared work in seconds of the run; 0 if it is not paced.
    pub(super) fn declared_s(&self, seconds: f64) -> f64 {
        if self.setup.pace.is_some() { seconds } else { 0.0 }
    }

    /// Bytes of a group of so many tokens as it is.
    pub(super) fn raw_bytes(&self, tokens: u32) -> u64 {
        self.setup.shards.token_bytes() * u64::from(tokens)
    }

    /// Bytes of a buffer that has room for any group.
    pub(super) fn buffer_bytes(&self) -> u64 {
        let tokens = self.setup.geometry.group_tokens();
        self.codec.as_ref().map_or(self.raw_bytes(tokens), |codec| codec.bound(tokens) as u64)
    }

    /// Groups of a shard that are in buffers of one end at a time.
    pub(super) fn window(&self, groups: u32) -> u32 {
        if self.is_pipelined() { WINDOW } else { groups }
    }

    /// Whether groups of a shard move before all are coded.
    pub(super) fn is_pipelined(&self) -> bool {
        self.setup.coding.as_ref().is_none_or(|coding| coding.is_pipelined)
    }

    /// Seconds of launching what codes a shard at one end, before it or behind it. Where groups move while others are coded, the coder goes on
    /// with other shards meanwhile; otherwise it is busy.
    pub(super) fn launch_s(&self, is_beside: bool) -> f64 {
        let coding = self.setup.coding.as_ref();
        coding.filter(|coding| coding.is_pipelined == is_beside).map_or(0.0, |coding| coding.cost.launch_s)
    }

    pub(super) fn groups(&self, layers: [u32; 2], tokens: [u32; 2]) -> Groups {
        Groups { layers, tokens, most: self.setup.geometry.group_tokens() }
    }

    pub(super) fn instance_of(&self, rank: Rank) -> Instance {
        let shards = self.setup.shards;
        let is_of = |ranks: std::ops::Range<u32>| ranks.contains(&rank.0);
        let mut prefill = 0..self.setup.config.prefill.instances;
        let found = prefill.find(|&instance| is_of(shards.prefill_ranks(instance))).map(Instance::Prefill);
        found.unwrap_or_else(|| {
            let mut decode = 0..self.setup.config.decode.instances;
            let found = decode.find(|&instance| is_of(shards.decode_ranks(instance)));
            Instance::Decode(found.expect("every rank is part of an instance"))
        })
    }

    pub(super) fn ranks_of(&self, instance: Instance) -> std::ops::Range<u32> {
        match instance {
            Instance::Prefill(index) => self.setup.shards.prefill_ranks(index),
            Instance::Decode(index) => self.setup.shards.decode_ranks(index),
        }
    }

    /// When an instance dies; infinite if it does not.
    pub(super) fn death_s(&self, instance: Instance) -> f64 {
        let is_it = |what: Loss| match instance {
            Instance::Prefill(index) => what == Loss::Prefill(index),
            Instance::Decode(index) => what == Loss::Decode(index),
        };
        let deaths = self.setup.troubles.iter().filter(|trouble| is_it(trouble.what));
        deaths.map(|trouble| self.compute_s(trouble.at_s)).fold(f64::INFINITY, f64::min)
    }

    /// Damage to a group on its way, if a fault names it.
    pub(super) fn damage(&self, request: RequestId, layer: u32) -> Option<super::Damage> {
        let fault = self.setup.faults.iter().find(|fault| (fault.request, fault.layer) == (request, layer));
        fault.map(|fault| fault.damage)
    }

    /// Handshake that ranks compare before the run begins.
    pub(super) fn hello(&self) -> Hello {
        let ServingSetup { requests, config, compute, shards, geometry, coding, seed, troubles, .. } =
            self.setup;
        let rows: Vec<u128> = self.setup.rows.iter().map(|rows| rows.digest()).collect();
        let all = format!(
            "{requests:?} {config:?} {compute:?} {shards:?} {geometry} {coding:?} {rows:?} {seed} {troubles:?}"
        );
        let codec = coding.as_ref().zip(self.codec.as_ref());
        Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            plan: format!("serving {:032x}", xxh3_128(all.as_bytes())),
            codec: codec.map_or_else(String::new, |(coding, codec)| {
                format!("{}, groups {:016x}", announced(&coding.spec), codec.compatibility())
            }),
        }
    }
}
