//! Simulated serving against closed forms, queueing theory and plain simulations of the same.

mod alone;
mod batch;
mod conserved;
mod ends;
mod pieces;
mod queues;
mod scale;
mod slowdown;

use zipwire_cluster::{HostCost, NetworkModel, Topology};
use zipwire_serving::{
    ComputeTime, Config, DecodeTime, FirstToken, Move, Placement, Pool, PrefillTime, Record, Request,
    Requests, Shards,
};
use zipwire_sim::serving::{Coding, Served, SimServingSetup, run};

use crate::common::nodes;

/// A setup that owns what it is of. Every test changes what it is about.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) requests: Requests,
    pub(crate) config: Config,
    pub(crate) compute: ComputeTime,
    pub(crate) shards: Shards,
    pub(crate) topology: Topology,
    pub(crate) host: HostCost,
    pub(crate) handshake_s: f64,
    pub(crate) coding: Option<Coding>,
    pub(crate) until_s: Option<f64>,
}

/// Bytes per second of a NIC.
pub(crate) const BANDWIDTH: f64 = 1e6;
/// Bytes that a shard has of a token and layer.
pub(crate) const TOKEN_BYTES: u64 = 100;
pub(crate) const LAYERS: u32 = 8;
pub(crate) const LATENCY_S: f64 = 0.125;

pub(crate) fn request(input_tokens: u32, output_tokens: u32) -> Request {
    arriving(0.0, input_tokens, output_tokens)
}

pub(crate) fn arriving(arrival_s: f64, input_tokens: u32, output_tokens: u32) -> Request {
    Request { arrival_s, input_tokens, output_tokens, prefix: Vec::new() }
}

impl Case {
    /// So many instances of one rank each, every rank on a node of its own: a NIC limits each transfer. Nothing else takes time.
    pub(crate) fn new(prefill: u32, decode: u32, requests: Vec<Request>) -> Self {
        let pool = |instances| Pool { instances, kv_tokens: u64::MAX / 4, sequences: u32::MAX };
        Self {
            requests: Requests::new(requests, Requests::BLOCK_TOKENS),
            config: Config {
                prefill: pool(prefill),
                decode: pool(decode),
                placement: Placement::LeastLoaded,
                moves: Move::Push,
                first_token: FirstToken::Decode,
                layer_groups: 1,
                chunk_tokens: u32::MAX,
                cached_blocks: 0,
            },
            compute: ComputeTime { prefill: PrefillTime::default(), decode: DecodeTime::default() },
            shards: Shards::grouped(LAYERS, 1, TOKEN_BYTES / 2, prefill, [1, 1]).unwrap(),
            topology: nodes(prefill + decode, 1, [1e12, BANDWIDTH], [LATENCY_S; 2]),
            host: HostCost::default(),
            handshake_s: 0.0,
            coding: None,
            until_s: None,
        }
    }

    pub(crate) fn setup(&self) -> SimServingSetup<'_> {
        SimServingSetup {
            requests: &self.requests,
            config: self.config,
            compute: self.compute,
            shards: &self.shards,
            topology: &self.topology,
            model: NetworkModel::MaxMin,
            host: self.host,
            handshake_s: self.handshake_s,
            coding: self.coding,
            troubles: &[],
            until_s: self.until_s,
            span_limit: 1000,
        }
    }

    pub(crate) fn run(&self) -> Served {
        run(&self.setup(), &|| true).unwrap()
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.run().recorder.records().to_vec()
    }
}

pub(crate) fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found} s, expected {expected} s");
}
