//! Serving for real: the machine of `zipwire-serving` decides, ranks move the bytes of KV caches.
//!
//! A *coordinator* tells the machine what has happened, and ranks what to do. Ranks compute for as long as that is declared to take, and
//! move caches as *groups*: what one layer has for up to 256 tokens, coded by `zipwire-kv` or as it is. What a group holds is drawn from
//! recorded values by a stream of its own, so the receiver compares every byte with what must have come, and a group that is stale or
//! went astray is noticed.
//!
//! A shard of a flow has at most two groups in buffers at each end: one is coded while the other one moves, and who cannot keep up holds
//! back the other. So a rank needs two groups of memory for each shard that it sends or receives, of which it begins with 256 at the most, and
//! one more that stands for the pages of its cache. Flows that are not pipelined have all of their groups in memory.
//!
//! A run is *paced*, as those of [`threads`](crate::threads) are: links are those of a cluster, and what is declared takes its time, all of
//! it so many times slower. Then what users wait is what a simulation says. Or it goes as fast as it can, and its times are those of this
//! machine.
//!
//! Requests whose users go away, and instances that die, are part of what is served: all that was theirs is let go of. What is not
//! expected ends the run, with a [`ServeError`] that names rank and request.

mod agenda;
mod buffers;
mod coordinator;
mod dilation;
mod error;
mod groups;
mod job;
mod message;
mod processes;
mod rank;
mod served;
mod setup;
mod stream;
mod threads;
mod values;

use zipwire_schedule::SegmentId;
use zipwire_serving::RequestId;

pub use self::dilation::least_dilation;
pub use self::error::ServeError;
pub(crate) use self::processes::{Process, serve};

pub use self::message::{Command, Message, Offer, Order, Report, ShardId, Totals};
pub use self::served::{Lost, Served};
pub use self::setup::{Coding, Damage, Fault, Instance, LOST_AFTER, Pace, Setup};
pub use self::threads::run;

/// The segment of a request: the first one is for what no request has alone.
fn segment(request: RequestId) -> SegmentId {
    SegmentId(request.0 + 1)
}
