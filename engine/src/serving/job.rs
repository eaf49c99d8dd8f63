//! A checked setup, and values derived from it.

use xxhash_rust::xxh3::xxh3_128;
use zipwire_kv::KvCodec;
use zipwire_schedule::Rank;
use zipwire_serving::{Loss, RequestId, Trouble};

use super::groups::Groups;
use super::groups::Values;
use super::{Instance, ServeError, ServingSetup};
use crate::handshake::Hello;

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
    /// Ranks of both pools.
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

    /// The address of the coordinator.
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

    /// The groups of some layers and tokens.
    pub(super) fn groups(&self, layers: [u32; 2], tokens: [u32; 2]) -> Groups {
        Groups { layers, tokens, most: self.setup.geometry.group_tokens() }
    }

    /// The instance that a rank is part of.
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

    /// The ranks of an instance.
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
                format!("{}, groups {:016x}", coding.spec, codec.compatibility())
            }),
        }
    }
}
