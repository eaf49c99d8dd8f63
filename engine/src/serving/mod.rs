//! Serving for real: the machine of `zipwire-serving` decides, ranks move the bytes of KV caches.
//!
//! A *coordinator* tells the machine what has happened, and ranks what to do. Ranks compute for as long as is declared, and
//! move caches as *groups*: one layer of up to 256 tokens, coded by `zipwire-kv` or uncoded. The values of a group are drawn from
//! recorded values by a stream of its own, so the receiver verifies every byte against regenerated values, and a group that is stale or
//! misrouted is noticed.
//!
//! A shard of a flow has at most two groups in buffers at each end: one is coded while the other one moves, and the slower end holds
//! back the other. So a rank needs two groups of memory for each shard that it sends or receives (at most 256 of them are sent at a time), and
//! one more that stands for the pages of its cache. Flows that are not pipelined have all of their groups in memory.
//!
//! A run may be *paced*, as those of [`threads`](crate::threads) are: links are those of a cluster, and declared work takes its time, all of
//! it slower by the dilation. Latencies of users are then those of a simulation. Otherwise it runs as fast as it can, and its times are those of this
//! machine.
//!
//! Cancelled requests and instances that die are part of a run: everything they held is released. Unexpected failures
//! end the run, with a [`ServeError`] that names rank and request.

mod coordinator;
mod groups;
mod message;
mod rank;
mod run;
mod setup;

use zipwire_schedule::SegmentId;
use zipwire_serving::RequestId;

pub(crate) use self::run::{Process, serve};

pub use self::message::{Command, Message, Offer, Order, ServingReport, ShardId, Totals};
pub use self::run::{Lost, ServeError, Served, run};
pub use self::setup::{Coding, Damage, Fault, Instance, LOST_AFTER, Pace, ServingSetup, least_dilation};

/// The segment of a request. Segment 0 is for work that requests share.
fn segment(request: RequestId) -> SegmentId {
    SegmentId(request.0 + 1)
}
