//! Small caches and the requests that have them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipwire_cluster::CodecCost;
use zipwire_engine::serving::{self, Coding, ServeError, Served, ServingSetup};
use zipwire_kv::{DType, Geometry};
use zipwire_payload::Rows;
use zipwire_serving::{Config, Move, Outcome, Pool, Request, Requests, Shards};

/// A model, and two pools of instances that have so many ranks each.
pub(crate) struct Scene {
    pub(crate) shards: Shards,
    pub(crate) geometry: Geometry,
    pub(crate) config: Config,
    pub(crate) requests: Requests,
    pub(crate) rows: Vec<Arc<Rows>>,
}

/// Values with the exponents of a normal distribution.
pub(crate) fn rows(planes: usize) -> Vec<Arc<Rows>> {
    (0..planes as u64).map(|plane| Arc::new(Rows::gaussian(0.5, plane))).collect()
}

/// Prompts of so many tokens that arrive so many seconds apart, with answers of three tokens.
pub(crate) fn requests(input_tokens: &[u32], apart_s: f64) -> Requests {
    let list = (0_u32..).zip(input_tokens).map(|(index, &input_tokens)| Request {
        arrival_s: f64::from(index) * apart_s,
        input_tokens,
        output_tokens: 3,
        prefix: Vec::new(),
    });
    Requests::new(list.collect(), 16)
}

pub(crate) fn config(moves: Move) -> Config {
    let pool = Pool { instances: 2, kv_tokens: 10_000, sequences: 8 };
    Config {
        prefill: pool,
        decode: pool,
        placement: zipwire_serving::Placement::default(),
        moves,
        first_token: zipwire_serving::FirstToken::default(),
        layer_groups: 2,
        chunk_tokens: 300,
        cached_blocks: 0,
    }
}

impl Scene {
    /// Grouped attention: five layers, four heads of 32 values.
    pub(crate) fn grouped([prefill, decode]: [u32; 2]) -> Self {
        let shards = Shards::grouped(5, 4, 64, 2, [prefill, decode]).unwrap();
        let geometry = Geometry::grouped(5, 4 / prefill.max(decode), 32, DType::Bf16).unwrap();
        let (config, requests) = (config(Move::Push), requests(&[700, 1, 256, 513, 300], 0.0));
        Self { shards, geometry, config, requests, rows: rows(2) }
    }

    /// Latents of 96 values in three layers.
    pub(crate) fn latent([prefill, decode]: [u32; 2]) -> Self {
        let shards = Shards::latent(3, 192, 2, [prefill, decode]).unwrap();
        let geometry = Geometry::latent(3, 96, DType::Bf16).unwrap();
        let (config, requests) = (config(Move::Push), requests(&[700, 256, 257], 0.0));
        Self { shards, geometry, config, requests, rows: rows(1) }
    }

    pub(crate) fn setup(&self, codec: Option<&str>) -> ServingSetup<'_> {
        let mut setup =
            ServingSetup::new(&self.requests, self.config, &self.shards, self.geometry, &self.rows);
        setup.coding = codec.map(coding);
        setup
    }

    /// Uncoded bytes of all caches.
    pub(crate) fn bytes(&self) -> u64 {
        let tokens = self.requests.list().iter().map(|request| request.input_tokens).sum();
        self.shards.bytes(tokens, self.shards.layers())
    }
}

/// A codec that costs nothing, groups of which move while others are coded.
pub(crate) fn coding(spec: &str) -> Coding {
    Coding { spec: spec.parse().unwrap(), cost: CodecCost::FREE, is_pipelined: true }
}

pub(crate) fn run(setup: &ServingSetup<'_>) -> Result<Served, ServeError> {
    serving::run(setup, &AtomicBool::new(false))
}

/// Whether all is as it should be at the end, whatever has become of requests.
#[track_caller]
pub(crate) fn assert_tidy(served: &Served) {
    assert_eq!(served.census.in_flight, 0, "{:?}", served.census);
    assert_eq!(served.census.arrived, served.census.finished + served.census.failed);
    assert_eq!(served.totals.buffers_in_use, 0, "{:?}", served.totals);
}

/// Whether all requests were served.
#[track_caller]
pub(crate) fn assert_served(served: &Served) {
    assert_tidy(served);
    let outcomes = served.recorder.records().iter().map(|record| record.outcome);
    assert!(outcomes.into_iter().all(|outcome| outcome == Outcome::Finished));
}
