//! Serving with prefill and decode apart: which requests there are, where each goes, and when its KV cache moves.
//!
//! A [`Machine`] decides for all instances: it is told what has happened ([`Input`]) and answers with what is to be done ([`Step`]).
//! It knows no clock, no network and no codec, so a simulation and a real run make the same decisions. What prefill and decode take
//! is in [`ComputeTime`]; [`Shards`] says which rank sends what of a cache to which; a [`Recorder`] keeps when things happened, and
//! [`Metrics`] are the numbers that serving people compare: times to the first token and between tokens, and goodput.
//!
//! It is not a model of an engine's scheduler in every detail: an instance prefills one request at a time, in chunks, and a decode
//! instance reserves room for all tokens of a request before it takes it, so nothing is ever preempted.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "in tests a panic is the report"))]

mod compute;
mod config;
mod machine;
mod metrics;
mod record;
mod request;
mod shards;

pub use compute::{ComputeTime, Computing, DecodeTime, PrefillTime, WeightTime};
pub use config::{Config, FirstToken, Move, Placement, Pool};
pub use machine::{Census, DecodeStep, Flow, FlowId, Input, Loss, Machine, PrefillStep, Step, Trouble};
pub use metrics::{Metrics, Percentiles, Slo, Summary};
pub use record::{FailReason, Moment, Outcome, Record, Recorder};
pub use request::{Request, RequestId, Requests};
pub use shards::{Shard, ShardError, Shards};
